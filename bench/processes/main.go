// Processes compares this library, client-go and controller-runtime. Each runs in its own process, against a server in
// another one that has all its responses encoded beforehand.
//
//	go run ./processes # prints all tables
//	go run ./processes -wires 'plain HTTP/1.1' -scale -write # writes bench/results/http1.md, with charts
//	go run ./processes -server kube-apiserver -pods 20000 # with a real server
//
// workload.go has the work of a client process. peers.go lists the compared peers; informer.go, clientgo.go and
// controllerruntime.go connect them. realserver.go has what differs with a real server. report.go, goals.go and charts.go present the figures.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/typedinformer/informer/bench/internal/canned"
)

func main() {
	log.SetFlags(log.Ltime)
	var o options
	flag.IntVar(&o.Pods, "pods", 30_000, "number of pods")
	flag.IntVar(&o.Runs, "runs", 6, "number of runs of each process")
	flag.IntVar(&o.Changes, "changes", 30_000, "number of changes sent as fast as they are read")
	flag.IntVar(&o.Paced, "paced", 5_000, "number of changes sent at -rate")
	flag.IntVar(&o.Rate, "rate", 1_000, "number of these changes a second")
	flag.IntVar(&o.Padding, "padding", 0, "bytes that each pod has more, in an environment variable")
	flag.IntVar(&o.Handlers, "handlers", 1, "number of handlers of each informer")
	flag.IntVar(&o.Informers, "informers", 1, "number of informers of a client process, which all follow the same pods")
	flag.StringVar(&o.Peers, "peers", "", "only measure peers whose name matches this regular expression")
	flag.StringVar(&o.Save, "save", "", "save all results in this file after each round")
	flag.StringVar(&o.Profiles, "profiles", "",
		"write profiles of each step of each client process into this directory: of the processor, and of what the process\n"+
			"has allocated since its start (see -diff_base of go tool pprof)")
	flag.StringVar(&o.Server, "server", "",
		"kube-apiserver: a real one, with an etcd, that writes -paced changes of statuses at -rate, for the peers of realserver.go;\n"+
			"empty means a server that has all its answers encoded beforehand")
	dir := flag.String("dir", "", "the folder of a real server; used by the program itself")
	formats := flag.String("formats", canned.JSON+","+canned.Protobuf, "media types; the one of metadata only is "+canned.Metadata)
	wires := flag.String("wires", string(canned.HTTP2+","+canned.Plain), "how clients speak to the server")
	maxMemory := flag.Int64("max-memory", 0,
		"memory limit of a process in MB; 0 means three quarters of the machine's available memory")
	scale := flag.Bool("scale", false, "also measure by number of pods, handlers and informers")
	sizes := flag.String("sizes", "1000,10000,100000,300000", "numbers of pods for -scale")
	counts := flag.String("counts", "1,10,100", "numbers of handlers and of informers for -scale")
	micro := flag.String("micro", "run",
		"the root package's benchmarks for the goals: run, none, or a file with the output of go test -bench")
	binaries := flag.Bool("binaries", true, "build the minimal controllers, for their size")
	load := flag.String("load", "", "measure nothing: show the results that -save kept in this file")
	write := flag.Bool("write", false, "write the report into results/http1.md and charts/, instead of standard output")
	as := flag.String("as", "", "server or client; used by the program itself")
	job := flag.String("job", "", "the job of a client; used by the program itself")
	flag.Parse()
	for _, arg := range os.Args[1:] {
		if strings.ContainsAny(arg, " |()^$*") {
			arg = "'" + arg + "'"
		}
		o.Command = strings.TrimSpace(o.Command + " " + arg)
	}
	o.Formats = strings.Split(*formats, ",")
	for wire := range strings.SplitSeq(*wires, ",") {
		o.Wires = append(o.Wires, canned.Wire(wire))
	}
	o.MaxMemory = *maxMemory << 20
	var err error
	if *scale {
		if o.Sizes, err = numbers(*sizes); err == nil {
			o.Counts, err = numbers(*counts)
		}
	}
	switch {
	case err != nil:
	case o.Server != "" && o.Server != realServer:
		err = fmt.Errorf("-server is %q: it must be %s or empty", o.Server, realServer)
	case *as == "server":
		err = serve(o, *dir)
	case *as == "client":
		err = work(*job)
	default:
		err = report(o, *load, *micro, *binaries, *write)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func numbers(list string) (numbers []int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// report measures everything, or loads saved results, and shows them.
func report(o options, load, micro string, binaries, write bool) error {
	r := new(results)
	if load != "" {
		kept, err := os.ReadFile(load)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(kept, r); err != nil {
			return err
		}
	} else {
		var err error
		if r, err = compare(o); err != nil {
			return err
		}
		if binaries && o.Server != realServer {
			if r.Binaries, err = buildMinimal(); err != nil {
				return err
			}
		}
	}
	if r.Options.Server != realServer && (load == "" || micro != "run") {
		if err := r.addMicro(micro); err != nil {
			return err
		}
	}
	if err := r.save(); err != nil {
		return err
	}
	if r.Options.Server == realServer {
		fmt.Print(r.realMarkdown())
		return r.failures()
	}
	if write {
		if err := r.write("results/http1.md", "charts"); err != nil {
			return err
		}
	} else {
		fmt.Print(r.markdown(nil))
	}
	return r.failures()
}

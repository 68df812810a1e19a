// Processes measures this library, client-go and controller-runtime beside each other: each in a process of its own,
// against a server in another one that has all its answers encoded before.
//
//	go run ./processes                  # prints all tables
//	go run ./processes -scale -write    # measures how the cost grows, too, and writes BENCHMARKS.md and charts
//
// What a client process does is in workload.go; peers.go has what is compared, and informer.go, clientgo.go and
// controllerruntime.go how each of them does it; report.go, goals.go and charts.go show the figures.
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
	flag.IntVar(&o.Pods, "pods", 30_000, "how many pods there are")
	flag.IntVar(&o.Runs, "runs", 6, "how often each process is run")
	flag.IntVar(&o.Changes, "changes", 30_000, "how many changes come as fast as they are read")
	flag.IntVar(&o.Paced, "paced", 5_000, "how many changes come one by one")
	flag.IntVar(&o.Rate, "rate", 1_000, "how many of them a second")
	flag.StringVar(&o.Peers, "peers", "", "only measure peers whose name matches this regular expression")
	flag.StringVar(&o.Save, "save", "", "keep all results in this file, after each round")
	flag.StringVar(&o.Profiles, "profiles", "", "write a processor profile of each step of each client process into this directory")
	formats := flag.String("formats", canned.JSON+","+canned.Protobuf, "media types")
	maxMemory := flag.Int64("max-memory", 0, "MB that a process may take before it is ended; 0 is three quarters of what the machine has left")
	scale := flag.Bool("scale", false, "measure by number of pods, handlers and informers, too")
	sizes := flag.String("sizes", "1000,10000,100000,300000", "numbers of pods for -scale")
	counts := flag.String("counts", "1,10,100", "numbers of handlers and of informers for -scale")
	micro := flag.String("micro", "run", "the benchmarks of the root package that are goals: run them, take them from a file with the output of go test -bench, or none")
	binaries := flag.Bool("binaries", true, "build the minimal controllers, for their size")
	load := flag.String("load", "", "measure nothing: show the results that -save kept in this file")
	write := flag.Bool("write", false, "write the report into ../BENCHMARKS.md and charts/, rather than to standard output")
	as := flag.String("as", "", "server or client; used by the program itself")
	job := flag.String("job", "", "what a client does; used by the program itself")
	flag.Parse()
	for _, arg := range os.Args[1:] {
		if strings.ContainsAny(arg, " |()^$*") {
			arg = "'" + arg + "'"
		}
		o.Command = strings.TrimSpace(o.Command + " " + arg)
	}
	o.Formats = strings.Split(*formats, ",")
	o.MaxMemory = *maxMemory << 20
	var err error
	if *scale {
		if o.Sizes, err = numbers(*sizes); err == nil {
			o.Counts, err = numbers(*counts)
		}
	}
	switch {
	case err != nil:
	case *as == "server":
		err = serve(o)
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

// report measures everything, or loads what was, and shows it.
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
		if binaries {
			if r.Binaries, err = buildMinimal(); err != nil {
				return err
			}
		}
	}
	if load == "" || micro != "run" {
		if err := r.addMicro(micro); err != nil {
			return err
		}
	}
	if err := r.save(); err != nil {
		return err
	}
	if write {
		if err := r.write("../BENCHMARKS.md", "charts"); err != nil {
			return err
		}
	} else {
		fmt.Print(r.markdown(nil))
	}
	return r.failures()
}

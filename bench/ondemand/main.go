// Ondemand measures what read-through saves: the live memory of a process that follows Secrets and ConfigMaps and reads
// some of them whole, and the requests and the time of these reads. The server is a process of its own, and so is each
// program.
//
//	go run ./ondemand -objects 30000 -reads 1,10,100 -runs 3
//
// Half of the objects are Secrets, half are ConfigMaps. Each program waits until it has synced, reads the share of them
// that -reads says, each object once, and then measures its live heap. It compares client-go's informers with
// managedFields dropped by a transform, this library's informers by default and with LayoutSeparate, and read-through with
// its default limit and with a limit that holds everything that is read.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/typedinformer/informer/bench/internal/measure"
)

// options are the settings of a measurement.
type options struct {
	objects, runs int
	reads         []int // percentages
}

func main() {
	log.SetFlags(log.Ltime)
	var o options
	flag.IntVar(&o.objects, "objects", 30_000, "number of Secrets and ConfigMaps")
	flag.IntVar(&o.runs, "runs", 3, "number of runs of each program")
	reads := flag.String("reads", "1,10,100", "percentages of the objects to read")
	as := flag.String("as", "", "server or program; used by the program itself")
	start := flag.String("job", "", "the job of a process; used by the program itself")
	flag.Parse()
	err := o.setReads(*reads)
	switch {
	case err != nil:
	case *as == "server":
		err = serve(o.objects)
	case *as == "program":
		err = work(*start)
	default:
		err = compare(os.Stdout, o)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func (o *options) setReads(list string) error {
	for part := range strings.SplitSeq(list, ",") {
		percent, err := strconv.Atoi(part)
		if err != nil || percent < 0 || percent > 100 {
			return fmt.Errorf("-reads: %q is not a percentage", part)
		}
		o.reads = append(o.reads, percent)
	}
	return nil
}

// compare runs the programs in turn, and prints a table of their figures.
func compare(to io.Writer, o options) error {
	address, stop, err := measure.Serve("-as=server", fmt.Sprint("-objects=", o.objects))
	if err != nil {
		return err
	}
	defer stop()
	type row struct {
		peer    string
		percent int
	}
	measured := map[row][]figures{}
	for run := range o.runs {
		for _, percent := range o.reads {
			for _, p := range peers {
				spec, err := json.Marshal(job{Server: address, Peer: p.name, Objects: o.objects, Percent: percent})
				if err != nil {
					return err
				}
				var f figures
				if err := measure.Run(&f, 0, nil, "-as=program", "-job="+string(spec)); err != nil {
					return fmt.Errorf("%s, %d%%: %w", p.name, percent, err)
				}
				if percent > 0 && f.Read == 0 {
					return fmt.Errorf("%s read nothing", p.name)
				}
				log.Printf("run %d of %d, %d%%, %s", run+1, o.runs, percent, p.name)
				measured[row{p.name, percent}] = append(measured[row{p.name, percent}], f)
			}
		}
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%d Secrets and ConfigMaps, medians of %d runs\n", o.objects, o.runs)
	fmt.Fprintln(w, "program\tread\tlive heap\tpeak memory\tof the sync\trequests for reads\ttime of the reads")
	for _, percent := range o.reads {
		for _, p := range peers {
			all := measured[row{p.name, percent}]
			fmt.Fprintf(w, "%s\t%d%%\t%s\t%s\t%s\t%.0f\t%s\n", p.name, percent, measure.Bytes(median(all, figures.heap)),
				measure.Bytes(median(all, figures.peak)), measure.Seconds(median(all, figures.sync)),
				median(all, figures.requests), measure.Seconds(median(all, figures.reads)))
		}
	}
	return w.Flush()
}

func median(runs []figures, get func(figures) float64) float64 {
	var all []float64
	for _, f := range runs {
		all = append(all, get(f))
	}
	return measure.Median(all)
}

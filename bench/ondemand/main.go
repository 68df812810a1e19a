// Ondemand compares ways to read few of many Secrets and ConfigMaps: informers that hold all of them, metadata with a
// request for each read, and package readthrough. The server is a process of its own, and so is each way.
//
//	go run ./ondemand -objects 30000 -bytes 8000 -runs 3
//
// Each process follows both collections, and then reads a share of all objects, three times each, in rounds: a
// reconciler reads again. program.go lists the compared ways.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/typedinformer/informer/bench/internal/measure"
)

func main() {
	log.SetFlags(log.Ltime)
	var o options
	flag.IntVar(&o.objects, "objects", 30_000, "number of objects: half of them Secrets, half ConfigMaps")
	flag.IntVar(&o.bytes, "bytes", 8_000, "bytes of data of an object")
	flag.IntVar(&o.runs, "runs", 3, "number of runs of each process")
	as := flag.String("as", "", "server or program; used by the program itself")
	of := flag.String("job", "", "the job of a process; used by the program itself")
	flag.Parse()
	var err error
	switch *as {
	case "server":
		err = serve(o)
	case "program":
		err = work(*of)
	default:
		err = compare(os.Stdout, o)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// options are the settings of a measurement.
type options struct{ objects, bytes, runs int }

// percents are the shares that are read.
var percents = []int{1, 10, 100}

// rounds is how often each of them is read.
const rounds = 3

// figures are what a process measured.
type figures struct {
	Synced   float64 // live heap after the start, in bytes
	Read     float64 // live heap after the reads
	Requests float64 // of the reads
	CPU      float64 // of the reads, in seconds
	Get      float64 // the time of a read, in seconds
	Peak     float64 // memory of the process, in bytes
}

// compare measures each way and share, and prints a table.
func compare(w io.Writer, o options) error {
	address, stop, err := measure.Serve("-as=server", fmt.Sprint("-objects=", o.objects), fmt.Sprint("-bytes=", o.bytes))
	if err != nil {
		return err
	}
	defer stop()
	all := map[string]map[int][]figures{}
	for run := range o.runs {
		for _, way := range ways {
			for _, percent := range percents {
				encoded, err := json.Marshal(job{Server: address, Way: way.name, Objects: o.objects, Percent: percent})
				if err != nil {
					return err
				}
				var f figures
				if err := measure.Run(&f, 0, nil, "-as=program", "-job="+string(encoded)); err != nil {
					return fmt.Errorf("%s, %d%%: %w", way.name, percent, err)
				}
				if all[way.name] == nil {
					all[way.name] = map[int][]figures{}
				}
				all[way.name][percent] = append(all[way.name][percent], f)
			}
		}
		log.Printf("run %d of %d", run+1, o.runs)
	}
	fmt.Fprintf(w, "%s Secrets and ConfigMaps with %s of data, each of a share read %d times, medians of %d runs.\n\n",
		measure.Number(float64(o.objects)), measure.Bytes(float64(o.bytes)), rounds, o.runs)
	fmt.Fprintln(w, "| way | read | live memory | after the reads | peak memory | requests | CPU time | a read |")
	fmt.Fprintln(w, "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, way := range ways {
		for _, percent := range percents {
			median := func(get func(figures) float64) float64 {
				var values []float64
				for _, f := range all[way.name][percent] {
					values = append(values, get(f))
				}
				return measure.Median(values)
			}
			fmt.Fprintf(w, "| %s | %d%% | %s | %s | %s | %s | %s | %s |\n", way.name, percent,
				measure.Bytes(median(func(f figures) float64 { return f.Synced })),
				measure.Bytes(median(func(f figures) float64 { return f.Read })),
				measure.Bytes(median(func(f figures) float64 { return f.Peak })),
				measure.Number(median(func(f figures) float64 { return f.Requests })),
				measure.Seconds(median(func(f figures) float64 { return f.CPU })),
				measure.Seconds(median(func(f figures) float64 { return f.Get })))
		}
	}
	return nil
}

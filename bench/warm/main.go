// Warm measures what a warm start saves: the bytes that a server sends until an informer has synced, and the time,
// after a start with a list and after one from a saved state. The server is a process of its own, and so is each start.
//
//	go run ./warm -pods 30000 -changes 300 -runs 5
//
// Each run has three starts: one without a saved state, one that saves its state at its end, and, after changes of the
// pods, one that loads it.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"text/tabwriter"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/bench/internal/measure"
)

func main() {
	log.SetFlags(log.Ltime)
	var o options
	flag.IntVar(&o.pods, "pods", 30_000, "number of pods")
	flag.IntVar(&o.changes, "changes", 300, "number of changes between the save and the warm start")
	flag.IntVar(&o.runs, "runs", 5, "number of runs of each kind")
	as := flag.String("as", "", "server or program; used by the program itself")
	start := flag.String("job", "", "the job of a process; used by the program itself")
	flag.Parse()
	var err error
	switch *as {
	case "server":
		err = serve(o)
	case "program":
		err = work(*start)
	default:
		err = compare(o)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// options are the settings of a measurement.
type options struct{ pods, changes, runs int }

// kind is one kind of informer.
type kind struct {
	JSON   bool
	Layout informer.Layout
}

// String returns the name of the kind.
func (k kind) String() string {
	name := "protobuf"
	if k.JSON {
		name = "JSON"
	}
	if k.Layout != informer.LayoutShared {
		name += ", " + k.Layout.String()
	}
	return name
}

// compare measures each kind, and prints a table.
func compare(o options) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%d pods, %d changes, medians of %d runs\n", o.pods, o.changes, o.runs)
	fmt.Fprintln(w, "kind\tbytes cold\twarm\tsync cold\twarm\tCPU cold\twarm\tpeak memory cold\twarm\twith a save\tfile\tsave\tload")
	for _, k := range []kind{
		{true, informer.LayoutShared}, {true, informer.LayoutCompact}, {false, informer.LayoutShared}, {false, informer.LayoutCompact},
	} {
		address, stop, err := measure.Serve("-as=server", fmt.Sprint("-pods=", o.pods))
		if err != nil {
			return err
		}
		err = measureKind(w, o, k, address)
		stop()
		if err != nil {
			return fmt.Errorf("%v: %w", k, err)
		}
	}
	return w.Flush()
}

// measureKind measures one kind, and prints its row.
func measureKind(w io.Writer, o options, k kind, address string) error {
	var cold, saving, warm []figures
	for range o.runs {
		dir, err := os.MkdirTemp("", "warm")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		for _, start := range []struct {
			dir string
			to  *[]figures
		}{{"", &cold}, {dir, &saving}, {dir, &warm}} {
			spec, err := json.Marshal(job{Server: address, Dir: start.dir, kind: k})
			if err != nil {
				return err
			}
			var f figures
			if err := measure.Run(&f, 0, nil, "-as=program", "-job="+string(spec)); err != nil {
				return err
			}
			if *start.to = append(*start.to, f); f.Objects != o.pods {
				return fmt.Errorf("%d objects instead of %d", f.Objects, o.pods)
			}
			if f.Warm != (start.to == &warm) {
				return errors.New("a start was not cold or warm as it should be")
			}
			if start.to == &saving {
				if err := change(address, o.changes); err != nil {
					return err
				}
			}
		}
	}
	median := func(runs []figures, get func(figures) float64) float64 {
		var all []float64
		for _, f := range runs {
			all = append(all, get(f))
		}
		return measure.Median(all)
	}
	bytesOf := func(f figures) float64 { return f.Bytes }
	syncOf := func(f figures) float64 { return f.Sync }
	cpuOf := func(f figures) float64 { return f.CPU }
	peakOf := func(f figures) float64 { return f.Peak }
	atEnd := func(f figures) float64 { return f.PeakAtEnd }
	fmt.Fprintf(w, "%v\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k,
		measure.Bytes(median(cold, bytesOf)), measure.Bytes(median(warm, bytesOf)),
		measure.Seconds(median(cold, syncOf)), measure.Seconds(median(warm, syncOf)),
		measure.Seconds(median(cold, cpuOf)), measure.Seconds(median(warm, cpuOf)),
		measure.Bytes(median(cold, peakOf)), measure.Bytes(median(warm, peakOf)), measure.Bytes(median(saving, atEnd)),
		measure.Bytes(median(saving, func(f figures) float64 { return f.File })),
		measure.Seconds(median(saving, func(f figures) float64 { return f.Save })),
		measure.Seconds(median(warm, func(f figures) float64 { return f.Load })))
	return nil
}

// change makes the server change pods.
func change(address string, n int) error {
	resp, err := http.Post(fmt.Sprintf("%s/changes?n=%d", address, n), "text/plain", bytes.NewReader(nil))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("change pods: %s", resp.Status)
	}
	return nil
}

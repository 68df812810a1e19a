// Metrics measures what informerprom costs: the processor time of a program that is scraped every second, and of the
// same program without metrics. Each runs in its own process, against an API server in another one that has all its
// responses encoded beforehand. The client that scrapes is a process of its own, too, so its cost does not count.
//
//	go run ./metrics -pods 30000 -rate 2000 -runs 6
//
// The program has an informer of realistic pods, three handlers, and a controller that reads the pod of each key. The
// changes come at a fixed rate. program.go has its work, and profile.go finds the samples of scrapes in a processor
// profile.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/typedinformer/informer/bench/internal/canned"
	"github.com/typedinformer/informer/bench/internal/measure"
)

func main() {
	log.SetFlags(log.Ltime)
	var o options
	flag.IntVar(&o.pods, "pods", 30_000, "number of pods")
	flag.IntVar(&o.rate, "rate", 2_000, "number of changes a second")
	flag.DurationVar(&o.length, "for", 20*time.Second, "length of a measurement")
	flag.IntVar(&o.runs, "runs", 6, "number of runs of each process")
	flag.DurationVar(&o.every, "every", time.Second, "time between two scrapes")
	flag.StringVar(&o.profiles, "profiles", "",
		"write the processor profile of each program with metrics into this directory")
	flag.BoolVar(&o.plain, "plain", false, "do not compress the page")
	as := flag.String("as", "", "server, scraper or program; used by the program itself")
	job := flag.String("job", "", "the job of a process; used by the program itself")
	flag.Parse()
	var err error
	switch *as {
	case "server":
		err = canned.Serve(canned.Config{Pods: o.pods, Changes: o.changes(), Formats: []string{canned.Protobuf}})
	case "scraper":
		err = scrape(*job, o.every)
	case "program":
		err = work(*job)
	default:
		var r results
		if r, err = compare(o); err == nil {
			r.print(os.Stdout, o)
		}
	}
	if err != nil {
		log.Fatal(err)
	}
}

// options are the settings of a measurement.
type options struct {
	pods, rate, runs int
	length, every    time.Duration
	plain            bool   // without compression of the page
	profiles         string // the directory for profiles; empty means none
}

// changes returns the number of changes of a measurement.
func (o options) changes() int { return int(o.length.Seconds() * float64(o.rate)) }

// results are the figures of pairs of processes: without metrics, and with them.
type results struct{ without, with []figures }

// compare starts the server, and runs the program without and with metrics, alternately.
func compare(o options) (r results, err error) {
	address, stop, err := measure.Serve("-as=server", fmt.Sprint("-pods=", o.pods), fmt.Sprint("-rate=", o.rate),
		fmt.Sprint("-for=", o.length))
	if err != nil {
		return r, err
	}
	defer stop()
	run := func(metrics bool) (f figures, err error) {
		encoded, err := json.Marshal(job{Server: address, Metrics: metrics, Changes: o.changes(), Rate: o.rate,
			Every: o.every, Plain: o.plain, Profiles: o.profiles})
		if err != nil {
			return f, err
		}
		err = measure.Run(&f, measure.AvailableMemory()/4*3, nil, "-as=program", "-job="+string(encoded))
		log.Printf("metrics %v: %+v", metrics, f)
		return f, err
	}
	for range o.runs {
		without, err := run(false)
		if err != nil {
			return r, err
		}
		with, err := run(true)
		if err != nil {
			return r, err
		}
		r.without, r.with = append(r.without, without), append(r.with, with)
	}
	return r, nil
}

// print prints the medians and their spread.
func (r results) print(to io.Writer, o options) {
	fmt.Fprintf(to, "%d pods, %d changes/s for %v, a scrape every %v, medians of %d runs, %s, %d cores\n\n", o.pods,
		o.rate, o.length, o.every, o.runs, runtime.Version(), runtime.NumCPU())
	column := func(runs []figures, figure func(figures) float64) (values []float64) {
		for _, f := range runs {
			values = append(values, figure(f))
		}
		return values
	}
	percent := func(values []float64) string {
		return fmt.Sprintf("%.2f%% (%.2f%% to %.2f%%)", 100*measure.Median(values), 100*slices.Min(values),
			100*slices.Max(values))
	}
	var added, memory []float64
	for i, with := range r.with {
		added = append(added, with.CPU/r.without[i].CPU-1)
		memory = append(memory, with.Allocated/r.without[i].Allocated-1)
	}
	seconds := func(f figures) float64 { return f.CPU }
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "processor time without metrics\t%.2f s ±%.0f%%\n", measure.Median(column(r.without, seconds)),
		100*measure.Spread(column(r.without, seconds)))
	fmt.Fprintf(w, "processor time with metrics\t%.2f s ±%.0f%%\n", measure.Median(column(r.with, seconds)),
		100*measure.Spread(column(r.with, seconds)))
	fmt.Fprintf(w, "more processor time with metrics, of each pair\t%s\n", percent(added))
	fmt.Fprintf(w, "more allocated memory with metrics, of each pair\t%s\n", percent(memory))
	var profiled, scraping float64
	for _, f := range r.with {
		profiled, scraping = profiled+f.Profiled, scraping+f.Scraping
	}
	fmt.Fprintf(w, "scrapes in the profiles of all runs\t%.2f%%, %.0f ms of %.1f s\n", 100*scraping/profiled,
		1000*scraping, profiled)
	fmt.Fprintf(w, "scrapes\t%.0f\n", measure.Median(column(r.with, func(f figures) float64 { return f.Scrapes })))
	fmt.Fprintf(w, "size of a page\t%.1f kB\n",
		measure.Median(column(r.with, func(f figures) float64 { return f.Page }))/1000)
	_ = w.Flush()
}

// scrape reads the page at url again and again, until the process is killed. It first prints a line, for
// [measure.Serve].
func scrape(url string, every time.Duration) error {
	fmt.Println("scraping")
	for range time.Tick(every) {
		response, err := http.Get(url)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if err != nil {
			return fmt.Errorf("scrape: %w", err)
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("scrape: %s", response.Status)
		}
	}
	return nil
}

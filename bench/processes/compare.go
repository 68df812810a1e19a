package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/typedinformer/informer/bench/internal/canned"
	"github.com/typedinformer/informer/bench/internal/measure"
	"github.com/typedinformer/informer/bench/internal/realserver"
)

// options are the settings of a measurement.
type options struct {
	Command                          string // the arguments of these options
	Pods, Runs, Changes, Paced, Rate int
	Padding                          int // bytes of each pod
	Handlers, Informers              int // of a client process, for the tables
	Formats                          []string
	Wires                            []canned.Wire // for the tables; the first one is for all else
	Sizes, Counts                    []int         // for -scale; empty without it
	Peers                            string        // a regular expression for their names; empty means all
	MaxMemory                        int64         // bytes of a process; 0 means three quarters of the available memory
	Save                             string        // the file to save the results in after each round
	Profiles                         string        // the directory for profiles; empty means none
	Server                           string        // kube-apiserver; empty means one that has its answers encoded
}

// Series of processes.
const (
	tables    = "tables"    // everything, with all peers
	sizes     = "sizes"     // by number of pods
	handlersN = "handlers"  // by number of handlers of one informer of handlerPods
	informerN = "informers" // by number of informers of the same informerPods, with one client
)

const (
	handlerPods, informerPods = 10_000, 1_000
	scaleChanges              = 2_000 // in each process of a series by size or count
	maxScaleRuns              = 3
)

// results are the results of all measurements.
type results struct {
	Options  options
	Machine  machine
	Runs     []processRun
	Binaries map[string]int64   // by peer
	Micro    map[string]figures // medians of the root package's benchmarks, by name, then by unit
}

// processRun is one client process.
type processRun struct {
	Series, Peer, Format      string
	Wire                      canned.Wire
	Pods, Handlers, Informers int
	Figures                   figures
	Failure                   string // why figures are missing
}

// compare runs everything, alternating between the peers.
func compare(o options) (*results, error) {
	r := &results{Options: o, Machine: thisMachine()}
	if o.Server == realServer {
		return r, r.series(tables, o.Pods, o.Runs, o.Formats, []canned.Wire{canned.HTTP2}, realPeers,
			job{Handlers: 1, Informers: 1, Relist: true, Paced: o.Paced, Rate: o.Rate})
	}
	if err := r.series(tables, o.Pods, o.Runs, o.Formats, o.Wires, peers,
		job{Handlers: o.Handlers, Informers: o.Informers, Reads: true, Relist: true, Changes: o.Changes, Paced: o.Paced,
			Rate: o.Rate}); err != nil {
		return nil, err
	}
	scaled := slices.DeleteFunc(slices.Clone(peers), func(p peer) bool {
		return p.name != clientGo && p.name != own && p.name != ownSeparate
	})
	runs := min(o.Runs, maxScaleRuns)
	for _, pods := range o.Sizes {
		if err := r.series(sizes, pods, runs, o.Formats, o.Wires[:1], scaled,
			job{Handlers: 1, Informers: 1, Changes: scaleChanges}); err != nil {
			return nil, err
		}
	}
	format := o.Formats[len(o.Formats)-1:]
	for _, n := range o.Counts {
		if err := r.series(handlersN, min(handlerPods, o.Pods), runs, format, o.Wires[:1], scaled,
			job{Handlers: n, Informers: 1, Changes: scaleChanges}); err != nil {
			return nil, err
		}
		if err := r.series(informerN, min(informerPods, o.Pods), runs, format, o.Wires[:1], scaled,
			job{Handlers: 1, Informers: n, Changes: scaleChanges}); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// series runs the job with each peer in each format over each wire, alternately, runs times. It does not repeat a failed
// combination.
func (r *results) series(name string, pods, runs int, formats []string, wires []canned.Wire, peers []peer, j job) error {
	wanted, err := regexp.Compile(r.Options.Peers)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "processes-server")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // after the server has ended
	next := ""
	if slices.ContainsFunc(peers, func(p peer) bool { return p.next && wanted.MatchString(p.name) }) {
		if next, err = buildNext(dir); err != nil {
			return err
		}
	}
	address, stop, err := measure.Serve("-as=server", "-server="+r.Options.Server, "-dir="+filepath.Join(dir, "server"), fmt.Sprint("-pods=", pods),
		fmt.Sprint("-changes=", j.released()), fmt.Sprint("-padding=", r.Options.Padding), "-formats="+strings.Join(formats, ","))
	if err != nil {
		return err
	}
	defer stop()
	j.Server = address
	for round := range runs {
		for _, format := range formats {
			for _, wire := range wires {
				for i := range peers {
					p := peers[(i+round)%len(peers)] // what a real server has in memory depends on the peer before
					if !p.decodes(format) || !wanted.MatchString(p.name) {
						continue
					}
					j.Peer, j.Format, j.Wire = p.name, format, wire
					if name == tables {
						j.Profiles = r.Options.Profiles
					}
					began := time.Now()
					run, err := r.run(name, pods, p, j, next)
					if err != nil {
						return err
					}
					log.Printf("%s, round %d of %d, %d pods, %d handlers, %d informers, %s, %s, %s: %.1f s %s", name, round+1, runs,
						pods, j.Handlers, j.Informers, canned.Name(format), wire, p.name, time.Since(began).Seconds(), run.Failure)
				}
			}
		}
		if err := r.save(); err != nil {
			return err
		}
	}
	return nil
}

// run runs the job in a process of its own, unless the same has failed before. next is the program with the next version
// of client-go.
func (r *results) run(series string, pods int, p peer, j job, next string) (processRun, error) {
	run := processRun{Series: series, Peer: p.name, Format: j.Format, Wire: j.Wire, Pods: pods, Handlers: j.Handlers,
		Informers: j.Informers}
	i := slices.IndexFunc(r.Runs, func(other processRun) bool { return other.Failure != "" && other.same(run) })
	if i >= 0 {
		return r.Runs[i], nil
	}
	encoded, err := json.Marshal(j)
	if err != nil {
		return run, err
	}
	limit := r.Options.MaxMemory
	if limit == 0 {
		limit = measure.AvailableMemory() / 4 * 3
	}
	program, err := os.Executable()
	if err != nil {
		return run, err
	}
	if p.next {
		program = next
	}
	err = measure.RunProgram(program, &run.Figures, limit, p.env, "-as=client", "-job="+string(encoded))
	switch {
	case errors.Is(err, measure.ErrMemory):
		run.Failure = fmt.Sprintf("more than %s of memory", measure.Bytes(float64(limit)))
	case err != nil:
		run.Failure = err.Error()
	}
	r.Runs = append(r.Runs, run)
	return run, nil
}

// same reports whether a and b are runs of the same combination.
func (a processRun) same(b processRun) bool {
	return a.Series == b.Series && a.Peer == b.Peer && a.Format == b.Format && a.Wire == b.Wire && a.Pods == b.Pods &&
		a.Handlers == b.Handlers && a.Informers == b.Informers
}

func (r *results) save() error {
	if r.Options.Save == "" {
		return nil
	}
	encoded, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(r.Options.Save, encoded, 0o644)
}

// failures returns an error for all failures except exceeded memory.
func (r *results) failures() error {
	var errs []error
	for _, run := range r.Runs {
		if run.Failure != "" && !strings.HasPrefix(run.Failure, "more than") {
			errs = append(errs, fmt.Errorf("%s, %s, %s, %s: %s", run.Series, run.Peer, canned.Name(run.Format), run.Wire, run.Failure))
		}
	}
	return errors.Join(errs...)
}

// serve runs the server process. A real server has its files in dir.
func serve(o options, dir string) error {
	if o.Server == realServer {
		return realserver.Serve(o.Pods, dir)
	}
	return canned.Serve(canned.Config{Pods: o.Pods, Changes: o.Changes, Padding: o.Padding, Formats: o.Formats})
}

// work runs a client process.
func work(encoded string) error {
	var j job
	if err := json.Unmarshal([]byte(encoded), &j); err != nil {
		return err
	}
	all := slices.Concat(peers, realPeers)
	i := slices.IndexFunc(all, func(p peer) bool { return p.name == j.Peer })
	if i < 0 {
		return fmt.Errorf("no peer is named %q", j.Peer)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	figures, err := run(ctx, j, all[i].connect)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(figures)
}

// Managers compares a manager of controller-runtime that has controller-runtime's cache with the same manager that has
// a cache of crcache. Each runs in its own process, against a server in another one that has all its responses encoded
// beforehand.
//
//	go run ./managers -pods 30000 -runs 3
//
// The manager has one controller, for pods, whose reconciler reads the pod with the manager's client. peers.go lists
// the compared caches, manager.go has the work of a process, and report.go presents the figures.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/typedinformer/informer/bench/internal/canned"
	"github.com/typedinformer/informer/bench/internal/measure"
)

func main() {
	log.SetFlags(log.Ltime)
	var o options
	flag.IntVar(&o.pods, "pods", 30_000, "number of pods")
	flag.IntVar(&o.runs, "runs", 6, "number of runs of each process")
	flag.IntVar(&o.changes, "changes", 8_000, "number of changes sent as fast as they are read")
	flag.StringVar(&o.peers, "peers", "", "only measure peers whose name matches this regular expression")
	flag.StringVar(&o.profiles, "profiles", "",
		"write a processor profile of each step of each process into this directory")
	flag.StringVar(&o.save, "save", "", "append the figures of each process to this file, as lines of JSON")
	formats := flag.String("formats", canned.JSON+","+canned.Protobuf, "media types")
	as := flag.String("as", "", "server or client; used by the program itself")
	job := flag.String("job", "", "the job of a client; used by the program itself")
	flag.Parse()
	o.formats = strings.Split(*formats, ",")
	var err error
	switch *as {
	case "server":
		err = serve(o)
	case "client":
		err = work(*job)
	default:
		var r results
		if r, err = compare(o); err == nil {
			fmt.Print(r.markdown(o))
		}
	}
	if err != nil {
		log.Fatal(err)
	}
}

// options are the settings of a measurement.
type options struct {
	pods, runs, changes int
	formats             []string
	peers               string // a regular expression for their names; empty means all
	profiles            string // the directory for profiles; empty means none
	save                string // the file for the figures; empty means none
}

// results are the figures of all processes.
type results []result

// result has the figures of one process.
type result struct {
	Peer, Format string
	Figures      figures
}

// compare starts the server, and runs each peer in each format, alternately, as often as o says.
func compare(o options) (results, error) {
	wanted, err := regexp.Compile(o.peers)
	if err != nil {
		return nil, err
	}
	address, stop, err := measure.Serve("-as=server", fmt.Sprint("-pods=", o.pods), fmt.Sprint("-changes=", o.changes),
		"-formats="+strings.Join(o.formats, ","))
	if err != nil {
		return nil, err
	}
	defer stop()
	var r results
	for round := range o.runs {
		for _, format := range o.formats {
			for _, p := range peers {
				if !wanted.MatchString(p.name) {
					continue
				}
				encoded, err := json.Marshal(job{Peer: p.name, Format: format, Server: address, Changes: o.changes,
					Profiles: o.profiles})
				if err != nil {
					return nil, err
				}
				began, run := time.Now(), result{Peer: p.name, Format: format}
				if err := measure.Run(&run.Figures, measure.AvailableMemory()/4*3, nil, "-as=client",
					"-job="+string(encoded)); err != nil {
					return nil, fmt.Errorf("%s, %s: %w", p.name, canned.Name(format), err)
				}
				log.Printf("round %d of %d, %s, %s: %.1f s", round+1, o.runs, canned.Name(format), p.name,
					time.Since(began).Seconds())
				r = append(r, run)
				if err := run.append(o.save); err != nil {
					return nil, err
				}
			}
		}
	}
	return r, nil
}

// append appends the result to a file, if there is a name.
func (r result) append(name string) error {
	if name == "" {
		return nil
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	return json.NewEncoder(file).Encode(r)
}

// serve runs the server process. The relist needs one change more.
func serve(o options) error {
	return canned.Serve(canned.Config{Pods: o.pods, Changes: o.changes + 1, Formats: o.formats})
}

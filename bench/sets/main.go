// Sets measures sets of informers beside what programs on client-go and controller-runtime do instead: every kind of a
// cluster, and one kind of many clusters. The server is a process of its own, and so is each program. The programs run by
// turns.
//
//	go run ./sets -kinds 1000 -definitions 300 -over 1m -runs 3
//	go run ./sets -clusters 100 -hanging 5 -pods 300 -runs 6
//
// The first command measures all kinds of one cluster. Its kube-apiserver has that many CustomResourceDefinitions without
// objects. While each program runs, the server gets more definitions, each with an object.
//
// The second command measures the pods of many clusters. Some clusters never answer. A last table has 50 clusters with
// the same 500 pods. All programs speak HTTP/2 with TLS.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/typedinformer/informer/bench/internal/measure"
)

// options are the settings of a measurement.
type options struct {
	Kinds, Definitions      int
	Over                    time.Duration
	Clusters, Hanging, Pods int
	Runs                    int `json:"-"`
}

func main() {
	log.SetFlags(log.Ltime)
	var o options
	flag.IntVar(&o.Kinds, "kinds", 0, "number of kinds without objects")
	flag.IntVar(&o.Definitions, "definitions", 0, "number of definitions that are created while a program runs")
	flag.DurationVar(&o.Over, "over", time.Minute, "the time in which they are created")
	flag.IntVar(&o.Clusters, "clusters", 0, "number of clusters")
	flag.IntVar(&o.Hanging, "hanging", 0, "number of clusters that never answer")
	flag.IntVar(&o.Pods, "pods", 300, "number of pods of a cluster")
	flag.IntVar(&o.Runs, "runs", 3, "number of runs of each program")
	as := flag.String("as", "", "the part of a process; used by the program itself")
	spec := flag.String("job", "", "the job of a process; used by the program itself")
	flag.Parse()
	if err := run(*as, *spec, o); err != nil {
		log.Fatal(err)
	}
}

func run(as, spec string, o options) error {
	switch as {
	case "kinds-server":
		return serveKinds(spec, o.Kinds)
	case "kinds":
		return work(spec, followKinds)
	case "clusters-server":
		return serveClusters(o)
	case "clusters":
		return work(spec, followClusters)
	}
	if o.Kinds > 0 {
		if err := compareKinds(o); err != nil {
			return err
		}
	}
	if o.Clusters > 0 {
		return compareClusters(o)
	}
	return nil
}

// job is what a process does.
type job struct {
	Program, Server string
	Options         options
}

// work does a job, and prints its figures.
func work[F any](spec string, do func(job) (F, error)) error {
	var j job
	if err := json.Unmarshal([]byte(spec), &j); err != nil {
		return err
	}
	figures, err := do(j)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(figures)
}

// byTurns runs each program that often, in a process of its own.
func byTurns[F any](as string, programs []string, server string, o options) (map[string][]F, error) {
	all := map[string][]F{}
	for i := range o.Runs {
		for _, program := range programs {
			spec, err := json.Marshal(job{program, server, o})
			if err != nil {
				return nil, err
			}
			var f F
			if err := measure.Run(&f, 0, nil, "-as="+as, "-job="+string(spec)); err != nil {
				return nil, fmt.Errorf("%s: %w", program, err)
			}
			log.Printf("run %d of %d: %s", i+1, o.Runs, program)
			all[program] = append(all[program], f)
		}
	}
	return all, nil
}

// median returns the median of a figure.
func median[F any](runs []F, figure func(F) float64) float64 {
	var values []float64
	for _, f := range runs {
		values = append(values, figure(f))
	}
	return measure.Median(values)
}

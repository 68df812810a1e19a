// Cacher compares watchcache with the list-watch of kube-apiserver: k8s.io/apiserver's Cacher behind its generic
// registry and its handlers.
//
//	go run . [-quick] [-only watch,nodes,lists,idle,storm]
//
// Each implementation is a process of its own. Both serve the same pods over HTTP/2 with TLS, with the server options
// of kube-apiserver. The clients are in this process. They count frames and decode nothing, so a server's
// processor time is its own. The servers take turns, and the table shows the best of several runs.
//
// The Cacher's storage is in memory and hands out decoded pods, and neither side has authentication, admission,
// fairness or auditing. That favours the Cacher: it pays for nothing that watchcache lacks.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(log.Ltime)
	as := flag.String("as", "", "the implementation that this process serves; used by the program itself")
	pods := flag.Int("pods", full.pods, "number of pods")
	nodes := flag.Int("nodes", full.nodes, "number of nodes")
	small := flag.Bool("quick", false, "measure little, in some seconds")
	only := flag.String("only", "", "groups of rows: watch, nodes, lists, idle, storm; empty means all")
	watchers := flag.Int("watchers", 0, "number of watchers; 0 means 10 to 10,000")
	perConnection := flag.Int("per-connection", full.perConnection, "watches on each connection, at most 100")
	runs := flag.Int("runs", full.runs, "number of runs")
	flag.Parse()
	if *as != "" {
		_, control, err := startServer(serverConfig{*as, *pods, *nodes})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(control)
		select {}
	}
	p := full
	p.pods, p.nodes, p.perConnection, p.runs = *pods, *nodes, *perConnection, *runs
	if *small {
		p = quick
	}
	if *watchers > 0 {
		p.watchers = []int{*watchers}
	}
	if err := compare(p, *only, os.Stdout, os.Stderr); err != nil {
		log.Fatal(err)
	}
}

// compare measures the groups of rows in only, and writes the table to out.
func compare(p plan, only string, out, progress io.Writer) error {
	t := newTable(progress)
	err := measureAll(p, func(group string) bool {
		return only == "" || slices.Contains(strings.Split(only, ","), group)
	}, t)
	fmt.Fprintf(out, "%s pods, %d runs, %d watches on a connection, %s, %d cores\n\n", thousands(p.pods), p.runs,
		p.perConnection, runtime.Version(), runtime.NumCPU())
	missed := t.write(out)
	fmt.Fprintf(out, "\n%d of %d goals reached\n", len(t.rows)-missed, len(t.rows))
	if different := t.different(); different != "" {
		err = errors.Join(err, fmt.Errorf("responses differ in size:\n%s", different))
	}
	return err
}

package main

import (
	"encoding/xml"
	"flag"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/typedinformer/informer/bench/internal/canned"
	"github.com/typedinformer/informer/bench/internal/measure"
)

var update = flag.Bool("update", false, "rewrite testdata/report.golden")

// made returns invented results: each peer is twice as good as the one before, and gets a bit worse in each run.
func made() *results {
	r := &results{
		Options: options{Command: "-scale -write", Pods: 30_000, Runs: 3, Changes: 10_000, Paced: 5_000, Rate: 1_000, Handlers: 1, Informers: 1, Formats: []string{canned.JSON, canned.Protobuf},
			Wires: []canned.Wire{canned.HTTP2, canned.Plain}},
		Machine: machine{CPU: "Some Processor", Kernel: "6.1", Go: "1.26.8", Cores: 2, Memory: 24 << 30, Date: "2026-01-15", Load: "0.10",
			Peers: map[string]string{"k8s.io/client-go": "v0.37.2", "sigs.k8s.io/controller-runtime": "v0.25.2"}},
		Binaries: map[string]int64{"controller-runtime": 31_900_000, clientGo: 29_500_000, own: 14_800_000,
			clientGo + ", 20 kinds": 30_000_000, own + ", 20 kinds": 20_900_000},
		Micro: map[string]figures{
			"Get/impl=informer": {"ns/op": 741}, "Get/impl=client-go": {"ns/op": 574},
			"List/form=slice/impl=informer": {"ns/op": 728_000}, "List/form=slice/impl=client-go": {"ns/op": 5_650_000},
			"StoreOverhead/state=changed/index=unique/impl=informer": {"heap-B/object": 141},
			"Notify/burst=1/impl=informer":                           {"ns/notification": 337, "allocs/notification": 0.0005},
		},
	}
	for round := range r.Options.Runs {
		for i := range len(r.Options.Formats) * len(r.Options.Wires) {
			format, wire := r.Options.Formats[i%2], r.Options.Wires[i/2]
			better := 1.0
			for _, p := range peers {
				if !p.decodes(format) {
					continue
				}
				better *= 2
				worse := (1 + float64(round)/20) / better / float64(i/2+1)
				run := processRun{Series: tables, Peer: p.name, Format: format, Wire: wire, Pods: r.Options.Pods, Handlers: 1, Informers: 1, Figures: figures{
					syncTime: 20 * worse, syncCPU: 21 * worse, syncServerCPU: 0.2, peakMemory: 1e9 * worse, liveHeap: 13_000 * worse,
					getTime: 900 * worse, getBytes: 112, namespaceTime: 25_000 * worse, namespaceBytes: 14_500, inNamespace: 497, allTime: 1e6 * worse, allBytes: 0,
					relistCPU: 19 * worse, relistBytes: 1e9 * worse, relistRetained: -5_000, relistEvents: 30_000,
					eventRate: 1_384 / worse, eventCPU: 0.0007 * worse, eventServerCPU: 20e-6, eventBytes: 31_000 * worse, latency50: 0.0006 * worse, latency99: 0.011 * worse, pacedRate: 990,
				}}
				if p.name == "controller-runtime" && format == canned.JSON {
					run.Figures, run.Failure = nil, "more than 1.00 GB of memory"
				}
				if strings.HasPrefix(p.name, own) {
					run.Figures[relistEvents] = 0
				}
				r.Runs = append(r.Runs, run)
			}
		}
		for _, n := range []int{1, 10, 100} {
			for _, name := range []string{clientGo, own} {
				scaled := processRun{Peer: name, Format: canned.Protobuf, Wire: canned.HTTP2, Pods: 1000, Handlers: 1, Informers: 1, Figures: figures{
					syncTime: 0.1 * float64(n), syncCPU: 0.2 * float64(n), peakMemory: 1e8 * float64(n), liveHeap: 13_000, eventRate: 20_000 / float64(n)}}
				bySize, byHandlers, byInformers := scaled, scaled, scaled
				bySize.Series, bySize.Pods = sizes, 1000*n
				byHandlers.Series, byHandlers.Handlers = handlersN, n
				byInformers.Series, byInformers.Informers = informerN, n
				if name == clientGo && n == 100 {
					bySize.Figures, bySize.Failure = nil, "more than 1.00 GB of memory"
				}
				r.Runs = append(r.Runs, bySize, byHandlers, byInformers)
			}
		}
	}
	return r
}

func TestReport(t *testing.T) {
	const golden = "testdata/report.golden"
	got := made().markdown(made().over(canned.HTTP2).charts())
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the report differs from %s; run go test -update to see how", golden)
	}
}

// TestCharts checks that there is an SVG of each chart, with all compared peers.
func TestCharts(t *testing.T) {
	charts := made().charts()
	if len(charts) != 8+3*5 {
		t.Errorf("there are %d charts", len(charts))
	}
	for _, c := range charts {
		svg, err := c.svg()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for decoder := xml.NewDecoder(strings.NewReader(string(svg))); ; {
			if _, err := decoder.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		for _, name := range []string{c.title, clientGo, own, "protobuf"} {
			if !strings.Contains(string(svg), name) {
				t.Errorf("%s does not have %q", c.name, name)
			}
		}
	}
}

func TestReplacePart(t *testing.T) {
	first := replacePart([]byte("# Benchmarks\n"), "one\n")
	if want := "# Benchmarks\n\n" + beginMark + "\none\n" + endMark + "\n"; string(first) != want {
		t.Errorf("%q", first)
	}
	second := replacePart(append(first, "more\n"...), "two\n")
	if want := "# Benchmarks\n\n" + beginMark + "\ntwo\n" + endMark + "\nmore\n"; string(second) != want {
		t.Errorf("%q", second)
	}
}

func TestParseBenchmarks(t *testing.T) {
	got := parseBenchmarks(strings.NewReader(`goos: linux
BenchmarkGet/impl=client-go-2    	       1	     30 ns/op	     112 B/op	       2 allocs/op
BenchmarkGet/impl=client-go-2    	       1	     10 ns/op	     112 B/op	       2 allocs/op
BenchmarkGet/impl=client-go-2    	       1	     90 ns/op	     112 B/op	       2 allocs/op
BenchmarkNotify/burst=1/impl=informer-2  	       1	         0.003000 allocs/notification	       367.4 ns/notification
PASS
`))
	if got["Get/impl=client-go"]["ns/op"] != 30 || got["Notify/burst=1/impl=informer"]["ns/notification"] != 367.4 || len(got) != 2 {
		t.Error(got)
	}
}

func TestNumber(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 0.0004567: "0.00046", 0.9: "0.9", 3.14159: "3.14", 31.4159: "31.4", 314.159: "314", 12: "12", 999.6: "1,000", 12345: "12,300", -12345: "-12,300", 1234567: "1,230,000"} {
		if got := measure.Number(value); got != want {
			t.Errorf("%v is %s instead of %s", value, got, want)
		}
	}
	for value, want := range map[float64]string{3: "3 B", 12_600: "12.6 kB", 803_000_000: "803 MB", 25.1e9: "25.1 GB", -5e3: "-5 kB"} {
		if got := measure.Bytes(value); got != want {
			t.Errorf("%v is %s instead of %s", value, got, want)
		}
	}
	for value, want := range map[float64]string{9.04: "9.04 s", 0.25: "250 ms", 0.0000186: "18.6 us", 337e-9: "337 ns"} {
		if got := measure.Seconds(value); got != want {
			t.Errorf("%v is %s instead of %s", value, got, want)
		}
	}
}

// The report of a real server has a row for each peer that was measured, in each table of each format.
func TestRealReport(t *testing.T) {
	r := &results{Options: options{Server: realServer, Pods: 20_000, Paced: 5_000, Rate: 1_000, Runs: 2, Formats: []string{canned.JSON, canned.Protobuf}}}
	for _, format := range r.Options.Formats {
		for _, p := range realPeers {
			if !p.decodes(format) || p.name == ownCompact {
				continue
			}
			for _, factor := range []float64{1, 1.1} {
				r.Runs = append(r.Runs, processRun{Series: tables, Peer: p.name, Format: format, Wire: canned.HTTP2, Pods: 20_000, Handlers: 1, Informers: 1, Figures: figures{
					syncTime: 2 * factor, syncCPU: 1, syncServerCPU: 0.5, syncServerMemory: 50e6, peakMemory: 300e6, liveHeap: 4_300, pacedCPU: 35e-6, pacedServerCPU: 1e-3, latency50: 2e-3, latency99: 9e-3,
					pacedRate: 990, relistCPU: 0.7, relistBytes: 10e6, relistEvents: 0}})
			}
		}
	}
	got := r.realMarkdown()
	for row, times := range map[string]int{
		"| informer | 2.10 s ±5% | 1 s | 500 ms | 50 MB | 300 MB | 4.30 kB |":                   2,
		"| informer, LIST, not compressed | 35 us | 1 ms | 2 ms | 9 ms | 990 |":                 2,
		"| client-go, LIST, not compressed | 700 ms | 10 MB | 0 |":                              2,
		"| informer, slim struct | 2.10 s ±5% | 1 s | 500 ms | 50 MB | 300 MB | 4.30 kB |":      1,
		"- **informer, LIST, not compressed**: the same with rest.Config.DisableCompression.\n": 1,
		ownCompact: 0,
	} {
		if n := strings.Count(got, row); n != times {
			t.Errorf("%q is there %d times instead of %d:\n%s", row, n, times, got)
		}
	}
}

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/bench/internal/canned"
)

// TestMain lets the test run as the processes that it starts, as the program does.
func TestMain(m *testing.M) {
	if slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-as=") }) {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestCompare runs each peer in each format. Each finds the server's state, or it would fail, and reports all figures.
func TestCompare(t *testing.T) {
	o := options{
		Pods: 60, Runs: 1, Changes: 40, Paced: 20, Rate: 1000,
		Formats: []string{canned.JSON, canned.Metadata, canned.Protobuf}, Wires: canned.Wires, Padding: 100, Handlers: 1, Informers: 1,
		Sizes: []int{20, 40}, Counts: []int{1, 3},
	}
	r, err := compare(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.failures(); err != nil {
		t.Error(err)
	}
	for _, p := range peers {
		for _, format := range o.Formats {
			if !p.decodes(format) {
				continue
			}
			for _, wire := range o.Wires {
				for _, figure := range []string{syncTime, syncCPU, peakMemory, getTime, namespaceTime, allTime, relistCPU, relistEvents, eventRate, eventCPU, eventServerCPU, eventBytes, pacedRate, latency50, latency99} {
					if len(r.over(wire).values(tables, p.name, format, figure)) != 1 {
						t.Errorf("%s, %s, %s: no %q", p.name, format, wire, figure)
					}
				}
			}
		}
	}
	for _, series := range []string{sizes, handlersN, informerN} {
		for _, name := range []string{clientGo, own} {
			if len(r.values(series, name, canned.Protobuf, eventRate)) != 1 {
				t.Errorf("%s, %s: not measured", series, name)
			}
		}
	}
	// A cell of the tables promises that ours reports nothing after an unchanged relist, and client-go reports everything.
	if ours, theirs := r.median(own, canned.JSON, relistEvents), r.median(clientGo, canned.JSON, relistEvents); ours != 0 || theirs != 60 {
		t.Errorf("an unchanged relist has %v events, client-go's has %v", ours, theirs)
	}
}

// A process that exceeds its memory limit is ended. The report shows that, and it is no failure.
func TestMemoryLimit(t *testing.T) {
	o := options{Pods: 2000, Runs: 2, Changes: 1, Paced: 1, Rate: 1, Formats: []string{canned.JSON}, Wires: []canned.Wire{canned.HTTP2}, Handlers: 1, Informers: 1, Peers: clientGoDropped, MaxMemory: 1 << 20}
	r, err := compare(o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Runs) != 1 || r.failures() != nil || !strings.Contains(r.markdown(nil), "| client-go, managedFields dropped | more than 1.05 MB of memory | | | | |\n") {
		t.Errorf("%+v", r.Runs)
	}
}

// liar is a peer that reports events, and the number of pods, as a test likes.
type liar struct {
	tell func(i int, version string, told func(version string))
	all  int
}

func (l liar) connect(config *rest.Config) (follow, error) {
	client, err := informer.NewClient(config)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, handlers []*handler) (store, error) {
		pods := informer.New(client, informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}, informer.Config[*corev1.Pod]{})
		i := -1
		event := func(pod *corev1.Pod) {
			i++
			l.tell(i, pod.ResourceVersion, handlers[0].told)
		}
		pods.Subscribe(informer.HandlerFuncs[*corev1.Pod]{
			AddFunc:    func(pod *corev1.Pod, _ bool) { event(pod) },
			UpdateFunc: func(_, pod *corev1.Pod) { event(pod) },
			DeleteFunc: func(pod *corev1.Pod, _ bool) { event(pod) },
		}, informer.SubscriptionConfig[*corev1.Pod]{Delivery: informer.DeliverEveryBlocking(0)})
		go func() { _ = pods.Run(ctx) }()
		return store{all: func() int { return l.all }}, nil
	}, nil
}

// A peer that leaves out or invents events has no figures.
func TestNoFiguresOfWorkNotDone(t *testing.T) {
	const pods, changes = 50, 30
	server, err := canned.Start(canned.Config{Pods: pods, Changes: 2*changes + 1, Formats: []string{canned.JSON}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	honest := func(_ int, version string, told func(string)) { told(version) }
	for _, test := range []struct {
		name string
		liar liar
		want string // of the error
	}{
		{"honest", liar{honest, pods}, ""},
		{"pod missing in the store", liar{honest, pods - 1}, "sync: there are 49 pods instead of 50"},
		{"pod never told", liar{func(i int, version string, told func(string)) {
			if i != 7 {
				told(version)
			}
		}, pods}, "sync: handler 0 got 49 events"},
		{"change left out", liar{func(i int, version string, told func(string)) {
			if i != pods+7 {
				told(version)
			}
		}, pods}, "changes: handler 0 got 79 events instead of 80"},
		{"change told twice", liar{func(i int, version string, told func(string)) {
			if told(version); i == pods+7 {
				told(version)
			}
		}, pods}, "changes: handler 0 got 81 events instead of 80"},
		{"last change never told", liar{func(i int, version string, told func(string)) {
			if i != pods+changes-1 {
				told(version)
			}
		}, pods}, "changes: handler 0 got 79 events"},
		{"other version told", liar{func(i int, version string, told func(string)) {
			if i == pods+changes+7 {
				version = "1"
			}
			told(version)
		}, pods}, "paced changes: event 7 has version 1 instead of"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := run(ctx, job{Server: server.URL, Wire: canned.HTTP2, Format: canned.JSON, Handlers: 1, Informers: 1, Changes: changes, Paced: changes, Rate: 1000}, test.liar.connect)
			if got := fmt.Sprint(err); test.want == "" && err != nil || !strings.Contains(got, test.want) {
				t.Errorf("%s; want %q", got, test.want)
			}
		})
	}
	t.Run("asks for another format", func(t *testing.T) {
		_, err := run(t.Context(), job{Server: server.URL, Wire: canned.HTTP2, Format: canned.Protobuf, Handlers: 1, Informers: 1}, liar{honest, pods}.connect)
		if got := fmt.Sprint(err); !strings.Contains(got, "the server got requests for") {
			t.Error(got)
		}
	})
}

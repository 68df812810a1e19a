package set

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/leak"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

func TestMain(m *testing.M) { leak.Main(m) }

// stage is a set of informers of pods, each of a server of its own, and what a test does to them.
type stage struct {
	*testing.T
	set     *Set[string, *corev1.Pod]
	servers map[string]*host
	log     *testkit.Log
	layout  informer.Layout
	selects []informer.Selection // of each informer; nil for none
	cancel  context.CancelFunc
	ended   chan error
}

// host is the server of a member.
type host struct {
	server *informertest.Server
	pods   *informertest.Collection[*corev1.Pod]
	client *informer.Client
}

// onStage runs test in a bubble, with a set of config that does not run yet and a server for each name.
func onStage(t *testing.T, config Config[string, *corev1.Pod], names []string, test func(s *stage)) {
	t.Helper()
	testkit.Bubble(t, func(t *testing.T) {
		s := &stage{T: t, servers: map[string]*host{}, log: &testkit.Log{}}
		config.Logger = s.log.Logger()
		s.set = New(config)
		for _, name := range names {
			s.serve(name)
		}
		test(s)
		if s.cancel != nil {
			s.stop()
		}
	})
}

// serve starts the server of a member.
func (s *stage) serve(name string) {
	s.Helper()
	server := informertest.NewServer(informertest.Options{InMemory: true})
	s.Cleanup(server.Close)
	config := server.Config()
	config.Host = "http://" + name // clusters have different addresses
	client, err := informer.NewClient(config)
	s.must(err)
	pods := informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: world.PodGVR})
	s.servers[name] = &host{server, pods, client}
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// informer returns a function that makes the informer of a member.
func (s *stage) informer(name string) func() *informer.Informer[*corev1.Pod] {
	return func() *informer.Informer[*corev1.Pod] {
		config := world.Quiet[*corev1.Pod]()
		config.Layout = s.layout
		resource := informer.Resource{GroupVersionResource: world.PodGVR, Selections: s.selects}
		return informer.New(s.servers[name].client, resource, config)
	}
}

func (s *stage) add(names ...string) {
	s.Helper()
	for _, name := range names {
		s.must(s.set.Add(name, s.informer(name)))
	}
}

// want makes the set want exactly these members.
func (s *stage) want(how Removal, names ...string) {
	ids := map[string]func() *informer.Informer[*corev1.Pod]{}
	for _, name := range names {
		ids[name] = s.informer(name)
	}
	s.set.Want(ids, how)
}

// create creates a pod of a member.
func (s *stage) create(name, pod string, labels ...string) {
	s.Helper()
	_, err := s.servers[name].pods.Create(world.NewPod("ns", pod, labels...))
	s.must(err)
}

// run runs the set until stop, or until the test ends.
func (s *stage) run() {
	ctx, cancel := context.WithCancel(s.Context())
	s.cancel, s.ended = cancel, make(chan error, 1)
	go func() { s.ended <- s.set.Run(ctx) }()
}

// stop ends Run and checks its error.
func (s *stage) stop() {
	s.Helper()
	s.cancel()
	if err := <-s.ended; !errors.Is(err, context.Canceled) {
		s.Errorf("Run: %v", err)
	}
	s.ended <- context.Canceled
}

// hang makes the server of a member answer nothing until the function that it returns is called.
func (s *stage) hang(name string) (end func()) {
	return s.servers[name].server.Inject(informertest.Fault{Hang: true})
}

// wantMembers checks which members the set has, in this order.
func (s *stage) wantMembers(names ...string) {
	s.Helper()
	synctest.Wait()
	var got []string
	for _, m := range s.set.Status() {
		got = append(got, m.Name)
	}
	if diff := cmp.Diff(names, got); diff != "" {
		s.Errorf("members (-want +got):\n%s", diff)
	}
}

// wantWatchers checks how many watches a server has.
func (s *stage) wantWatchers(name string, want int) {
	s.Helper()
	synctest.Wait()
	if got := s.servers[name].pods.Watchers(); got != want {
		s.Errorf("%s has %d watches, want %d", name, got, want)
	}
}

// engine matches the functions of a set and of its informers in the stack of a goroutine.
var engine = regexp.MustCompile(`/internal/(set|informer|source|deliver)[./]`)

// goroutines returns how many goroutines the set and its informers have, and the test, while all wait.
func (s *stage) goroutines() (n int) {
	synctest.Wait()
	var profile bytes.Buffer
	s.must(pprof.Lookup("goroutine").WriteTo(&profile, 2))
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		if engine.MatchString(stack) {
			n++
		}
	}
	return n
}

// recorder is a handler of a set, with a recorder for each member.
type recorder struct {
	mu      sync.Mutex // protects the fields below
	gate    chan struct{}
	members map[string]*testkit.Recorder[*corev1.Pod]
}

// of returns the recorder of a member.
func (r *recorder) of(name string) *testkit.Recorder[*corev1.Pod] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.members == nil {
		r.members = map[string]*testkit.Recorder[*corev1.Pod]{}
	}
	if r.members[name] == nil {
		r.members[name] = &testkit.Recorder[*corev1.Pod]{}
	}
	return r.members[name]
}

// forget returns the recorder of a member, and forgets it.
func (r *recorder) forget(name string) *testkit.Recorder[*corev1.Pod] {
	last := r.of(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.members, name)
	return last
}

// names returns the members that the handler has a recorder for.
func (r *recorder) names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.members))
}

// hold blocks later calls until release.
func (r *recorder) hold() (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	gate := make(chan struct{})
	r.gate = gate
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.gate == gate {
			r.gate = nil
			close(gate)
		}
	}
}

// at returns the recorder of a member, when nothing holds calls.
func (r *recorder) at(name string) *testkit.Recorder[*corev1.Pod] {
	r.mu.Lock()
	gate := r.gate
	r.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return r.of(name)
}

func (r *recorder) OnAdd(id string, obj *corev1.Pod, initial bool)   { r.at(id).OnAdd(obj, initial) }
func (r *recorder) OnUpdate(id string, old, new *corev1.Pod)         { r.at(id).OnUpdate(old, new) }
func (r *recorder) OnDelete(id string, last *corev1.Pod, final bool) { r.at(id).OnDelete(last, final) }

// lines returns a line for each pair of a sequence.
func lines(pairs func(func(string, *corev1.Pod) bool)) (all []string) {
	for id, pod := range pairs {
		all = append(all, fmt.Sprint(id, " ", pod.Name, " ", testkit.VersionOf(pod)))
	}
	return all
}

// quiet drops what it logs.
var quiet = slog.New(slog.DiscardHandler)

//go:build unix

package e2e

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/status"
)

var (
	soakDuration = flag.Duration("soak.duration", 0, "duration of the faults in TestSoak; 0 means 40s, or 2m if tests run whole; 10m before a release")
	soakObjects  = flag.Int("soak.objects", 0, "number of objects in TestSoak; 0 means 2,000, or 10,000 if tests run whole")
	soakRate     = flag.Int("soak.rate", 200, "changes a second in TestSoak")
	soakSeed     = flag.Uint64("soak.seed", 0, "random seed of TestSoak's faults and changes; 0 means a new one each time")
)

const (
	calmDuration = 10 * time.Second
	// soakPatience bounds the wait for all followers to catch up: the longest backoff, and a list beside other lists.
	soakPatience = 3 * time.Minute
	checkEvery   = 5 * time.Second // the interval between comparisons of a store with the server during faults
)

// TestSoak makes the library follow 2,000 objects (10,000 if tests run whole) with 200 changes a second, in every mode. Once a
// second something fails: on the way to the server, or the server itself.
//
// During faults, each handler's events form a chain for each key (H2), and no version repeats or goes back. A reflector's sink
// gets each written change exactly once, except for changes that a list covers. A list happens only if the server no longer
// has the changes (R8, R9). A store always equals the server's state at the store's resource version (C6, C10). Before and
// after the faults, each handler gets each change exactly once. In the end all stores equal the server, which equals the
// ledger, and the process has no more goroutines and memory than in the beginning.
func TestSoak(t *testing.T) {
	seed := *soakSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-soak.seed=%d", seed)
	objects := cmp.Or(*soakObjects, testkit.Rounds(2000, 10_000))
	faulty := cmp.Or(*soakDuration, time.Duration(testkit.Rounds(40, 120))*time.Second)
	random := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }

	began := time.Now()
	names := objects + objects/20 // some are deleted at any time
	namespaces := []string{newNamespace(t), newNamespace(t), newNamespace(t), newNamespace(t)}
	l := newLedger(t, namespaces)
	l.fill(objects)
	t.Logf("%d objects were created in %v", objects, since(began))

	began = time.Now()
	s := &soak{T: t, ledger: l, proxy: startProxy(t)}
	s.follow()
	t.Logf("%d followers have synced after %v", len(s.followers), since(began))

	walk, next := random(1).Perm(names), 0
	calm := func() footprint {
		t.Helper()
		s.settle()
		check := s.expectAll()
		// A key occurs only once, so that no changes can fold.
		l.churn(calmDuration, *soakRate, random(2), func() informer.Key {
			next++
			return l.key(walk[next%names])
		})
		s.settle()
		check()
		return s.footprint()
	}
	before := calm()
	t.Logf("before: %v", before)

	began = time.Now()
	var trouble, checks sync.WaitGroup
	quiet, stop := context.WithTimeout(t.Context(), faulty)
	defer stop()
	f := newFaults(s, random(3))
	trouble.Go(func() { f.run(quiet) })
	checks.Go(func() { s.compareNowAndThen(quiet, faulty, random(4)) })
	keys := random(5)
	l.churn(faulty, *soakRate, random(6), func() informer.Key { return l.key(keys.IntN(names)) })
	trouble.Wait()
	checks.Wait()
	s.proxy.calm()
	t.Logf("for %v: %v; %v", since(began), l.writes, f)

	began = time.Now()
	s.settle()
	t.Logf("all followers have caught up after %v", since(began))
	after := calm()
	t.Logf("after: %v", after)
	s.compareAll()
	for _, f := range s.followers {
		t.Logf("%v", f.report())
		for _, fault := range f.check() {
			t.Errorf("%s: %s", f.name, fault)
		}
	}
	s.compareFootprints(before, after)
}

func since(began time.Time) time.Duration { return time.Since(began).Round(100 * time.Millisecond) }

// soak has the parts of a run of TestSoak.
type soak struct {
	*testing.T
	ledger    *ledger
	proxy     *proxy
	followers []*soakFollower
}

// soakFollower is one way of following the collection.
type soakFollower struct {
	name     string
	resource informer.Resource
	side     string // the side that the selector selects; "" for both
	wait     []func(key informer.Key, version uint64) <-chan struct{}
	note     func() (noted func() map[mark]int)                    // nil if changes may fold
	snapshot func() (resourceVersion, digest string)               // nil for a reflector
	visit    func(ctx context.Context) (wrong []string)            // nil for a reflector
	audit    func(ctx context.Context) (status.AuditResult, error) // nil for a reflector
	check    func() []string                                       // the faults in the received changes
	status   func() []status.Reflector
	events   func() string
	shrink   func() // shrinks the test's own maps, which grow while a follower is behind
}

func (f *soakFollower) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-34s %s", f.name, f.events())
	for _, s := range f.status() {
		fmt.Fprintf(&b, "; %d lists, %d watches", s.Traffic.Lists, s.Traffic.Watches)
	}
	return b.String()
}

// sees returns the mark by which f gets c, if it gets c at all.
func (f *soakFollower) sees(c commit) (mark, bool) {
	matches := func(side string) bool { return side != "" && (f.side == "" || f.side == side) }
	switch {
	case len(f.resource.Namespaces) > 0 && !slices.Contains(f.resource.Namespaces, c.key.Namespace):
		return mark{}, false
	case matches(c.newSide):
		return mark{version: c.version}, true
	case matches(c.oldSide):
		return mark{deleted: c.uid}, true
	}
	return mark{}, false
}

// follow starts the followers. They differ in mode, format, scope and transport.
func (s *soak) follow() {
	type config = informer.Config[*corev1.ConfigMap]
	all := informer.Resource{GroupVersionResource: configMapsResource}
	two, side := all, all
	two.Namespaces = s.ledger.namespaces[:2]
	side.LabelSelector = sideLabel + "=a"
	const JSON, protobuf = apiruntime.ContentTypeJSON, apiruntime.ContentTypeProtobuf
	via := func(name string, http2 bool, contentType string) *rest.Config {
		config := s.proxy.config(name, http2)
		config.ContentType = contentType
		return config
	}
	direct := func(name string) *rest.Config {
		config := server.Config()
		config.UserAgent, config.ContentType = name, protobuf
		return config
	}

	followSoak(s, via("streaming JSON, separate", false, JSON), all, config{Layout: informer.LayoutSeparate})
	followSoak(s, via("streaming protobuf", true, protobuf), all, config{})
	followSoak(s, via("paged protobuf, separate", true, protobuf), all, config{PagedList: true, Layout: informer.LayoutSeparate})
	followSoak(s, via("two namespaces, paged JSON", false, JSON), two, config{PagedList: true})
	followSoak(s, via("one side, streaming protobuf", true, protobuf), side, config{})
	followSoak(s, via("metadata only, streaming protobuf", true, protobuf), all, informer.Config[*metav1.PartialObjectMetadata]{})
	// Followers without a proxy see only the server's own faults, so they are connected most of the time.
	followSoak(s, direct("direct"), all, config{})
	s.record(direct("reflector, direct"), all, config{})
	s.record(via("reflector, streaming protobuf", true, protobuf), all, config{})
	s.record(via("reflector, paged JSON", false, JSON), all, config{PagedList: true})
}

func (s *soak) client(config *rest.Config) *informer.Client {
	s.Helper()
	client, err := informer.NewClient(config)
	if err != nil {
		s.Fatal(err)
	}
	return client
}

// soakConfig completes a Config. It discards logs, which would be too long to read.
func soakConfig[T informer.Object](t *testing.T, config informer.Config[T]) informer.Config[T] {
	config.Logger = slog.New(slog.DiscardHandler)
	config.OnDecodeError = logged[T](t).OnDecodeError
	return config
}

// followSoak starts an informer with two handlers. One is slow now and then, so that changes fold.
func followSoak[T compared](s *soak, connection *rest.Config, resource informer.Resource, config informer.Config[T]) {
	s.Helper()
	inf := informer.New(s.client(connection), resource, soakConfig(s.T, config))
	told, slow := newMirror[T](), newMirror[T]()
	n := 0
	slow.busy = func() {
		if n++; n%5000 == 0 {
			<-time.After(3 * time.Second)
		}
	}
	inf.Subscribe(told)
	inf.Subscribe(slow)
	start(s.T, inf)
	side := strings.TrimPrefix(resource.LabelSelector, sideLabel+"=")
	f := &soakFollower{name: connection.UserAgent, resource: resource, side: side, audit: inf.Audit}
	f.visit = func(ctx context.Context) []string { return visit(ctx, inf) }
	f.wait = append(f.wait, told.wait, slow.wait)
	f.note = func() func() map[mark]int {
		told.mu.Lock()
		defer told.mu.Unlock()
		told.noted = map[mark]int{}
		return func() map[mark]int {
			told.mu.Lock()
			defer told.mu.Unlock()
			noted := told.noted
			told.noted = nil
			return noted
		}
	}
	f.snapshot = func() (string, string) {
		snap := inf.Store().Snapshot()
		return snap.ResourceVersion(), digest(snap.List())
	}
	f.check = func() []string {
		var wrong []string
		for name, m := range map[string]*mirror[T]{"": told, "slow handler: ": slow} {
			m.mu.Lock()
			for _, fault := range m.faults {
				wrong = append(wrong, name+fault)
			}
			if digest(slices.Collect(maps.Values(m.world))) != digest(inf.Store().List()) {
				wrong = append(wrong, name+"the received objects differ from the store")
			}
			m.mu.Unlock()
		}
		// After an outage of a minute, an informer audits by itself.
		if audits := inf.Status().Audit; audits.Different > 0 {
			wrong = append(wrong, fmt.Sprintf("audits found differences: %v", audits.LastError))
		}
		for _, status := range inf.Status().Reflectors {
			if status.Restored > 0 {
				wrong = append(wrong, fmt.Sprintf("took the server as restored %d times", status.Restored))
			}
		}
		return wrong
	}
	f.status = func() []status.Reflector { return inf.Status().Reflectors }
	f.events = func() string {
		told.mu.Lock()
		defer told.mu.Unlock()
		slow.mu.Lock()
		defer slow.mu.Unlock()
		return fmt.Sprintf("%v; slow handler %v", told.events, slow.events)
	}
	f.shrink = func() { told.shrink(); slow.shrink() }
	s.followers = append(s.followers, f)
}

// visit subscribes for a short time during the run.
func visit[T compared](ctx context.Context, inf *informer.Informer[T]) []string {
	told := newMirror[T]()
	sub := inf.Subscribe(told, informer.SubscriptionConfig[T]{Name: "visitor"})
	atLeast := inf.Store().Len() / 2 // never zero
	err := sub.WaitSynced(ctx)
	sub.Close()
	<-sub.Done()
	told.mu.Lock()
	defer told.mu.Unlock()
	if err == nil && len(told.world) < atLeast {
		told.fault("a visitor has synced with %d objects, want at least %d", len(told.world), atLeast)
	}
	return told.faults
}

// record starts a reflector whose sink records everything.
func (s *soak) record(connection *rest.Config, resource informer.Resource, config informer.Config[*corev1.ConfigMap]) {
	s.Helper()
	written := newTape[*corev1.ConfigMap](s.ledger.namespaces)
	s.ledger.listen(written.expect)
	r, err := informer.NewReflector(s.client(connection), resource, written, soakConfig(s.T, config))
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	s.Cleanup(func() { cancel(); running.Wait() })
	s.followers = append(s.followers, &soakFollower{
		name: connection.UserAgent, resource: resource,
		wait: []func(informer.Key, uint64) <-chan struct{}{written.wait},
		check: func() []string {
			wrong := written.check()
			s.proxy.mu.Lock()
			defer s.proxy.mu.Unlock()
			behind := connection.Host == s.proxy.URL
			if lists, expired := written.deltas[informer.Replaced], s.proxy.expired[connection.UserAgent]; behind && lists > 1+expired {
				wrong = append(wrong, fmt.Sprintf("listed %d times, but got only %d times 410 Expired", lists, expired))
			}
			return wrong
		},
		status: func() []status.Reflector { return []status.Reflector{r.Status()} },
		events: func() string {
			written.mu.Lock()
			defer written.mu.Unlock()
			return fmt.Sprint(written.deltas)
		},
		shrink: written.shrink,
	})
}

// settle writes a last object in each namespace, and waits until all followers have received it.
func (s *soak) settle() {
	s.Helper()
	ctx := within(s.T, soakPatience)
	for _, namespace := range s.ledger.namespaces {
		s.ledger.set(informer.Key{Namespace: namespace, Name: lastName}, "a")
	}
	for _, f := range s.followers {
		for _, namespace := range s.ledger.namespaces {
			if len(f.resource.Namespaces) > 0 && !slices.Contains(f.resource.Namespaces, namespace) {
				continue
			}
			last := s.ledger.get(informer.Key{Namespace: namespace, Name: lastName})
			for _, wait := range f.wait {
				select {
				case <-wait(last.key, last.version):
				case <-ctx.Done():
					s.Fatalf("%s did not get %+v within %v: %+v", f.name, last, soakPatience, f.status())
				}
			}
		}
	}
}

// expectAll returns a check that each handler has since received each change exactly once, and nothing else.
func (s *soak) expectAll() (check func()) {
	var mu sync.Mutex
	var commits []commit
	over := false
	s.ledger.listen(func(c commit) {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			commits = append(commits, c)
		}
	})
	noted := map[*soakFollower]func() map[mark]int{}
	for _, f := range s.followers {
		if f.note != nil {
			noted[f] = f.note()
		}
	}
	return func() {
		s.Helper()
		mu.Lock()
		defer mu.Unlock()
		over = true
		s.Logf("%d changes without faults", len(commits))
		for f, noted := range noted {
			got, want := noted(), 0
			wrong := 0
			for _, c := range commits {
				what, told := f.sees(c)
				if !told {
					continue
				}
				want++
				if n := got[what]; n != 1 {
					if wrong++; wrong <= 3 {
						s.Errorf("%s got %d times %+v, want once", f.name, n, c)
					}
				}
				delete(got, what)
			}
			if wrong > 3 || want == 0 {
				s.Errorf("%s got %d changes of %d wrongly", f.name, wrong, want)
			}
			// The server writes a few config maps of its own after a start.
			if extra := len(got); extra > 10 {
				s.Errorf("%s got %d unexpected changes", f.name, extra)
			}
		}
	}
}

// digest identifies a set of objects and their versions.
func digest[T informer.Object](objects []T) string {
	lines := make([]string, len(objects))
	for i, obj := range objects {
		lines[i] = fmt.Sprintln(informer.KeyOf(obj), obj.GetUID(), obj.GetResourceVersion())
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return fmt.Sprintf("%d objects, %x", len(lines), sum[:8])
}

// serverDigest returns the digest of a collection on the server at a resource version.
func serverDigest(ctx context.Context, client metadata.Interface, resource informer.Resource, resourceVersion string) (string, error) {
	var objects []*metav1.PartialObjectMetadata
	namespaces := resource.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		list, err := client.Resource(resource.GroupVersionResource).Namespace(namespace).List(ctx, metav1.ListOptions{
			LabelSelector: resource.LabelSelector, ResourceVersion: resourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		})
		if err != nil {
			return "", err
		}
		objects = append(objects, pointers(list.Items)...)
	}
	return digest(objects), nil
}

// compareNowAndThen compares a store with the server during the faults, which last d, and lets visitors come and go.
func (s *soak) compareNowAndThen(ctx context.Context, d time.Duration, random *rand.Rand) {
	client := metadataClient(s.T)
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	compared, unknown := 0, map[string]int{}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.Logf("during the faults %d stores were compared with the server; its errors were %v", compared, unknown)
			if compared == 0 && d >= time.Minute {
				s.Error("no store was compared with the server during the faults")
			}
			return
		}
		f := s.followers[random.IntN(len(s.followers))]
		if f.visit == nil {
			continue
		}
		for _, wrong := range f.visit(ctx) {
			s.Errorf("%s: %s", f.name, wrong)
		}
		if len(f.resource.Namespaces) > 1 { // two namespaces have no common version
			continue
		}
		rv, got := f.snapshot()
		switch want, err := serverDigest(ctx, client, f.resource, rv); {
		case err != nil: // the server is down, or no longer has that version
			unknown[string(apierrors.ReasonForError(err))]++
		case got != want:
			s.Errorf("%s at %s: got %s, the server had %s", f.name, rv, got, want)
		default:
			compared++
		}
	}
}

// compareAll compares the ledger and all stores with the server when nothing changes any more.
func (s *soak) compareAll() {
	s.Helper()
	ctx := within(s.T, patience)
	client := metadataClient(s.T)
	for _, f := range s.followers {
		if f.snapshot == nil {
			continue
		}
		rv, got := f.snapshot()
		if len(f.resource.Namespaces) > 1 {
			rv = fmt.Sprint(s.ledger.last)
		}
		want, err := serverDigest(ctx, client, f.resource, rv)
		if err != nil {
			s.Fatal(err)
		}
		if got != want {
			s.Errorf("%s at %s: got %s, the server has %s", f.name, rv, got, want)
		}
		s.audit(ctx, f)
	}
	var written []*metav1.PartialObjectMetadata
	for key, c := range s.ledger.state {
		if c.newSide != "" {
			written = append(written, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: key.Namespace, Name: key.Name, UID: c.uid, ResourceVersion: fmt.Sprint(c.version),
			}})
		}
	}
	resource := informer.Resource{GroupVersionResource: configMapsResource, Namespaces: s.ledger.namespaces}
	want, err := serverDigest(ctx, client, resource, fmt.Sprint(s.ledger.last))
	if err != nil {
		s.Fatal(err)
	}
	if got := digest(written); got != want {
		s.Errorf("the ledger has %s; the server has %s", got, want)
	}
	s.Logf("server, stores and ledger have %s", want)
}

// audit checks that an audit of f compares all objects and finds no difference.
func (s *soak) audit(ctx context.Context, f *soakFollower) {
	s.Helper()
	result, err := f.audit(ctx)
	switch {
	case err != nil:
		s.Errorf("%s: an audit failed: %v", f.name, err)
	case result.Objects == 0 || result.Differ > 0 || result.Unclear > 0:
		s.Errorf("%s: an audit found %+v", f.name, result)
	}
}

// footprint is the process's resource use at rest.
type footprint struct {
	ours       int // goroutines of the library
	goroutines int
	heap       int64
	cpu        time.Duration // so far
}

func (f footprint) String() string {
	return fmt.Sprintf("%d goroutines, %d of them of the library, %.1f MB of heap, %v of processor time",
		f.goroutines, f.ours, float64(f.heap)/1e6, f.cpu.Round(time.Second))
}

// processorTime returns the processor time of this process so far.
func processorTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func (s *soak) footprint() footprint {
	for _, f := range s.followers {
		f.shrink()
	}
	runtime.GC()
	runtime.GC() // objects with finalizers or in pools go only with a second collection
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return footprint{ours: libraryGoroutines(), goroutines: runtime.NumGoroutine(), heap: int64(memory.HeapAlloc), cpu: processorTime()}
}

// libraryGoroutines returns the number of goroutines with a function of the library on their stack.
func libraryGoroutines() int {
	stacks := make([]byte, 1<<20)
	for {
		n := runtime.Stack(stacks, true)
		if n < len(stacks) {
			stacks = stacks[:n]
			break
		}
		stacks = make([]byte, 2*len(stacks))
	}
	n := 0
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "\ngithub.com/typedinformer/informer.") {
			n++
		}
	}
	return n
}

const (
	// moreGoroutines allows for new open connections, which have two goroutines at each end.
	moreGoroutines = 40
	// moreHeap is the allowed growth of a heap of about 110 MB: some more objects, and the memory of connections. A
	// follower that does not release its events adds 20 MB in two minutes.
	moreHeap = 12 << 20
)

func (s *soak) compareFootprints(before, after footprint) {
	s.Helper()
	if after.ours != before.ours {
		s.Errorf("the library has %d goroutines, and had %d before", after.ours, before.ours)
	}
	if after.goroutines > before.goroutines+moreGoroutines {
		s.Errorf("%d goroutines, and %d before", after.goroutines, before.goroutines)
	}
	if after.heap > before.heap+moreHeap {
		s.Errorf("%d bytes of heap, and %d before", after.heap, before.heap)
	}
}

// faults makes the faults of a soak.
type faults struct {
	*soak
	random *rand.Rand
	heavy  chan func(ctx context.Context) error // run one by one, since they stop the server

	mu    sync.Mutex // protects count
	count map[string]int
}

func newFaults(s *soak, random *rand.Rand) *faults {
	return &faults{soak: s, random: random, heavy: make(chan func(context.Context) error, 100), count: map[string]int{}}
}

func (f *faults) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, c := range f.count {
		n += c
	}
	return fmt.Sprintf("%d faults: %v", n, f.count)
}

// run makes one fault a second until ctx ends. It returns when the server has recovered.
func (f *faults) run(ctx context.Context) {
	// Complete the fault under way when the time is over.
	whole := context.WithoutCancel(ctx)
	var server sync.WaitGroup
	server.Go(func() {
		for {
			select {
			case fault := <-f.heavy:
				if err := fault(whole); err != nil {
					f.Error(err)
				}
			case <-ctx.Done():
				return
			}
		}
	})
	defer server.Wait()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var bag []string
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if len(bag) == 0 {
			bag = f.minute()
		}
		f.do(bag[0])
		bag = bag[1:]
	}
}

// minute returns the faults of one minute in random order.
func (f *faults) minute() []string {
	var bag []string
	for name, times := range map[string]int{
		"crash": 1, "crash out of sight": 1, "crash of etcd": 1, "pause": 2,
		"reset": 10, "refuse": 6, "stall": 8, "end": 8, "cut": 10, "429": 4, "500": 3, "503": 3, "410": 3,
	} {
		bag = append(bag, slices.Repeat([]string{name}, times)...)
	}
	slices.Sort(bag) // the same order for a seed
	f.random.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
	return bag
}

// someone returns one of the followers behind the proxy, or all of them.
func (f *faults) someone() []string {
	var names []string
	for _, follower := range f.followers {
		if !strings.Contains(follower.name, "direct") {
			names = append(names, follower.name)
		}
	}
	if i := f.random.IntN(len(names)); f.random.IntN(6) > 0 {
		return names[i : i+1]
	}
	return names
}

// do makes one fault, or queues it until the server has recovered.
func (f *faults) do(name string) {
	seconds := func(least, most float64) time.Duration {
		return time.Duration((least + f.random.Float64()*(most-least)) * float64(time.Second))
	}
	d := seconds(1, 4)
	heavy := func(fault func(ctx context.Context) error) {
		select {
		case f.heavy <- func(ctx context.Context) error { defer f.did(name); return fault(ctx) }:
		default: // enough are queued
		}
	}
	switch name {
	case "crash":
		heavy(func(ctx context.Context) error {
			return errors.Join(server.KillAPIServer(), server.StartAPIServer(ctx))
		})
		return
	case "crash out of sight":
		heavy(f.crashOutOfSight)
		return
	case "crash of etcd":
		heavy(func(ctx context.Context) error {
			err := server.KillEtcd()
			<-time.After(d)
			return errors.Join(err, server.StartEtcd(ctx))
		})
		return
	case "pause":
		heavy(func(context.Context) error {
			err := server.PauseAPIServer()
			<-time.After(d)
			return errors.Join(err, server.ResumeAPIServer())
		})
		return
	case "reset":
		f.proxy.reset(f.random.Float64()/2, f.random)
	case "refuse":
		time.AfterFunc(d, f.proxy.refuse())
	case "stall":
		f.proxy.stall(d)
	case "end":
		for _, who := range f.someone() {
			f.proxy.finish(who)
		}
	case "cut":
		// Usually cut in the first events, sometimes deep in a list.
		f.proxy.answer(f.someone(), answer{cut: 1 + f.random.IntN(1<<(6+f.random.IntN(16)))})
	default:
		a := answer{code: int(parseVersion(name))}
		f.proxy.answer(f.someone(), slices.Repeat([]answer{a}, 1+f.random.IntN(3))...)
	}
	f.did(name)
}

func (f *faults) did(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count[name]++
}

// crashOutOfSight makes the followers behind the proxy miss changes that the server no longer has afterwards.
func (f *faults) crashOutOfSight(ctx context.Context) error {
	accept := f.proxy.refuse()
	defer accept()
	<-time.After(time.Second) // for changes that they miss
	f.ledger.mu.Lock()
	last := f.ledger.last
	f.ledger.mu.Unlock()
	return errors.Join(server.Compact(ctx, last), server.KillAPIServer(), server.StartAPIServer(ctx))
}

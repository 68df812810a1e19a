package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/typedinformer/informer/bench/internal/canned"
	"github.com/typedinformer/informer/bench/internal/measure"
)

// This file has the work of a client process. It checks the events, the reconciles and the reads, and fails if they
// differ from the server, so no figure is from work that was not done.

// job is the work of a client process.
type job struct {
	Peer     string // its name in peers
	Format   string // a media type
	Server   string // its address
	Changes  int    // number of changes sent as fast as they are read
	Profiles string // the directory for a processor profile of each step; empty means none
}

// The figures that a process reports. Each is a number.
const (
	syncTime      = "sync s" // from before the manager is made until the controller has received each pod
	syncCPU       = "sync CPU s"
	peakMemory    = "peak B"            // peak resident memory of the process until then
	startTime     = "start s"           // from before the manager is made until each pod is reconciled
	liveHeap      = "heap B"            // growth per pod until then
	getTime       = "get ns"            // of one pod by its key, as a copy
	getShared     = "get shared ns"     // with UnsafeDisableDeepCopy
	getTyped      = "get typed ns"      // by crcache.Get
	nodePods      = "pods of a node"    // number of pods that a read by index finds, on average
	nodeTime      = "node ns"           // to list the pods of a node by the index of a field, as copies
	nodeShared    = "node shared ns"    // with UnsafeDisableDeepCopy
	nodeTyped     = "node typed ns"     // by crcache.Index
	appPods       = "pods of an app"    // number of pods that a read by label finds in one namespace, on average
	inNamespace   = "in namespace"      // number of all its pods
	appTime       = "app ns"            // to list them, as copies
	appShared     = "app shared ns"     // with UnsafeDisableDeepCopy
	appTyped      = "app typed ns"      // by crcache.List
	appEverywhere = "app everywhere ns" // to list the pods with the label in all namespaces, as copies
	// from the release of the changes until each changed pod is reconciled in its last version
	changeRate   = "changes/s"
	changeCPU    = "change CPU s"  // of each
	relistCPU    = "relist CPU s"  // from 410 until a later change and all that the relist caused is reconciled
	relistEvents = "relist events" // to the controller
)

// figures are the results of one process, by the names above.
type figures map[string]float64

// work runs a client process.
func work(encoded string) error {
	var j job
	if err := json.Unmarshal([]byte(encoded), &j); err != nil {
		return err
	}
	i := slices.IndexFunc(peers, func(p peer) bool { return p.name == j.Peer })
	if i < 0 {
		return fmt.Errorf("no peer is named %q", j.Peer)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	p := &process{job: j, peer: peers[i], server: canned.Control{Server: j.Server}, ended: make(chan error, 1),
		figures: figures{}}
	if err := p.run(ctx); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(p.figures)
}

// process is this process during its job.
type process struct {
	job
	peer    peer
	server  canned.Control
	info    canned.Info
	manager manager.Manager
	seen    progress
	empty   int64      // the live heap before the start
	ended   chan error // receives what Start of the manager returned
	figures
}

func (p *process) run(ctx context.Context) (err error) {
	if p.info, err = p.server.Reset(); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{{"start", p.start}, {"reads", p.reads}, {"relist", p.relist}, {"changes", p.changes}} {
		if err := p.profiled(step.name, func() error { return step.do(ctx) }); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	formats, err := p.server.Served()
	if err == nil && !slices.Equal(formats, []string{p.Format}) {
		err = fmt.Errorf("the server got requests for %q", formats)
	}
	return err
}

// profiled does a step, and writes its profile if one is requested.
func (p *process) profiled(step string, do func() error) error {
	if p.Profiles == "" {
		return do()
	}
	name := strings.NewReplacer(" ", "-", ",", "").Replace(p.Peer + " " + canned.Name(p.Format) + " " + step)
	file, err := os.Create(filepath.Join(p.Profiles, name+".pprof"))
	if err != nil {
		return err
	}
	defer file.Close()
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return do()
}

const nodeField = "spec.nodeName"

// start makes the manager and its controller, and waits until each pod is reconciled.
func (p *process) start(ctx context.Context) error {
	ctrl.SetLogger(logr.Discard())
	p.empty = measure.LiveHeap()
	cpu, began := measure.CPU(), time.Now()
	synced := p.seen.when(func(s *progress) bool { return s.events == p.info.Pods })
	reconciled := p.seen.when(func(s *progress) bool { return s.events == p.info.Pods && len(s.due) == 0 })
	if err := p.startManager(ctx); err != nil {
		return err
	}
	if err := p.wait(ctx, synced); err != nil {
		return err
	}
	p.figures[syncTime] = time.Since(began).Seconds()
	p.figures[syncCPU] = (measure.CPU() - cpu).Seconds()
	p.figures[peakMemory] = float64(measure.PeakMemory())
	if err := p.wait(ctx, reconciled); err != nil {
		return err
	}
	p.figures[startTime] = time.Since(began).Seconds()
	p.seen.forget()
	return p.seen.check(p.info.Pods)
}

// startManager starts a manager with one controller, for pods, and an index of them.
func (p *process) startManager(ctx context.Context) error {
	config, err := p.server.Client(p.info, canned.HTTP2, p.Format)
	if err != nil {
		return err
	}
	options := manager.Options{Metrics: metricsserver.Options{BindAddress: "0"}}
	p.peer.set(&options)
	if p.manager, err = ctrl.NewManager(config, options); err != nil {
		return err
	}
	err = p.manager.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, nodeField, func(obj client.Object) []string {
		return []string{obj.(*corev1.Pod).Spec.NodeName}
	})
	if err != nil {
		return err
	}
	pods := p.manager.GetClient()
	err = ctrl.NewControllerManagedBy(p.manager).
		For(&corev1.Pod{}, builder.WithPredicates(predicate.NewPredicateFuncs(p.seen.event))).
		Complete(reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			var pod corev1.Pod
			if err := pods.Get(ctx, request.NamespacedName, &pod); err != nil {
				return reconcile.Result{}, err
			}
			p.seen.reconciled(&pod)
			return reconcile.Result{}, nil
		}))
	if err != nil {
		return err
	}
	go func() { p.ended <- p.manager.Start(ctx) }()
	return nil
}

// reads measures reads of the cache. Each looks at the objects that it gets, and checks their number.
func (p *process) reads(ctx context.Context) error {
	c := p.manager.GetCache()
	nodes, apps, everywhere, err := p.groups(ctx, c)
	if err != nil {
		return err
	}
	p.figures[nodePods], p.figures[appPods] = nodes.average(), apps.average()
	p.figures[inNamespace] = float64(p.info.InNamespace)
	get := func(options ...client.GetOption) func(i int) error {
		return func(i int) error {
			var pod corev1.Pod
			key := p.info.Keys[i%len(p.info.Keys)]
			if err := c.Get(ctx, key, &pod, options...); err != nil || pod.Name != key.Name {
				return fmt.Errorf("get %s: %q, %w", key, pod.Name, err)
			}
			return nil
		}
	}
	list := func(group groups, options func(value string) []client.ListOption, more ...client.ListOption) func(i int) error {
		values := group.values()
		return func(i int) error {
			value := values[i%len(values)]
			var pods corev1.PodList
			if err := c.List(ctx, &pods, append(options(value), more...)...); err != nil {
				return err
			}
			return group.check(value, len(pods.Items))
		}
	}
	namespace := client.InNamespace(p.info.Namespace)
	inNode := func(node string) []client.ListOption {
		return []client.ListOption{client.MatchingFields{nodeField: node}}
	}
	ofApp := func(app string) []client.ListOption {
		return []client.ListOption{namespace, client.MatchingLabels{appLabel: app}}
	}
	ofAppEverywhere := func(app string) []client.ListOption { return []client.ListOption{client.MatchingLabels{appLabel: app}} }
	type read struct {
		figure string
		do     func(i int) error
	}
	reads := []read{
		{getTime, get()},
		{getShared, get(client.UnsafeDisableDeepCopy)},
		{nodeTime, list(nodes, inNode)},
		{nodeShared, list(nodes, inNode, client.UnsafeDisableDeepCopy)},
		{appTime, list(apps, ofApp)},
		{appShared, list(apps, ofApp, client.UnsafeDisableDeepCopy)},
		{appEverywhere, list(everywhere, ofAppEverywhere)},
	}
	// All reads work in the thread of the caller, so its processor time is their time on a quiet machine.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	enough := min(200*time.Millisecond, time.Duration(p.info.Pods)*10*time.Microsecond)
	measureAll := func(reads []read) error {
		for _, r := range reads {
			if p.figures[r.figure], _, err = measure.Each(enough, measure.ThreadCPU, r.do); err != nil {
				return fmt.Errorf("%s: %w", r.figure, err)
			}
		}
		return nil
	}
	if err := measureAll(reads); err != nil {
		return err
	}
	// After the reads, a cache has tidied up what the start left; a typed index is not a part of the comparison.
	p.figures[liveHeap] = float64(measure.LiveHeap()-p.empty) / float64(p.info.Pods)
	if p.peer.own {
		typed, err := newTypedReads(ctx, c)
		if err != nil {
			return err
		}
		someNodes, someApps := nodes.values(), apps.values()
		return measureAll([]read{
			{getTyped, func(i int) error {
				key := p.info.Keys[i%len(p.info.Keys)]
				if pod, err := typed.get(key); err != nil || pod.Name != key.Name {
					return fmt.Errorf("get %s: %w", key, err)
				}
				return nil
			}},
			{nodeTyped, func(i int) error {
				node := someNodes[i%len(someNodes)]
				return nodes.check(node, typed.index(node))
			}},
			{appTyped, func(i int) error {
				app := someApps[i%len(someApps)]
				pods, err := typed.list(ofApp(app)...)
				if err != nil {
					return err
				}
				return apps.check(app, len(pods))
			}},
		})
	}
	return nil
}

const appLabel = "app"

// groups returns the number of pods of each node, and of each app in one namespace and everywhere.
func (p *process) groups(ctx context.Context, c cache.Cache) (nodes, apps, everywhere groups, err error) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods); err != nil {
		return nil, nil, nil, err
	}
	if len(pods.Items) != p.info.Pods {
		return nil, nil, nil, fmt.Errorf("there are %d pods instead of %d", len(pods.Items), p.info.Pods)
	}
	nodes, apps, everywhere = groups{}, groups{}, groups{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if node := pod.Spec.NodeName; node != "" {
			nodes[strings.Clone(node)]++
		}
		if app, ok := pod.Labels[appLabel]; ok {
			everywhere[strings.Clone(app)]++
			if pod.Namespace == p.info.Namespace {
				apps[strings.Clone(app)]++
			}
		}
	}
	maps.DeleteFunc(everywhere, func(app string, _ int) bool { return apps[app] == 0 })
	if len(nodes) == 0 || len(apps) == 0 {
		return nil, nil, nil, fmt.Errorf("there are %d nodes, and %d apps in %s", len(nodes), len(apps), p.info.Namespace)
	}
	return nodes, apps, everywhere, nil
}

// groups has the number of pods by a value.
type groups map[string]int

func (g groups) values() []string { return slices.Sorted(maps.Keys(g)) }

func (g groups) average() float64 {
	sum := 0
	for _, n := range g {
		sum += n
	}
	return float64(sum) / float64(len(g))
}

func (g groups) check(value string, got int) error {
	if got != g[value] {
		return fmt.Errorf("%q has %d pods instead of %d", value, got, g[value])
	}
	return nil
}

// relist makes the watch expire, and waits for the first change after the following list. Events before that are due to
// the list.
func (p *process) relist(ctx context.Context) error {
	last, err := p.last(1)
	if err != nil {
		return err
	}
	runtime.GC()
	cpu, before := measure.CPU(), p.seen.count()
	err = p.release(ctx, last, func() error {
		if err := p.server.Expire(); err != nil {
			return err
		}
		_, err := p.server.Release(1, 0)
		return err
	})
	if err != nil {
		return err
	}
	p.figures[relistCPU] = (measure.CPU() - cpu).Seconds()
	p.figures[relistEvents] = float64(p.seen.count() - before - 1)
	return nil
}

func (p *process) changes(ctx context.Context) error {
	last, err := p.last(p.Changes)
	if err != nil {
		return err
	}
	runtime.GC()
	cpu, before, began := measure.CPU(), p.seen.count(), time.Now()
	err = p.release(ctx, last, func() error {
		_, err := p.server.Release(p.Changes, 0)
		return err
	})
	if err != nil {
		return err
	}
	p.figures[changeRate] = float64(p.Changes) / time.Since(began).Seconds()
	p.figures[changeCPU] = (measure.CPU() - cpu).Seconds() / float64(p.Changes)
	return p.seen.check(before + p.Changes)
}

// last returns the version of the last of the next n changes.
func (p *process) last(n int) (uint64, error) {
	first, err := p.server.Release(0, 0)
	if err != nil {
		return 0, err
	}
	changes, err := p.server.Released(first, first+n)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(changes.Versions[n-1], 10, 64)
}

// release calls release, which must release the changes up to version last, and waits until the controller has received
// that and has reconciled everything.
func (p *process) release(ctx context.Context, last uint64, release func() error) error {
	done := p.seen.when(func(s *progress) bool { return s.last == last && len(s.due) == 0 })
	if err := release(); err != nil {
		return err
	}
	if err := p.wait(ctx, done); err != nil {
		return err
	}
	p.seen.forget()
	return nil
}

// progress is what the controller has received and reconciled.
type progress struct {
	mu     sync.Mutex // protects the fields below
	events int
	last   uint64                          // the resource version of the last event
	due    map[types.NamespacedName]uint64 // the pods to reconcile, with the versions of their last events
	waits  []wait
}

// wait is closed once the condition holds.
type wait struct {
	until func(*progress) bool
	done  chan struct{}
}

// event receives each event. The controller reconciles the pod because it returns true.
func (s *progress) event(obj client.Object) bool {
	version, _ := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events++
	s.last = version
	if s.due == nil {
		s.due = map[types.NamespacedName]uint64{}
	}
	s.due[client.ObjectKeyFromObject(obj)] = version
	s.tellLocked()
	return true
}

// reconciled is called by the reconciler with the pod that it read. The pod may be newer than its last event: then
// another event follows, and another reconcile.
func (s *progress) reconciled(pod *corev1.Pod) {
	version, _ := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	if key := client.ObjectKeyFromObject(pod); s.due[key] == version {
		delete(s.due, key)
		s.tellLocked()
	}
}

func (s *progress) tellLocked() {
	s.waits = slices.DeleteFunc(s.waits, func(w wait) bool {
		if !w.until(s) {
			return false
		}
		close(w.done)
		return true
	})
}

// when returns a channel that is closed as soon as until is true after an event or a reconcile.
func (s *progress) when(until func(*progress) bool) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := make(chan struct{})
	s.waits = append(s.waits, wait{until, done})
	return done
}

// wait waits for a channel of when. It fails if ctx ends or the manager stops first.
func (p *process) wait(ctx context.Context, done <-chan struct{}) error {
	var err error
	select {
	case <-done:
		return nil
	case err = <-p.ended:
		err = fmt.Errorf("the manager has ended: %w", err)
	case <-ctx.Done():
		err = ctx.Err()
	}
	s := &p.seen
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Errorf("%d events, the last one with version %d; %d pods not reconciled: %w", s.events, s.last, len(s.due),
		err)
}

// forget releases the memory that due needed.
func (s *progress) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.due) == 0 {
		s.due = nil
	}
}

func (s *progress) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events
}

// check returns an error unless the controller received this many events.
func (s *progress) check(events int) error {
	if got := s.count(); got != events {
		return fmt.Errorf("the controller got %d events instead of %d", got, events)
	}
	return nil
}

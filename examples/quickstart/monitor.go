package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/metrics"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
)

// monitor is an informer of pods with two indexes and a handler. It makes frames from their state.
type monitor struct {
	pods    *informer.Informer[*corev1.Pod]
	byPhase *informer.Index[*corev1.Pod, corev1.PodPhase]
	byNode  *informer.Index[*corev1.Pod, string]
	events  *events
	handler *informer.Subscription
	sim     *simulation // nil on a real cluster
	source  string      // the resource and the server

	began  time.Time
	synced atomic.Int64 // nanoseconds of the initial sync; zero before its end
	recent []moment     // of the last seconds, oldest first; used only by frame
}

// moment has the counts at some time.
type moment struct {
	time time.Time
	counts
}

// newMonitor makes the informer. It starts nothing and sends no request; pods.Run does.
func newMonitor(client *informer.Client, resource informer.Resource, sim *simulation, logger *slog.Logger) *monitor {
	m := &monitor{sim: sim, events: &events{}, began: time.Now()}
	if sim != nil {
		m.events.writtenAt = sim.writtenAt
	}
	resource.GroupVersionResource = corev1.SchemeGroupVersion.WithResource("pods")
	m.pods = informer.New(client, resource, informer.Config[*corev1.Pod]{
		Logger: logger,
	})
	m.byPhase = informer.NewIndex(m.pods, func(pod *corev1.Pod) []corev1.PodPhase {
		return []corev1.PodPhase{pod.Status.Phase}
	})
	m.byNode = informer.NewIndex(m.pods, func(pod *corev1.Pod) []string {
		if pod.Spec.NodeName == "" {
			return nil // not scheduled yet: not in this index
		}
		return []string{pod.Spec.NodeName}
	})
	m.handler = m.pods.Subscribe(m.events, informer.SubscriptionConfig[*corev1.Pod]{Name: "events"})
	return m
}

// waitSynced waits until the store has all pods, and the handler has received each of them.
func (m *monitor) waitSynced(ctx context.Context) error {
	began := time.Now()
	if err := m.pods.WaitSynced(ctx); err != nil {
		return err
	}
	if err := m.handler.WaitSynced(ctx); err != nil {
		return err
	}
	m.synced.Store(int64(time.Since(began)))
	return nil
}

// summary returns the final results.
func (m *monitor) summary() string {
	f := m.frame()
	return fmt.Sprintf("%s pods; %v events in %v; initial sync %v; lag %v; heap %s MiB", thousands(f.pods), f.counts,
		f.up.Round(100*time.Millisecond), f.synced.Round(time.Millisecond), f.lag, thousands(int(f.heap>>20)))
}

// frame returns the present state. Only one goroutine at a time may call it.
func (m *monitor) frame() frame {
	f := frame{
		time:   time.Now(),
		source: m.source,
		up:     time.Since(m.began),
		synced: time.Duration(m.synced.Load()),
		status: m.pods.Status(),
	}
	f.counts, f.lag = m.events.totals()
	f.heap, f.resident = memory()
	if m.sim != nil {
		f.loaded, f.total = int(m.sim.loaded.Load()), m.sim.fleet.Len()
	}
	m.recent = slices.DeleteFunc(m.recent, func(old moment) bool { return f.synced == 0 || f.time.Sub(old.time) > rateOver })
	m.recent = append(m.recent, moment{f.time, f.counts})
	f.rates = f.counts.perSecond(m.recent[0].counts, f.time.Sub(m.recent[0].time))

	// All reads of one snapshot are consistent, although the store changes meanwhile.
	snap := m.pods.Store().Snapshot()
	f.pods, f.rv = snap.Len(), snap.ResourceVersion()
	f.phases = groups(m.byPhase, snap)
	f.nodes = groups(m.byNode, snap)
	if f.synced == 0 && f.pods == 0 {
		m.addLoading(&f)
	}
	return f
}

// addLoading counts the pods that have arrived, while the first list is under way. The store is empty until then.
func (m *monitor) addLoading(f *frame) {
	phases, nodes := map[string]int{}, map[string]int{}
	for pod := range m.pods.Loading() {
		phases[string(pod.Status.Phase)]++
		if pod.Spec.NodeName != "" {
			nodes[pod.Spec.NodeName]++
		}
	}
	f.phases, f.nodes = sorted(phases), sorted(nodes)
}

// rateOver is the time over which rates are averaged.
const rateOver = 3 * time.Second

// groups counts the pods under each key of an index, in descending order.
func groups[K ~string](index *informer.Index[*corev1.Pod, K], snap *informer.Snapshot[*corev1.Pod]) []group {
	counts := map[string]int{}
	for key := range index.KeysIn(snap) {
		for range index.LookupIn(snap, key) {
			counts[string(key)]++
		}
	}
	return sorted(counts)
}

// sorted returns groups in descending order.
func sorted(counts map[string]int) []group {
	var all []group
	for name, pods := range counts {
		all = append(all, group{name, pods})
	}
	slices.SortFunc(all, func(a, b group) int { return cmp.Or(b.pods-a.pods, cmp.Compare(a.name, b.name)) })
	return all
}

// memory returns the bytes that were live at the last garbage collection, and the resident bytes, or zero if the system
// does not report them.
func memory() (heap, resident uint64) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}} // unlike runtime.ReadMemStats, it does not stop the world
	metrics.Read(sample)
	statm, _ := os.ReadFile("/proc/self/statm") // Linux
	var size uint64
	fmt.Sscan(string(statm), &size, &resident)
	return sample[0].Value.Uint64(), resident * uint64(os.Getpagesize())
}

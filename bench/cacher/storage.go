package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/typedinformer/informer/internal/test/fleet"
)

// memory is a storage.Interface in memory with the operations that a Cacher needs for lists and watches. It takes the
// place of etcd, and costs almost nothing.
type memory struct {
	mu      sync.Mutex // protects the fields below
	rv      uint64
	pods    map[string]*corev1.Pod
	watches []*memoryWatch
}

var _ storage.Interface = (*memory)(nil)

func newMemory(start []*corev1.Pod, rv uint64) *memory {
	m := &memory{rv: rv, pods: map[string]*corev1.Pod{}}
	for _, pod := range start {
		m.pods[keyOf(pod)] = pod
	}
	return m
}

func keyOf(pod *corev1.Pod) string { return prefix + "/" + pod.Namespace + "/" + pod.Name }

// put stores a change and sends it to the watches.
func (m *memory) put(change fleet.Change, rv uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rv = rv
	if change.Type == watch.Deleted {
		delete(m.pods, keyOf(change.Object))
	} else {
		m.pods[keyOf(change.Object)] = change.Object
	}
	m.sendLocked(watch.Event{Type: change.Type, Object: change.Object})
	return nil
}

func (m *memory) sendLocked(e watch.Event) {
	for _, w := range m.watches {
		select {
		case w.events <- e:
		case <-w.stopped:
		}
	}
}

// memoryWatch is a watch of a memory.
type memoryWatch struct {
	events  chan watch.Event
	stopped chan struct{}
	once    sync.Once
}

func (w *memoryWatch) ResultChan() <-chan watch.Event { return w.events }
func (w *memoryWatch) Stop()                          { w.once.Do(func() { close(w.stopped) }) }

// Watch follows the whole storage from now on. That is all that a Cacher needs, which lists before and finds nothing
// changed in between.
func (m *memory) Watch(_ context.Context, _ string, opts storage.ListOptions) (watch.Interface, error) {
	from, err := m.Versioner().ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if from != m.rv {
		return nil, fmt.Errorf("watch from version %d: only the current one, %d, is supported", from, m.rv)
	}
	w := &memoryWatch{events: make(chan watch.Event, 4096), stopped: make(chan struct{})}
	m.watches = append(m.watches, w)
	return w, nil
}

// IsWatchListSemanticsUnSupported makes the Cacher list before it watches.
func (m *memory) IsWatchListSemanticsUnSupported() bool { return true }

// GetList returns all objects under key at the current version.
func (m *memory) GetList(_ context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	if opts.Predicate.Continue != "" || opts.ResourceVersionMatch == "Exact" {
		return errors.New("the Cacher was expected to answer this")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	pods := list.(*corev1.PodList)
	for _, k := range slices.Sorted(maps.Keys(m.pods)) {
		if strings.HasPrefix(k, key+"/") {
			pods.Items = append(pods.Items, *m.pods[k])
		}
	}
	return m.Versioner().UpdateList(list, m.rv, "", nil)
}

func (m *memory) GetCurrentResourceVersion(context.Context) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rv, nil
}

// RequestWatchProgress sends a bookmark.
func (m *memory) RequestWatchProgress(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	bookmark := &corev1.Pod{}
	if err := m.Versioner().UpdateObject(bookmark, m.rv); err != nil {
		return err
	}
	m.sendLocked(watch.Event{Type: watch.Bookmark, Object: bookmark})
	return nil
}

func (m *memory) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }
func (m *memory) ReadinessCheck() error        { return nil }
func (m *memory) CompactRevision() int64       { return 0 }

func (m *memory) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

func (m *memory) Stats(context.Context) (storage.Stats, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return storage.Stats{ObjectCount: int64(len(m.pods))}, nil
}

// errOperation indicates an operation that lists and watches do not need.
var errOperation = errors.New("the storage of this benchmark only lists and watches")

func (m *memory) Create(context.Context, string, runtime.Object, runtime.Object, uint64) error {
	return errOperation
}

func (m *memory) Delete(context.Context, string, runtime.Object, *storage.Preconditions, storage.ValidateObjectFunc,
	runtime.Object, storage.DeleteOptions) error {
	return errOperation
}

func (m *memory) Get(context.Context, string, storage.GetOptions, runtime.Object) error {
	return errOperation
}

func (m *memory) GuaranteedUpdate(context.Context, string, runtime.Object, bool, *storage.Preconditions,
	storage.UpdateFunc, runtime.Object) error {
	return errOperation
}

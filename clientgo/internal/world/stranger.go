package world

import (
	"context"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Stranger is a ListerWatcher as a program may have written it. It lists what it holds, and its watches have no
// history: they begin with the next change. The zero value holds nothing. It ignores all options, which it records.
type Stranger struct {
	// Listed changes the answer to a list, or replaces it by an error. Nil means no change.
	Listed func(list *corev1.PodList, options metav1.ListOptions) (runtime.Object, error)
	// Watched is called before a watch opens. Its error refuses the watch. Nil means no call.
	Watched func(ctx context.Context, options metav1.ListOptions) error

	mu      sync.Mutex // protects the fields below
	pods    []*corev1.Pod
	version int
	lists   []metav1.ListOptions
	open    []*watched
}

// watched is an open watch of a Stranger.
type watched struct {
	*watch.RaceFreeFakeWatcher
	stranger *Stranger
}

// Stop implements watch.Interface.
func (w *watched) Stop() {
	w.stranger.mu.Lock()
	defer w.stranger.mu.Unlock()
	w.stranger.open = slices.DeleteFunc(w.stranger.open, func(other *watched) bool { return other == w })
	w.RaceFreeFakeWatcher.Stop()
}

// StrangePod returns a pod with a UID, without a version.
func StrangePod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid"}}
}

// Add adds pods without an event.
func (s *Stranger) Add(pods ...*corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.pods = append(s.pods, pods...)
}

// Send holds pod, unless typ is Deleted, and sends the same pointer to the watches.
func (s *Stranger) Send(typ watch.EventType, pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.pods = slices.DeleteFunc(s.pods, func(p *corev1.Pod) bool {
		return p.Namespace == pod.Namespace && p.Name == pod.Name
	})
	if typ != watch.Deleted {
		s.pods = append(s.pods, pod)
	}
	s.sendLocked(typ, pod)
}

// SendRaw sends an event of any content to the watches.
func (s *Stranger) SendRaw(typ watch.EventType, obj runtime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sendLocked(typ, obj)
}

func (s *Stranger) sendLocked(typ watch.EventType, obj runtime.Object) {
	for _, w := range s.open {
		w.Action(typ, obj)
	}
}

// Lists returns the options of the lists until now.
func (s *Stranger) Lists() []metav1.ListOptions {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lists)
}

// Open returns the number of open watches.
func (s *Stranger) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// ListWithContext implements cache.ListerWatcherWithContext.
func (s *Stranger) ListWithContext(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list := &corev1.PodList{}
	s.mu.Lock()
	s.lists = append(s.lists, options)
	list.ResourceVersion = strconv.Itoa(s.version)
	objects := []runtime.Object{}
	for _, p := range s.pods {
		objects = append(objects, p)
	}
	s.mu.Unlock()
	if err := meta.SetList(list, objects); err != nil {
		return nil, err
	}
	if s.Listed != nil {
		return s.Listed(list, options)
	}
	return list, nil
}

// WatchWithContext implements cache.ListerWatcherWithContext.
func (s *Stranger) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if s.Watched != nil {
		if err := s.Watched(ctx, options); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &watched{watch.NewRaceFreeFake(), s}
	s.open = append(s.open, w)
	return w, nil
}

// List implements cache.ListerWatcher.
func (s *Stranger) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

// Watch implements cache.ListerWatcher.
func (s *Stranger) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

// IsWatchListSemanticsUnSupported keeps client-go from a streaming list.
func (s *Stranger) IsWatchListSemanticsUnSupported() bool { return true }

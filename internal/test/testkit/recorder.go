package testkit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/typedinformer/informer/internal/object"
)

// Recorder is a handler that records each call as a line of text, and checks that the call follows from earlier ones.
// The zero value is ready to use.
type Recorder[T object.Object] struct {
	Gate  chan struct{} // if not nil, each call waits for a token, or until Gate is closed
	After func(obj T)   // if not nil, called at the end of each call

	mu     sync.Mutex // protects the fields below
	lines  []string
	broken int // calls that do not follow from earlier ones
	has    map[object.Key]T
}

// OnAdd records an addition.
func (r *Recorder[T]) OnAdd(obj T, initial bool) {
	defer r.begin(obj)()
	_, known := r.has[object.KeyOf(obj)]
	r.note(!known, "add %s %s initial=%v", shortKey(obj), VersionOf(obj), initial)
	r.has[object.KeyOf(obj)] = obj
}

// OnUpdate records an update.
func (r *Recorder[T]) OnUpdate(old, new T) {
	defer r.begin(new)()
	r.note(object.Same(r.has[object.KeyOf(new)], old), "update %s %s->%s", shortKey(new), VersionOf(old), VersionOf(new))
	r.has[object.KeyOf(new)] = new
}

// OnDelete records a deletion.
func (r *Recorder[T]) OnDelete(last T, final bool) {
	defer r.begin(last)()
	have, known := r.has[object.KeyOf(last)]
	r.note(known && have.GetUID() == last.GetUID(), "delete %s %s final=%v", shortKey(last), VersionOf(last), final)
	delete(r.has, object.KeyOf(last))
}

// begin begins a call. The function that it returns ends it.
func (r *Recorder[T]) begin(obj T) (end func()) {
	if r.Gate != nil {
		<-r.Gate
	}
	r.mu.Lock()
	if r.has == nil {
		r.has = map[object.Key]T{}
	}
	return func() {
		r.mu.Unlock()
		if r.After != nil {
			r.After(obj)
		}
	}
}

func (r *Recorder[T]) note(follows bool, format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if !follows {
		r.broken++
		line += ", which does not follow from the last call"
	}
	r.lines = append(r.lines, line)
}

// Hold blocks later calls until release. It must not be called during a call.
func (r *Recorder[T]) Hold() (release func()) {
	r.Gate = make(chan struct{})
	return sync.OnceFunc(func() { close(r.Gate) })
}

// Told returns the lines since the last Take.
func (r *Recorder[T]) Told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

// Take returns the lines since the last Take, and removes them.
func (r *Recorder[T]) Take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return lines
}

// Want waits until all other goroutines in the bubble block, and then checks what Take returns.
func (r *Recorder[T]) Want(t *testing.T, lines ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(lines, r.Take()); diff != "" {
		t.Errorf("handler got (-want +got):\n%s", diff)
	}
}

// Broken returns the number of calls that did not follow from earlier ones.
func (r *Recorder[T]) Broken() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.broken
}

// Has returns the objects according to the calls so far.
func (r *Recorder[T]) Has() map[object.Key]T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.has)
}

func shortKey[T object.Object](obj T) string {
	return strings.TrimPrefix(object.KeyOf(obj).String(), "/")
}

// VersionOf returns an object's label "v", or its resource version.
func VersionOf[T object.Object](obj T) string {
	if l, ok := any(obj).(interface{ GetLabels() map[string]string }); ok && l.GetLabels()["v"] != "" {
		return l.GetLabels()["v"]
	}
	return "@" + obj.GetResourceVersion()
}

// Package durable tests subscriptions that continue after a restart.
package durable

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

var pods = informer.Resource{GroupVersionResource: world.PodGVR}

// recorder records the calls of a handler of objects T as lines.
type recorder[T informer.Object] struct {
	mu    sync.Mutex
	lines []string
	fails func(line string) bool // whether the call panics; nil for never
}

func (r *recorder[T]) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	r.mu.Lock()
	r.lines = append(r.lines, line)
	r.mu.Unlock()
	if r.fails != nil && r.fails(line) {
		panic(line)
	}
}

func (r *recorder[T]) OnAdd(obj T, initial bool) { r.note("add %s initial=%v", text(obj), initial) }
func (r *recorder[T]) OnUpdate(old, new T)       { r.note("update %s from %s", text(new), version(old)) }
func (r *recorder[T]) OnDelete(last T, final bool) {
	r.note("delete %s final=%v", text(last), final)
}

func (r *recorder[T]) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return lines
}

// want waits until all other goroutines block, and then checks the calls since the last take.
func (r *recorder[T]) want(t *testing.T, lines ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(lines, r.take()); diff != "" {
		t.Errorf("handler got (-want +got):\n%s", diff)
	}
}

func text[T informer.Object](obj T) string {
	return strings.TrimPrefix(informer.KeyOf(obj).String(), "/") + " " + version(obj)
}

// version returns the label "v" of obj, and what else shows how much of it there is.
func version[T informer.Object](obj T) string {
	v := testkit.VersionOf(obj)
	if pod, ok := any(obj).(*corev1.Pod); ok && len(pod.Spec.Containers) == 0 {
		v += " (metadata)"
	}
	return v
}

// life is one run of an informer of pods with a durable subscription.
type life struct {
	*informer.Informer[*corev1.Pod]
	*informer.Subscription
	rec  *recorder[*corev1.Pod]
	log  *testkit.Log
	stop func()
}

func (l life) durable() status.Durable { return *l.Subscription.Status().Durable }

// live runs an informer until stop. Each of prepare is called before that.
func live(w world.World, client *informer.Client, config informer.Config[*corev1.Pod],
	sub informer.SubscriptionConfig[*corev1.Pod], prepare ...func(life)) life {
	w.Helper()
	l := life{log: &testkit.Log{}, rec: &recorder[*corev1.Pod]{}}
	config.Logger = l.log.Logger()
	l.Informer = informer.New(client, pods, config)
	l.Subscription = l.Subscribe(l.rec, sub)
	for _, p := range prepare {
		p(l)
	}
	l.stop = world.Start(w.T, l.Informer)
	synctest.Wait()
	return l
}

// durably returns the configuration of a durable subscription with a state in a directory.
func durably(t *testing.T) informer.SubscriptionConfig[*corev1.Pod] {
	return informer.SubscriptionConfig[*corev1.Pod]{Durable: informer.DurableConfig{Name: "test", Storage: informer.WarmStartDir(t.TempDir())}}
}

// After a restart, the handler receives what has changed, was added and was deleted, in the order of keys, and nothing
// else, with every layout, kind of list and format, with a warm start and without.
// Guarantees: H15
func TestContinuesWhereItStopped(t *testing.T) {
	for _, warm := range []bool{false, true} {
		for _, objects := range []bool{false, true} {
			t.Run(fmt.Sprintf("warm=%v,objects=%v", warm, objects), func(t *testing.T) {
				world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
					sub := durably(t)
					sub.Durable.Objects = objects
					if warm {
						config.WarmStart.Storage = sub.Durable.Storage
					}
					last := " (metadata)"
					if objects {
						last = ""
					}
					w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"), world.NewPod("ns", "c", "v=1"), world.NewPod("ns", "d", "v=1"))
					first := live(w, client, config, sub)
					first.rec.want(w.T, "add ns/a 1 initial=true", "add ns/b 1 initial=true", "add ns/c 1 initial=true", "add ns/d 1 initial=true")
					w.Relabel("ns", "b", "2")
					first.rec.want(w.T, "update ns/b 2 from 1")
					first.stop()
					if s := first.durable(); s.Acknowledged != 4 || s.SaveError != nil || s.Continues {
						t.Errorf("first: %+v", s)
					}

					w.Delete("ns", "a")
					w.Relabel("ns", "b", "3")
					w.Delete("ns", "c")
					w.Create(world.NewPod("ns", "c", "v=9"), world.NewPod("ns", "bb", "v=1"))
					second := live(w, client, config, sub)
					second.rec.want(w.T,
						"delete ns/a 1"+last+" final=false",
						"update ns/b 3 from 2"+last,
						"add ns/bb 1 initial=false",
						"delete ns/c 1"+last+" final=false",
						"add ns/c 9 initial=false")
					if !second.Subscription.HasSynced() {
						t.Error("the subscription is not synced")
					}
					if s := second.durable(); s.Acknowledged != 4 || s.LoadedKeys != 4 || !s.Continues || s.Differences != 3 {
						t.Errorf("second: %+v", s)
					}
					w.Relabel("ns", "d", "2")
					w.Delete("ns", "bb")
					second.rec.want(w.T, "update ns/d 2 from 1", "delete ns/bb 1 final=true")
					second.stop()

					third := live(w, client, config, sub)
					third.rec.want(w.T)
					third.stop()
				})
			})
		}
	}
}

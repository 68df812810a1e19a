package durable

import (
	"errors"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

type podSubscription = informer.SubscriptionConfig[*corev1.Pod]

// begin runs an informer of a pod A with v=1 until the handler has it and the state is saved, and then ends it.
func begin(w world.World, config informer.Config[*corev1.Pod], m *memory) {
	w.Helper()
	w.Create(world.NewPod("ns", "a", "v=1"))
	first := live(w, w.Client(), config, podSubscription{Durable: in(m)})
	first.rec.want(w.T, "add ns/a 1 initial=true")
	first.stop()
}

// again runs an informer after begin. It must be stopped.
func again(w world.World, config informer.Config[*corev1.Pod], m *memory) life {
	return live(w, w.Client(), config, podSubscription{Durable: in(m)})
}

// The process ends in the call of an addition, before it has returned. The object is gone at the next start. The handler
// receives the deletion, although the addition was not acknowledged.
// Guarantees: H16
func TestDeletionAfterAnUnacknowledgedAdditionIsDelivered(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		begin(w, world.Quiet[*corev1.Pod](), m)
		second := again(w, world.Quiet[*corev1.Pod](), m)
		next := make(chan *memory, 1)
		second.rec.fails = func(string) bool { next <- m.kill(); return false }
		w.Create(world.NewPod("ns", "b", "v=1"))
		second.rec.want(w.T, "add ns/b 1 initial=false")
		second.stop()
		w.Delete("ns", "b")
		third := again(w, world.Quiet[*corev1.Pod](), <-next)
		third.rec.want(w.T, "delete ns/b 1 (metadata) final=false")
		third.stop()
	})
}

// While the storage fails, an addition waits, and updates and deletions do not. The log has one line. When the storage
// works again, the addition is delivered.
// Guarantees: H16, H17
func TestAdditionsWaitForTheStorage(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		begin(w, world.Quiet[*corev1.Pod](), m)
		second := again(w, world.Quiet[*corev1.Pod](), m)
		m.fail(errors.New("the disk is full"))
		w.Relabel("ns", "a", "2")
		second.rec.want(w.T, "update ns/a 2 from 1")
		w.Create(world.NewPod("ns", "b", "v=1"))
		time.Sleep(time.Minute)
		second.rec.want(w.T)
		if s := second.durable(); s.SaveError == nil || s.Acknowledged != 1 || second.Err() != nil {
			w.Errorf("%+v, %v", s, second.Err())
		}
		if n := strings.Count(second.log.String(), "cannot be saved"); n != 1 || strings.Contains(second.log.String(), "slow") {
			w.Errorf("%d lines: %s", n, second.log)
		}
		if s := second.Subscription.Status(); s.Busy != 0 || s.Backlog != 1 || s.Oldest != time.Minute {
			w.Errorf("the wait counts as a call, or the change is not shown: %+v", s)
		}
		m.fail(nil)
		time.Sleep(time.Second)
		second.rec.want(w.T, "add ns/b 1 initial=false")
		if s := second.Subscription.Status(); s.Calls.Max > time.Second {
			w.Errorf("the wait counts as a call: %+v", s)
		}
		if s := second.durable(); s.SaveError != nil || !strings.Contains(second.log.String(), "succeeds again") {
			w.Errorf("%+v: %s", s, second.log)
		}
		second.stop()
	})
}

// A storage that fails slowly does not hold up the end of the informer, although an addition waits for it.
// Guarantees: H16
func TestSlowFailuresDoNotHoldUpTheEnd(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		m.fail(errors.New("the disk is full"))
		m.takes = 2 * time.Second // longer than DurableConfig.Interval
		w.Create(world.NewPod("ns", "a", "v=1"))
		first := again(w, world.Quiet[*corev1.Pod](), m)
		time.Sleep(time.Minute)
		first.rec.want(w.T)
		tried, began := m.saved(), time.Now()
		first.stop()
		if took := time.Since(began); tried < 10 || took > 6*time.Second {
			w.Errorf("after %d saves, the end took %v", tried, took)
		}
	})
}

// The time that an addition waits for the storage is a part of its delay, not of its call.
// Guarantees: H16, O1
func TestWaitForTheStorageIsADelay(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		begin(w, world.Quiet[*corev1.Pod](), m)
		second := again(w, world.Quiet[*corev1.Pod](), m)
		second.rec.fails = func(string) bool { time.Sleep(3 * time.Second); return false }
		m.fail(errors.New("the disk is full"))
		w.Create(world.NewPod("ns", "b", "v=1"))
		time.Sleep(10 * time.Minute)
		if s := second.Subscription.Status(); s.Delays.Count != 0 || s.Calls.Count != 0 {
			w.Errorf("before the call: %+v", s)
		}
		m.fail(nil)
		time.Sleep(time.Minute)
		second.rec.want(w.T, "add ns/b 1 initial=false")
		s := second.Subscription.Status()
		if s.Delays.Count != 1 || s.Delays.Max < 10*time.Minute || s.Delays.Max > 10*time.Minute+time.Second {
			w.Errorf("delays: %+v", s.Delays)
		}
		if s.Calls.Count != 1 || s.Calls.Max != 3*time.Second || strings.Contains(second.log.String(), "slow") {
			w.Errorf("calls: %+v, log: %s", s.Calls, second.log)
		}
		second.stop()
	})
}

// A call that panics acknowledges nothing: the change comes again after a restart.
// Guarantees: H16
func TestPanicAcknowledgesNothing(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		begin(w, world.Quiet[*corev1.Pod](), m)
		second := live(w, w.Client(), world.Quiet[*corev1.Pod](), podSubscription{Durable: in(m), OnPanic: func(any) {}})
		second.rec.fails = func(string) bool { return true }
		w.Relabel("ns", "a", "2")
		w.Create(world.NewPod("ns", "b", "v=1"))
		second.rec.want(w.T, "update ns/a 2 from 1", "add ns/b 1 initial=false")
		second.stop()
		third := again(w, world.Quiet[*corev1.Pod](), m)
		third.rec.want(w.T, "update ns/a 2 from 1 (metadata)", "add ns/b 1 initial=false")
		third.stop()
	})
}

// An end before the first save, or during the first start, does not make the rest of the first list less initial.
// Guarantees: H15, H16
func TestFirstStartThatDoesNotEnd(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
		first := informer.New(w.Client(), pods, world.Quiet[*corev1.Pod]())
		rec := &recorder[*corev1.Pod]{}
		block := make(chan struct{})
		rec.fails = func(line string) bool {
			if strings.Contains(line, "ns/b") {
				<-block
			}
			return false
		}
		first.Subscribe(rec, podSubscription{Durable: in(m)})
		stop := world.Start(w.T, first)
		time.Sleep(10 * time.Second)
		rec.want(w.T, "add ns/a 1 initial=true", "add ns/b 1 initial=true")
		m = m.kill()
		close(block)
		stop()
		second := again(w, world.Quiet[*corev1.Pod](), m)
		second.rec.want(w.T, "add ns/b 1 initial=true")
		second.stop()
		third := again(w, world.Quiet[*corev1.Pod](), m)
		third.rec.want(w.T)
		third.stop()
	})
}

// A damaged or incomplete state, or one of another cluster, ends the subscription with an error that names the files. Without the files, it begins anew. The informer goes on.
// Guarantees: H17
func TestUnusableStateIsAnError(t *testing.T) {
	base, changes := names()
	for _, c := range []struct {
		name, says string
		spoil      func(m *memory)
		cluster    types.UID
	}{
		{"damaged", "wrong checksum", func(m *memory) { m.files[base][len(m.files[base])/2] ^= 1 }, ""},
		{"cut", "ends early", func(m *memory) { m.files[changes] = m.files[changes][:9] }, ""},
		{"no changes", "does not belong", func(m *memory) { delete(m.files, changes) }, ""},
		{"no base", "does not belong", func(m *memory) { delete(m.files, base) }, ""},
		{"of another name", `of the subscription "test"`, func(m *memory) {
			for name, raw := range m.files {
				m.files[strings.Replace(name, "test", "other", 1)] = raw
			}
		}, ""},
		{"another cluster", "of another cluster", func(*memory) {}, "other"},
		{"unknown cluster", "may be of another cluster", func(*memory) {}, "unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				uid := types.UID("one")
				w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
					if !strings.HasSuffix(r.URL.Path, "/namespaces/kube-system") || uid == "unknown" {
						return false
					}
					rw.Header().Set("Content-Type", "application/json")
					_, _ = rw.Write([]byte(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"kube-system","uid":"` + uid + `"}}`))
					return true
				})
				m := newMemory()
				begin(w, world.Quiet[*corev1.Pod](), m)
				w.Relabel("ns", "a", "2")
				second := again(w, world.Quiet[*corev1.Pod](), m) // writes changes
				second.rec.want(w.T, "update ns/a 2 from 1 (metadata)")
				time.Sleep(time.Minute)
				second.stop()
				c.spoil(m)
				d := in(m)
				client := w.Client()
				if c.cluster != "" {
					uid = c.cluster
					client = w.Client(func(config *rest.Config) {
						config.Host = strings.Replace(config.Host, "127.0.0.1", "localhost", 1) + "/"
					})
				}
				if strings.Contains(c.name, "name") {
					d.Name = "other"
				}
				third := live(w, client, world.Quiet[*corev1.Pod](), podSubscription{Durable: d})
				third.rec.want(w.T)
				if err := third.Err(); !errors.Is(err, informer.ErrDurableState) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), `delete "pods-`) {
					w.Errorf("%v", err)
				}
				if err := third.Subscription.WaitSynced(w.Context()); err == nil || !third.Informer.HasSynced() {
					w.Errorf("%v", err)
				}
				third.stop()
				clear(m.files)
				fourth := live(w, client, world.Quiet[*corev1.Pod](), podSubscription{Durable: d})
				fourth.rec.want(w.T, "add ns/a 2 initial=true")
				fourth.stop()
			})
		})
	}
}

// A server that was restored has older versions: they are updates, and what the backup lacks is deleted. Until the
// comparison, the subscription waits for a server that is only behind.
// Guarantees: H15
func TestRestoredServer(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		begin(w, world.Quiet[*corev1.Pod](), m)
		backup := w.Server.Snapshot()
		w.Create(world.NewPod("ns", "b", "v=1"))
		w.Relabel("ns", "a", "2")
		second := again(w, world.Quiet[*corev1.Pod](), m)
		second.rec.want(w.T, "update ns/a 2 from 1 (metadata)", "add ns/b 1 initial=false")
		second.stop()
		w.Server.Restore(backup)
		third := again(w, world.Quiet[*corev1.Pod](), m)
		third.rec.want(w.T)
		time.Sleep(31 * time.Second)
		third.rec.want(w.T, "update ns/a 1 from 2 (metadata)", "delete ns/b 1 (metadata) final=false")
		third.stop()
	})
}

// The watch cannot resume after the restart: 410. With a filter, an object that has started or stopped to pass is an
// addition or a deletion, also if only the filter has changed.
// Guarantees: H15
func TestFilterOfADurableSubscription(t *testing.T) {
	for _, layout := range world.Layouts {
		world.Bubble(t, func(w world.World) {
			config := world.Quiet[*corev1.Pod]()
			config.Layout = layout
			passes := func(label string) func(*corev1.Pod) bool {
				return func(pod *corev1.Pod) bool { return pod.Labels[label] != "" }
			}
			m := newMemory()
			w.Create(world.NewPod("ns", "a", "v=1", "x=1"), world.NewPod("ns", "b", "v=1"), world.NewPod("ns", "c", "v=1", "x=1", "y=1"))
			w.Create(world.NewPod("ns", "d", "v=1", "x=1"), world.NewPod("ns", "e", "v=1"), world.NewPod("ns", "f", "v=1", "y=1"))
			first := live(w, w.Client(), config, podSubscription{Filter: passes("x"), Durable: in(m)})
			first.rec.want(w.T, "add ns/a 1 initial=true", "add ns/c 1 initial=true", "add ns/d 1 initial=true")
			first.stop()
			w.Label("ns", "a", "x", "")
			w.Label("ns", "b", "x", "1")
			w.Delete("ns", "d")
			w.Server.Compact()
			second := live(w, w.Client(), config, podSubscription{Filter: passes("x"), Durable: in(m)})
			second.rec.want(w.T, "delete ns/a 1 (metadata) final=false", "add ns/b 1 initial=false", "delete ns/d 1 (metadata) final=false")
			second.stop()
			third := live(w, w.Client(), config, podSubscription{Filter: passes("y"), Durable: in(m)})
			third.rec.want(w.T, "delete ns/b 1 final=false", "add ns/f 1 initial=false")
			w.Label("ns", "b", "y", "1")
			time.Sleep(time.Second) // the addition waits for the next save
			third.rec.want(w.T, "add ns/b 1 initial=false")
			third.stop()
			fourth := live(w, w.Client(), config, podSubscription{Filter: passes("y"), Durable: in(m)})
			fourth.rec.want(w.T)
			fourth.stop()
		})
	}
}

// An object that exists and cannot be decoded is not deleted. When it can be decoded, it is an update from what the
// handler has; when it is gone, it is deleted.
// Guarantees: H17, R17
func TestUndecodedObjectIsNotDeleted(t *testing.T) {
	for _, gone := range []bool{false, true} {
		world.Bubble(t, func(w world.World) {
			m := newMemory()
			config := world.Quiet[*corev1.Pod]()
			config.Transform = func(pod *corev1.Pod) (*corev1.Pod, error) {
				if pod.Labels["bad"] != "" {
					return nil, errors.New("bad")
				}
				return pod, nil
			}
			begin(w, config, m)
			w.Label("ns", "a", "bad", "1")
			second := again(w, config, m)
			time.Sleep(time.Minute)
			second.rec.want(w.T)
			if s := second.durable(); s.Unknown != 1 || s.Acknowledged != 1 || !second.Subscription.HasSynced() {
				w.Errorf("%+v", s)
			}
			if gone {
				w.Delete("ns", "a")
				time.Sleep(2 * time.Second)
				second.rec.want(w.T, "delete ns/a 1 (metadata) final=false")
			} else {
				w.Label("ns", "a", "bad", "")
				second.rec.want(w.T, "update ns/a 1 from 1 (metadata)")
				w.Relabel("ns", "a", "2")
				second.rec.want(w.T, "update ns/a 2 from 1")
			}
			second.stop()
		})
	}
}

// Objects of a selection that the server refuses are not deleted, until it lists the selection.
// Guarantees: H17
func TestRefusedSelectionIsNotDeleted(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		resource := pods
		resource.Selections = []informer.Selection{{LabelSelector: "v=1"}, {LabelSelector: "v=2", Optional: true}}
		run := func() (rec *recorder[*corev1.Pod], stop func()) {
			inf := informer.New(w.Client(), resource, world.Quiet[*corev1.Pod]())
			rec = &recorder[*corev1.Pod]{}
			inf.Subscribe(rec, podSubscription{Durable: in(m)})
			stop = world.Start(w.T, inf)
			synctest.Wait()
			return rec, stop
		}
		w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=2"), world.NewPod("ns", "c", "v=2"))
		rec, stop := run()
		rec.want(w.T, "add ns/a 1 initial=true", "add ns/b 2 initial=true", "add ns/c 2 initial=true")
		stop()
		w.Delete("ns", "c")
		remove := w.Server.Inject(informertest.Fault{Match: func(r informertest.Request) bool { return r.Query.Get("labelSelector") == "v=2" }, Error: world.Forbidden})
		rec, stop = run()
		time.Sleep(time.Minute)
		rec.want(w.T)
		remove()
		time.Sleep(5 * time.Minute)
		rec.want(w.T, "delete ns/c 2 (metadata) final=false")
		stop()
	})
}

// A resource that is absent at the start may only seem so: its objects are deleted when it has been absent for a minute.
// Guarantees: H17, R14
func TestAbsentResourceIsNotDeletedAtOnce(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		config := world.Quiet[*corev1.Pod]()
		config.AbsentIsSynced = true
		begin(w, config, m)
		w.Pods.Unregister()
		second := again(w, config, m)
		time.Sleep(50 * time.Second)
		second.rec.want(w.T)
		if !second.Informer.HasSynced() {
			w.Error("the informer is not synced")
		}
		time.Sleep(20 * time.Second)
		second.rec.want(w.T, "delete ns/a 1 (metadata) final=false")
		second.stop()
	})
}

// Objects without resource versions are compared by content.
// Guarantees: H15, R24
func TestObjectsWithoutVersions(t *testing.T) {
	for _, layout := range world.Layouts {
		world.Bubble(t, func(w world.World) {
			server := &world.ListServer{Watch: http.StatusMethodNotAllowed}
			w.Answer(server.Answer)
			a, b := world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1")
			a.UID, b.UID = "a", "b"
			server.Set("", a, b)
			m := newMemory()
			config := world.Quiet[*corev1.Pod]()
			config.Layout = layout
			first := again(w, config, m)
			first.rec.want(w.T, "add ns/a 1 initial=true", "add ns/b 1 initial=true")
			first.stop()
			b = b.DeepCopy()
			b.Spec.NodeName = "other"
			server.Set("", a, b)
			second := again(w, config, m)
			second.rec.want(w.T, "update ns/b 1 from 1 (metadata)")
			second.stop()
			third := again(w, config, m)
			third.rec.want(w.T)
			third.stop()
		})
	}
}

// follow runs an informer of objects T with the state of m, and returns the calls of the handler.
func follow[T informer.Object](w world.World, m *memory, objects bool, config informer.Config[T]) []string {
	w.Helper()
	rec := &recorder[T]{}
	d := in(m)
	d.Objects = objects
	inf := informer.New(w.Client(), pods, config)
	inf.Subscribe(rec, informer.SubscriptionConfig[T]{Durable: d})
	stop := world.Start(w.T, inf)
	synctest.Wait()
	stop()
	return rec.take()
}

// The state continues with another type of objects: a deletion has what the type can decode of it.
// Guarantees: H15
func TestStateOfAnotherType(t *testing.T) {
	meta := func(w world.World, m *memory, objects bool) []string {
		return follow(w, m, objects, world.Quiet[*metav1.PartialObjectMetadata]())
	}
	untyped := func(w world.World, m *memory, objects bool) []string {
		return follow(w, m, objects, world.Quiet[*unstructured.Unstructured]())
	}
	typed := func(w world.World, m *memory, objects bool) []string {
		return follow(w, m, objects, world.Quiet[*corev1.Pod]())
	}
	slim := func(w world.World, m *memory, objects bool) []string {
		return follow(w, m, objects, world.Quiet[*world.SlimPod]())
	}
	compact := func(w world.World, m *memory, objects bool) []string {
		config := world.Quiet[*unstructured.Unstructured]()
		config.Layout = informer.LayoutCompact
		return follow(w, m, objects, config)
	}
	all := []func(world.World, *memory, bool) []string{typed, untyped, meta, slim, compact}
	for i, before := range all {
		for j, after := range all {
			for _, objects := range []bool{false, true} {
				world.Bubble(t, func(w world.World) {
					m := newMemory()
					w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"), world.NewPod("ns", "c", "v=1"))
					before(w, m, objects)
					w.Delete("ns", "a")
					w.Relabel("ns", "b", "2")
					got := after(w, m, objects)
					for k := range got {
						got[k] = strings.ReplaceAll(got[k], " (metadata)", "")
					}
					if want := "delete ns/a 1 final=false\nupdate ns/b 2 from 1"; strings.Join(got, "\n") != want {
						w.Errorf("type %d, then %d, objects=%v: %q", i, j, objects, got)
					}
				})
			}
		}
	}
}

// A closed subscription has saved what its handler has acknowledged when Done is closed. Another one with the same name
// continues it. The one of another name begins on its own.
// Guarantees: H15, H11
func TestClosedSubscriptionContinues(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		w.Create(world.NewPod("ns", "a", "v=1"))
		first := live(w, w.Client(), world.Quiet[*corev1.Pod](), podSubscription{Durable: in(m), Delivery: informer.DeliverEvery(0), NewOnly: true})
		defer first.stop()
		first.rec.want(w.T, "add ns/a 1 initial=true")
		first.Close()
		<-first.Done()
		w.Relabel("ns", "a", "2")
		w.Create(world.NewPod("ns", "b", "v=1"))
		synctest.Wait()
		rec := &recorder[*corev1.Pod]{}
		sub := first.Subscribe(rec, podSubscription{Durable: in(m)})
		rec.want(w.T, "update ns/a 2 from 1 (metadata)", "add ns/b 1 initial=false")
		other := &recorder[*corev1.Pod]{}
		d := in(m)
		d.Name = "other"
		first.Subscribe(other, podSubscription{Durable: d, Resync: time.Hour})
		other.want(w.T, "add ns/a 2 initial=true", "add ns/b 1 initial=true")
		saves := m.saved()
		time.Sleep(66 * time.Minute)
		other.want(w.T, "update ns/a 2 from 2", "update ns/b 1 from 1")
		if n := m.saved(); n > saves+3 { // what the two subscriptions have acknowledged last, and that the first start has ended
			w.Errorf("a resync has caused %d saves", n-saves)
		}
		sub.Close()
		if err := sub.Err(); !errors.Is(err, informer.ErrClosed) {
			w.Error(err)
		}
	})
}

// A configuration that is wrong ends the subscription with an error that names the field.
func TestInvalidDurableConfig(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		for says, d := range map[string]informer.DurableConfig{
			"Durable.Name":     {Storage: newMemory()},
			`"a/b"`:            {Name: "a/b", Storage: newMemory()},
			"Durable.Storage":  {Name: "a"},
			"Durable.Interval": {Name: "a", Storage: newMemory(), Interval: -1},
		} {
			sub := w.QuietInformer().Subscribe(&testkit.Recorder[*corev1.Pod]{}, podSubscription{Durable: d})
			if err := sub.Err(); err == nil || !strings.Contains(err.Error(), says) {
				w.Errorf("%s: %v", says, err)
			}
		}
		secrets := informer.New(w.Client(), informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets")},
			world.Quiet[*metav1.PartialObjectMetadata]())
		sub := secrets.Subscribe(informer.HandlerFuncs[*metav1.PartialObjectMetadata]{},
			informer.SubscriptionConfig[*metav1.PartialObjectMetadata]{Durable: in(newMemory())})
		if err := sub.Err(); err == nil || !strings.Contains(err.Error(), "Durable.Secrets") {
			w.Error(err)
		}
	})
}

// A subscription that has ended before it began retains no object of the store.
func TestSubscriptionThatNeverBeganRetainsNothing(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a", "v=1"))
		sub, held := neverBegun(w)
		<-sub.Done()
		synctest.Wait()
		for tries := 0; held.Value() != nil && tries < 100; tries++ {
			runtime.GC() // pools and goroutines that are about to end may keep it for some cycles
		}
		if held.Value() != nil {
			w.Error("the subscription retains an object")
		}
		if err := sub.Err(); !errors.Is(err, informer.ErrStopped) {
			w.Error(err)
		}
	})
}

// neverBegun returns a durable subscription to an informer that has stopped, and an object of it.
func neverBegun(w world.World) (*informer.Subscription, weak.Pointer[corev1.Pod]) {
	inf := w.QuietInformer()
	stop := world.Run(w, inf)
	if err := inf.WaitSynced(w.Context()); err != nil {
		w.Fatal(err)
	}
	stop()
	pod, _ := inf.Store().Get(informer.Key{Namespace: "ns", Name: "a"})
	return inf.Subscribe(&recorder[*corev1.Pod]{}, podSubscription{Durable: in(newMemory())}), weak.Make(pod)
}

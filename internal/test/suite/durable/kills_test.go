package durable

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/world"
)

// killAt makes the handler's call that line begins end with the process, which has received it: what it saves from then
// on does not count. It returns where the storage of the next process is sent.
func (l life) killAt(m *memory, line string) <-chan *memory {
	next := make(chan *memory, 1)
	l.rec.fails = func(got string) bool {
		if strings.HasPrefix(got, line) && len(next) == 0 {
			next <- m.kill()
		}
		return false
	}
	return next
}

// A process that is killed while additions wait has noted only those that pass the filter. So the next one deletes
// nothing that the handler cannot have.
// Guarantees: H15, H17
func TestKilledProcessNotesWhatPasses(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		w.Create(world.NewPod("ns", "a", "v=1", "x=1"), world.NewPod("ns", "d", "v=1", "x=1"))
		for i := range 200 {
			w.Create(world.NewPod("ns", fmt.Sprint("b", i), "v=1"))
		}
		filtered := podSubscription{Filter: func(pod *corev1.Pod) bool { return pod.Labels["x"] == "1" }, Durable: in(m)}
		var next <-chan *memory
		first := live(w, w.Client(), world.Quiet[*corev1.Pod](), filtered, func(l life) { next = l.killAt(m, "add ns/a") })
		first.rec.want(w.T, "add ns/a 1 initial=true", "add ns/d 1 initial=true")
		first.stop()
		filtered.Durable = in(<-next)
		second := live(w, w.Client(), world.Quiet[*corev1.Pod](), filtered)
		second.rec.want(w.T, "add ns/a 1 initial=true", "add ns/d 1 initial=true")
		second.stop()
	})
}

// A process that is killed in the first addition of its first start has noted that addition: the next one delivers the
// deletion.
// Guarantees: H16
func TestKilledProcessNotesItsFirstAddition(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		w.Create(world.NewPod("ns", "a", "v=1"))
		var next <-chan *memory
		first := live(w, w.Client(), world.Quiet[*corev1.Pod](), podSubscription{Durable: in(m)}, func(l life) { next = l.killAt(m, "add ns/a") })
		first.rec.want(w.T, "add ns/a 1 initial=true")
		first.stop()
		w.Delete("ns", "a")
		second := again(w, world.Quiet[*corev1.Pod](), <-next)
		second.rec.want(w.T, "delete ns/a 1 (metadata) final=false")
		second.stop()
	})
}

// The deletion of an object whose addition a killed process had begun is delivered, also if the addition still waits for
// the handler then.
// Guarantees: H16
func TestDeletionBehindARepeatedAddition(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		begin(w, world.Quiet[*corev1.Pod](), m)
		second := again(w, world.Quiet[*corev1.Pod](), m)
		next := second.killAt(m, "add ns/b")
		w.Create(world.NewPod("ns", "b", "v=1"))
		second.rec.want(w.T, "add ns/b 1 initial=false")
		second.stop()
		w.Relabel("ns", "a", "2")
		deleted := false
		third := live(w, w.Client(), world.Quiet[*corev1.Pod](), podSubscription{Durable: in(<-next)}, func(l life) {
			l.rec.fails = func(line string) bool {
				if !deleted && strings.HasPrefix(line, "update ns/a") { // b waits behind it
					deleted = true
					w.Delete("ns", "b")
					time.Sleep(time.Second)
				}
				return false
			}
		})
		time.Sleep(time.Minute)
		lines := third.rec.take()
		if len(lines) < 2 || !strings.HasPrefix(lines[len(lines)-1], "delete ns/b") {
			w.Errorf("got %q", lines)
		}
		third.stop()
	})
}

// If a name was used again and the process is killed while the new object waits for the handler, the next one deletes
// the old object only.
// Guarantees: H15, H17
func TestKilledProcessAndAReusedName(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		begin(w, world.Quiet[*corev1.Pod](), m)
		second := again(w, world.Quiet[*corev1.Pod](), m)
		next := second.killAt(m, "add ns/0")
		w.Create(world.NewPod("ns", "0", "v=1"))
		w.Delete("ns", "a")
		w.Create(world.NewPod("ns", "a", "v=2"))
		time.Sleep(time.Minute)
		second.stop()
		third := again(w, world.Quiet[*corev1.Pod](), <-next)
		time.Sleep(time.Minute)
		lines := third.rec.take()
		for i, line := range lines {
			if strings.HasPrefix(line, "delete ns/a") && (!strings.HasPrefix(line, "delete ns/a 1 ") || i+1 < len(lines) && !strings.HasPrefix(lines[i+1], "add ns/a 2")) {
				w.Errorf("got %q", lines)
			}
		}
		if len(lines) == 0 || !strings.HasPrefix(lines[len(lines)-1], "add ns/a 2") {
			w.Errorf("got %q", lines)
		}
		third.stop()
	})
}

// A panic in the deletion of an object does not keep its successor from the handler. The next process repeats the
// deletion.
// Guarantees: H17
func TestPanicLosesNoSuccessor(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		begin(w, world.Quiet[*corev1.Pod](), m)
		second := live(w, w.Client(), world.Quiet[*corev1.Pod](), podSubscription{Durable: in(m), OnPanic: func(any) {}})
		second.rec.fails = func(line string) bool { return strings.HasPrefix(line, "delete ns/a") }
		w.Delete("ns", "a")
		w.Create(world.NewPod("ns", "a", "v=2"))
		time.Sleep(time.Minute)
		w.Relabel("ns", "a", "3")
		time.Sleep(time.Minute)
		second.rec.want(w.T, "delete ns/a 1 final=true", "add ns/a 2 initial=false", "update ns/a 3 from 2")
		second.stop()
		third := again(w, world.Quiet[*corev1.Pod](), m)
		lines := third.rec.take()
		if len(lines) == 0 || !strings.HasPrefix(lines[0], "delete ns/a 1") {
			w.Errorf("got %q", lines)
		}
		third.stop()
	})
}

// After a panic in an addition, the deletion of the object is delivered, also by the next process.
// Guarantees: H17
func TestPanicInAnAdditionLosesNoDeletion(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		begin(w, world.Quiet[*corev1.Pod](), m)
		second := live(w, w.Client(), world.Quiet[*corev1.Pod](), podSubscription{Durable: in(m), OnPanic: func(any) {}})
		second.rec.fails = func(line string) bool { return strings.HasPrefix(line, "add ns/b") }
		w.Create(world.NewPod("ns", "b", "v=1"))
		second.rec.want(w.T, "add ns/b 1 initial=false")
		w.Relabel("ns", "a", "2")
		time.Sleep(time.Minute)
		second.rec.want(w.T, "update ns/a 2 from 1")
		second.stop()
		w.Delete("ns", "b")
		third := again(w, world.Quiet[*corev1.Pod](), m)
		third.rec.want(w.T, "delete ns/b 1 (metadata) final=false")
		third.stop()
	})
}

// The handler has two objects of one name, because the deletion of the first one panicked. In the next process, each is
// judged on its own: by the filter, and if the deletion of the other one panics.
// Guarantees: H15, H17
func TestTwoObjectsOfOneName(t *testing.T) {
	passes := func(pod *corev1.Pod) bool { return pod.Labels["v"] != "3" }
	fails := func(prefix string) func(string) bool {
		return func(line string) bool { return strings.HasPrefix(line, prefix) }
	}
	for name, c := range map[string]struct {
		filter func(*corev1.Pod) bool
		change func(w world.World)
		fails  string
		want   []string
	}{
		"passes":                {passes, func(w world.World) { w.Relabel("ns", "a", "4") }, "none", []string{"delete ns/a 1 (metadata) final=false", "update ns/a 4 from 2 (metadata)"}},
		"does not pass":         {passes, func(w world.World) { w.Relabel("ns", "a", "3") }, "none", []string{"delete ns/a 1 (metadata) final=false", "delete ns/a 2 (metadata) final=false"}},
		"unchanged":             {passes, func(world.World) {}, "none", []string{"delete ns/a 1 (metadata) final=false"}},
		"both gone":             {nil, func(w world.World) { w.Delete("ns", "a") }, "none", []string{"delete ns/a 2 (metadata) final=false", "delete ns/a 1 (metadata) final=false"}},
		"one panics":            {nil, func(w world.World) { w.Delete("ns", "a") }, "delete ns/a 2", []string{"delete ns/a 2 (metadata) final=false", "delete ns/a 1 (metadata) final=false"}},
		"before another":        {nil, func(w world.World) { w.Delete("ns", "a"); w.Create(world.NewPod("ns", "a", "v=5")) }, "delete", []string{"delete ns/a 2 (metadata) final=false", "delete ns/a 1 (metadata) final=false", "add ns/a 5 initial=false"}},
		"another does not pass": {passes, func(w world.World) { w.Delete("ns", "a"); w.Create(world.NewPod("ns", "a", "v=3")) }, "none", []string{"delete ns/a 2 (metadata) final=false", "delete ns/a 1 (metadata) final=false"}},
		"unchanged, no filter":  {nil, func(world.World) {}, "none", []string{"delete ns/a 1 (metadata) final=false"}},
	} {
		t.Run(name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				m := newMemory()
				begin(w, world.Quiet[*corev1.Pod](), m)
				sub := podSubscription{Durable: in(m), Filter: c.filter, OnPanic: func(any) {}}
				second := live(w, w.Client(), world.Quiet[*corev1.Pod](), sub)
				second.rec.fails = fails("delete ns/a 1")
				w.Delete("ns", "a")
				w.Create(world.NewPod("ns", "a", "v=2"))
				time.Sleep(time.Minute)
				second.rec.want(w.T, "delete ns/a 1 final=true", "add ns/a 2 initial=false")
				second.stop()
				c.change(w)
				third := live(w, w.Client(), world.Quiet[*corev1.Pod](), sub, func(l life) { l.rec.fails = fails(c.fails) })
				time.Sleep(time.Minute)
				third.rec.want(w.T, c.want...)
				third.stop()
			})
		})
	}
}

// An object that was deleted before the handler received its addition leaves the storage with the last save: the next
// process does not deliver its deletion.
// Guarantees: H15
func TestAdditionThatNobodyReceived(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		begin(w, world.Quiet[*corev1.Pod](), m)
		second := again(w, world.Quiet[*corev1.Pod](), m)
		hold := make(chan struct{})
		second.rec.fails = func(string) bool { <-hold; return false }
		w.Create(world.NewPod("ns", "b", "v=1"), world.NewPod("ns", "c", "v=1"))
		time.Sleep(10 * time.Second) // both are noted
		w.Delete("ns", "c")
		synctest.Wait()
		close(hold)
		second.rec.want(w.T, "add ns/b 1 initial=false")
		second.stop()
		third := again(w, world.Quiet[*corev1.Pod](), m)
		third.rec.want(w.T)
		third.stop()
	})
}

// A handler that ends its goroutine receives no further call, neither for another object of the same name nor behind it.
// The next process delivers all of that.
// Guarantees: H9, H16
func TestGoexitEndsTheCalls(t *testing.T) {
	for _, recovers := range []bool{false, true} {
		world.Bubble(t, func(w world.World) {
			m := newMemory()
			begin(w, world.Quiet[*corev1.Pod](), m)
			sub := podSubscription{Durable: in(m), OnPanic: func(any) {}}
			second := live(w, w.Client(), world.Quiet[*corev1.Pod](), sub)
			second.rec.fails = func(line string) bool { return strings.HasPrefix(line, "delete ns/a 1") }
			w.Delete("ns", "a")
			w.Create(world.NewPod("ns", "a", "v=2"), world.NewPod("ns", "b", "v=1"))
			time.Sleep(time.Minute)
			second.rec.want(w.T, "delete ns/a 1 final=true", "add ns/a 2 initial=false", "add ns/b 1 initial=false")
			second.stop() // the handler has both objects A

			w.Delete("ns", "a")
			w.Relabel("ns", "b", "2")
			if !recovers {
				sub.OnPanic = nil
			}
			third := live(w, w.Client(), world.Quiet[*corev1.Pod](), sub, func(l life) {
				l.rec.fails = func(string) bool { runtime.Goexit(); return false }
			})
			time.Sleep(time.Minute)
			third.rec.want(w.T, "delete ns/a 2 (metadata) final=false")
			if err := third.Err(); err == nil || !strings.Contains(err.Error(), "Goexit") {
				w.Error(err)
			}
			third.stop()
			fourth := again(w, world.Quiet[*corev1.Pod](), m)
			fourth.rec.want(w.T, "delete ns/a 2 (metadata) final=false", "delete ns/a 1 (metadata) final=false", "update ns/b 2 from 1 (metadata)")
			fourth.stop()
		})
	}
}

// After a restart, an object that could not be decoded is found and then deleted, while the handler is busy. It receives
// each change, and the deletion once, although the comparison has found that, too.
// Guarantees: H15
func TestDeletionOfAnUnknownObjectComesOnce(t *testing.T) {
	for _, delivery := range []informer.Delivery{{}, informer.DeliverEvery(0), informer.DeliverEveryBlocking(0)} {
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
			second := live(w, w.Client(), config, podSubscription{Durable: in(m), Delivery: delivery})
			w.Create(world.NewPod("ns", "b", "v=1"))
			time.Sleep(time.Second)
			second.rec.want(w.T, "add ns/b 1 initial=false")
			hold := make(chan struct{})
			second.rec.fails = func(string) bool { <-hold; return false }
			w.Relabel("ns", "b", "2")
			second.rec.want(w.T, "update ns/b 2 from 1")
			w.Label("ns", "a", "bad", "")
			synctest.Wait()
			w.Delete("ns", "a")
			time.Sleep(10 * time.Second) // the comparison finds the deletion
			close(hold)
			if delivery == (informer.Delivery{}) {
				second.rec.want(w.T, "delete ns/a 1 (metadata) final=false") // the other changes are void
			} else {
				second.rec.want(w.T, "update ns/a 1 from 1 (metadata)", "delete ns/a 1 final=true")
			}
			second.stop()
			third := again(w, config, m)
			third.rec.want(w.T)
			third.stop()
		})
	}
}

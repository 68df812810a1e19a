package durable

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/world"
)

// delays delays requests, and responses that the server has written, until a channel is closed. Nil means no delay.
type delays struct {
	request, response func(*http.Request) <-chan struct{}
}

func (d delays) wrap(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return world.RoundTripper(func(r *http.Request) (*http.Response, error) {
			wait := func(until <-chan struct{}) error {
				select {
				case <-until:
					return nil
				case <-r.Context().Done():
					return r.Context().Err()
				}
			}
			if until := d.request(r); until != nil {
				if err := wait(until); err != nil {
					return nil, err
				}
			}
			resp, err := next.RoundTrip(r)
			if until := d.response(r); err == nil && until != nil {
				raw, readErr := io.ReadAll(resp.Body)
				resp.Body.Close()
				resp.Body = io.NopCloser(bytes.NewReader(raw))
				err = errors.Join(readErr, wait(until))
			}
			return resp, err
		})
	})
}

// isList reports whether r lists the objects of a selector.
func isList(r *http.Request, selector string) bool {
	return strings.HasSuffix(r.URL.Path, "/pods") && !world.AsksToWatch(r) && r.URL.Query().Get("labelSelector") == selector
}

// An object moves from one selection to another between their first lists, so that neither list has it. It is not
// deleted.
// Guarantees: H17
func TestObjectBetweenTwoListsIsNotDeleted(t *testing.T) {
	for _, behind := range []time.Duration{10 * time.Second, 45 * time.Second} { // less, and more, than the comparison waits
		world.Bubble(t, func(w world.World) { objectBetweenTwoLists(w, behind) })
	}
}

func objectBetweenTwoLists(w world.World, behind time.Duration) {
	m := newMemory()
	resource := pods
	resource.Selections = []informer.Selection{{LabelSelector: "v=1"}, {LabelSelector: "v=2"}}
	w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=2"))
	_, rec, stop := of(w, resource, m)
	rec.want(w.T, "add ns/a 1 initial=true", "add ns/b 2 initial=true")
	stop()

	first, second, watches := make(chan struct{}), make(chan struct{}), make(chan struct{})
	d := delays{
		request: func(r *http.Request) <-chan struct{} {
			switch {
			case isList(r, "v=1"):
				return first
			case world.AsksToWatch(r):
				return watches
			}
			return nil
		},
		response: func(r *http.Request) <-chan struct{} {
			if isList(r, "v=2") {
				return second
			}
			return nil
		},
	}
	inf := informer.New(w.Client(d.wrap), resource, world.Paged[*corev1.Pod]())
	rec = &recorder[*corev1.Pod]{}
	inf.Subscribe(rec, podSubscription{Durable: in(m)})
	stop = world.Run(w, inf)
	synctest.Wait() // the server has answered the list of v=2
	w.Relabel("ns", "a", "2")
	close(first)
	synctest.Wait()
	close(second)
	time.Sleep(behind)
	rec.want(w.T)
	close(watches)
	rec.want(w.T, "update ns/a 2 from 1 (metadata)")
	w.Delete("ns", "a")
	time.Sleep(time.Minute)
	rec.want(w.T, "delete ns/a 2 final=true")
	stop()
}

// The lists of two selections do not agree, and are older than what the handler has. When the selections agree, the watch
// of one of them is still behind. The comparison waits for it, and does not deliver a deletion.
// Guarantees: H17
func TestOldListsOfTwoSelectionsDeleteNothing(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		resource := pods
		resource.Selections = []informer.Selection{{LabelSelector: "v=1"}, {LabelSelector: "v=2"}}
		w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"), world.NewPod("ns", "c", "v=2"))
		_, rec, stop := of(w, resource, m)
		rec.want(w.T, "add ns/a 1 initial=true", "add ns/b 1 initial=true", "add ns/c 2 initial=true")
		stop()

		list1, list2, watch1, watch2 := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
		d := delays{
			request: func(r *http.Request) <-chan struct{} {
				switch selector := r.URL.Query().Get("labelSelector"); {
				case isList(r, "v=1"):
					return list1
				case world.AsksToWatch(r) && selector == "v=1":
					return watch1
				case world.AsksToWatch(r) && selector == "v=2":
					return watch2
				}
				return nil
			},
			response: func(r *http.Request) <-chan struct{} {
				if isList(r, "v=2") {
					return list2
				}
				return nil
			},
		}
		inf := informer.New(w.Client(d.wrap), resource, world.Paged[*corev1.Pod]())
		stopLate := world.Run(w, inf)
		synctest.Wait() // the server has answered the list of v=2
		w.Relabel("ns", "a", "2")
		close(list1)
		synctest.Wait() // a is in neither list

		_, rec, stop = of(w, resource, m)
		w.Create(world.NewPod("ns", "d", "v=1"))
		time.Sleep(time.Second)
		rec.want(w.T, "update ns/a 2 from 1 (metadata)", "add ns/d 1 initial=false")
		stop()

		late := &recorder[*corev1.Pod]{}
		inf.Subscribe(late, podSubscription{Durable: in(m)})
		close(list2)
		time.Sleep(5 * time.Second)
		close(watch2) // shows a
		time.Sleep(15 * time.Second)
		late.want(w.T)
		close(watch1) // shows d
		time.Sleep(5 * time.Minute)
		late.want(w.T)
		w.Delete("ns", "d")
		time.Sleep(time.Minute)
		late.want(w.T, "delete ns/d 1 final=true")
		stopLate()
	})
}

// The process ends in the call of an addition, and the next one reads a list that is older than the object. It waits for
// the object, and does not deliver a deletion.
// Guarantees: H17
func TestOldListDeletesNoNotedAddition(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		begin(w, world.Paged[*corev1.Pod](), m)
		old, watches := make(chan struct{}), make(chan struct{})
		answered := false // the list of the third process
		d := delays{
			request: func(r *http.Request) <-chan struct{} {
				if world.AsksToWatch(r) {
					return watches
				}
				return nil
			},
			response: func(r *http.Request) <-chan struct{} {
				if isList(r, "") && !answered {
					answered = true
					return old
				}
				return nil
			},
		}
		inf, rec := informer.New(w.Client(d.wrap), pods, world.Paged[*corev1.Pod]()), &recorder[*corev1.Pod]{}
		stop := world.Run(w, inf)
		synctest.Wait() // the server has answered the list

		second, next := again(w, world.Paged[*corev1.Pod](), m), make(chan *memory, 1)
		second.rec.fails = func(string) bool { next <- m.kill(); return false }
		w.Create(world.NewPod("ns", "b", "v=1"))
		second.rec.want(w.T, "add ns/b 1 initial=false")
		second.stop()

		inf.Subscribe(rec, podSubscription{Durable: in(<-next)})
		close(old)
		time.Sleep(10 * time.Second)
		rec.want(w.T)
		close(watches)
		rec.want(w.T, "add ns/b 1 initial=false")
		stop()
	})
}

// An informer that is retired before the subscription has read its state delivers the deletions of what the handler has.
// Guarantees: H15
func TestRetireBeforeTheComparison(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		begin(w, world.Quiet[*corev1.Pod](), m)
		slow := make(chan struct{})
		durable := in(m)
		durable.Storage = held{m, slow}
		inf, rec := informer.New(w.Client(), pods, world.Quiet[*corev1.Pod]()), &recorder[*corev1.Pod]{}
		inf.Subscribe(rec, podSubscription{Durable: durable})
		ended := make(chan error, 1)
		go func() { ended <- inf.Run(w.Context()) }()
		if err := inf.WaitSynced(w.Context()); err != nil {
			w.Fatal(err)
		}
		inf.Retire()
		time.Sleep(time.Second)
		rec.want(w.T)
		close(slow)
		if err := <-ended; !errors.Is(err, informer.ErrStopped) {
			w.Errorf("Run: %v", err)
		}
		rec.want(w.T, "delete ns/a 1 (metadata) final=false")
	})
}

// Retire after the end of the context of Run retires nothing, also while Run has not returned: what may exist is not
// deleted, and the next process continues.
// Guarantees: H17, L6
func TestRetireAfterTheEndOfTheContext(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		hold := make(chan struct{})
		config := world.Quiet[*corev1.Pod]()
		config.Transform = func(pod *corev1.Pod) (*corev1.Pod, error) {
			switch pod.Labels["bad"] {
			case "":
				return pod, nil
			case "slow":
				<-hold
			}
			return nil, errors.New("bad")
		}
		begin(w, config, m)
		w.Label("ns", "a", "bad", "error")
		inf, rec := informer.New(w.Client(), pods, config), &recorder[*corev1.Pod]{}
		sub := inf.Subscribe(rec, podSubscription{Durable: in(m)})
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- inf.Run(ctx) }()
		if err := sub.WaitSynced(ctx); err != nil {
			w.Fatal(err)
		}
		w.Create(world.NewPod("ns", "b", "v=1", "bad=slow")) // Run waits for it
		synctest.Wait()
		cancel()
		synctest.Wait()
		inf.Retire()
		time.Sleep(time.Minute)
		if rec.want(w.T); len(ended) > 0 {
			w.Error("Run has returned")
		}
		close(hold)
		if err := <-ended; !errors.Is(err, context.Canceled) {
			w.Errorf("Run: %v", err)
		}
		rec.want(w.T)
		w.Label("ns", "a", "bad", "")
		w.Delete("ns", "b")
		next := again(w, config, m)
		next.rec.want(w.T, "update ns/a 1 from 1 (metadata)")
		next.stop()
	})
}

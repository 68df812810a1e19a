package informer

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// pipelined returns a reflector whose pipelines are to be tested.
func pipelined[T Object](t *testing.T, config Config[T]) *Reflector[T] {
	client, err := NewClient(&rest.Config{Host: "http://localhost"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReflector(client, Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}, nil, config)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// newTestPipeline returns one that has several workers, on whatever machine.
func newTestPipeline[T Object](r *Reflector[T], hand func(obj T, failed *DecodeError, deleted bool, raw []byte) error) *pipeline[T] {
	p := newPipeline(r, formatJSON, func(error) {}, hand)
	p.maxWorkers, p.live = maxWorkers, true
	return p
}

func encodedPod(name string, padding int) []byte {
	return fmt.Appendf(nil, `{"metadata":{"namespace":"ns","name":%q,"uid":"u","resourceVersion":"1","annotations":{"a":%q}}}`, name, strings.Repeat("x", padding))
}

// Objects come out one at a time, in the order in which they went in, each as what it is: decoded, held, broken or deleted.
func TestF1R20_PipelineKeepsTheOrder(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		r := pipelined(t, Config[*corev1.Pod]{Logger: slog.New(slog.DiscardHandler), Transform: func(pod *corev1.Pod) (*corev1.Pod, error) {
			pod.Spec.NodeName = "seen"
			return pod, nil
		}})
		held := map[Key]*corev1.Pod{}
		for i := range 400 {
			if rnd.IntN(4) == 0 {
				pod := &corev1.Pod{}
				pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion = "ns", fmt.Sprint("pod-", i), "u", "1"
				held[KeyOf(pod)] = pod
			}
		}
		r.held = func(key Key) (*corev1.Pod, bool) { pod, ok := held[key]; return pod, ok }
		var want, got []string
		var busy atomic.Int32
		p := newTestPipeline(r, func(pod *corev1.Pod, failed *DecodeError, deleted bool, raw []byte) error {
			if busy.Add(1) > 1 {
				t.Error("two objects are handed on at once")
			}
			defer busy.Add(-1)
			switch {
			case failed != nil:
				if !bytes.Equal(failed.Raw, raw) {
					t.Errorf("the error is of %s, the object is %s", failed.Raw, raw)
				}
				got = append(got, fmt.Sprint(failed.Key.Name, " broken ", deleted))
			case held[KeyOf(pod)] == pod:
				got = append(got, fmt.Sprint(pod.Name, " held ", deleted))
			default:
				got = append(got, fmt.Sprint(pod.Name, " ", pod.Spec.NodeName, " ", deleted))
			}
			return nil
		})
		for i := range 400 {
			name, deleted := fmt.Sprint("pod-", i), rnd.IntN(5) == 0
			raw := encodedPod(name, rnd.IntN(8_000))
			switch _, isHeld := held[Key{Namespace: "ns", Name: name}]; {
			case isHeld && !deleted:
				want = append(want, name+" held false")
			case rnd.IntN(6) == 0:
				raw = bytes.Replace(raw, []byte(`"annotations":{`), []byte(`"annotations":[`), 1)
				want = append(want, fmt.Sprint(name, " broken ", deleted))
			default:
				want = append(want, fmt.Sprint(name, " seen ", deleted))
			}
			p.add(raw, deleted, nil)
			clear(raw) // it is a buffer that is read into again
			switch rnd.IntN(40) {
			case 0:
				if err := p.wait(); err != nil || !slices.Equal(got, want) {
					t.Fatalf("seed %d: wait: %v, %d of %d", seed, err, len(got), len(want))
				}
			case 1, 2, 3:
				p.flush(true)
			case 4, 5, 6, 7, 8, 9, 10:
				p.flush(false)
			}
		}
		if err := p.wait(); err != nil || !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v\n%q\nwant\n%q", seed, err, got, want)
		}
	}
}

// Behind a failure nothing is handed on, the answer is ended, and nothing is left running.
func TestL1_PipelineEndsWithAFailure(t *testing.T) {
	boom := errors.New("boom")
	for at := range 60 {
		synctest.Test(t, func(t *testing.T) {
			r := pipelined(t, Config[*corev1.Pod]{})
			n := 0
			p := newTestPipeline(r, func(*corev1.Pod, *DecodeError, bool, []byte) error {
				if n++; n > at {
					return boom
				}
				return nil
			})
			var cancelled atomic.Int32
			p.cancel = func(err error) {
				if err != boom || cancelled.Add(1) > 1 {
					t.Errorf("cancelled %d times, because of %v", cancelled.Load(), err)
				}
			}
			body := p.body(bytes.NewReader(bytes.Repeat([]byte(" "), 1000)))
			var err error
			for i := range 100 {
				p.add(encodedPod(fmt.Sprint(i), 10_000), false, nil)
				if _, err = body.Read(make([]byte, 1)); err != nil {
					break
				}
			}
			if failure := p.wait(); failure != boom || n != at+1 || cancelled.Load() != 1 {
				t.Errorf("%v after %d of %d; cancelled %d times", failure, n, at+1, cancelled.Load())
			}
			if err == nil {
				_, err = body.Read(make([]byte, 1))
			}
			if err == nil {
				t.Error("the answer can still be read")
			}
		}) // which waits for all goroutines
	}
}

// When nothing is taken, a limited number of bytes is read: each worker has a batch, and one is open.
func TestF3_PipelineWaitsForWhoTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelined(t, Config[*corev1.Pod]{})
		taken, n := make(chan struct{}), 0
		p := newTestPipeline(r, func(*corev1.Pod, *DecodeError, bool, []byte) error {
			<-taken
			n++
			return nil
		})
		const objects, size = 400, 10_000
		body, written := p.body(strings.NewReader(strings.Repeat(" ", objects))), 0
		body.(*pipelineReader[*corev1.Pod]).rush = minRush // so that workers do the work
		go func() {
			for range objects {
				p.add(encodedPod("a", size), false, nil)
				written += size
				_, _ = body.Read(make([]byte, 1))
			}
			if err := p.wait(); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		if most := (maxWorkers + 1) * (batchBytes + size); written > most || written < batchBytes {
			t.Errorf("%d bytes were taken that nobody wants yet, want %d at most", written, most)
		}
		close(taken)
		synctest.Wait()
		if n != objects {
			t.Errorf("%d of %d were handed on", n, objects)
		}
	})
}

// What a list says of itself may be read while its items are decoded: each item has what was known before it.
func TestPipelineItemsHaveTheirList(t *testing.T) {
	r := pipelined(t, Config[*unstructured.Unstructured]{})
	var kinds []string
	p := newTestPipeline(r, func(obj *unstructured.Unstructured, _ *DecodeError, _ bool, _ []byte) error {
		kinds = append(kinds, obj.GetKind())
		return nil
	})
	info := listInfo{kind: "PodList"}
	for range 100 {
		p.add(encodedPod("a", 20_000), false, &info)
		p.flush(false)
		info.apiVersion += "x" // found by the race detector
	}
	if err := p.wait(); err != nil || !slices.Equal(kinds, slices.Repeat([]string{"Pod"}, 100)) {
		t.Fatal(err, kinds)
	}
}

// Transform is the user's: it may end its goroutine, as a test's Fatal does. That is a failure, not the end.
func TestPipelineSurvivesAnExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelined(t, Config[*corev1.Pod]{Transform: func(pod *corev1.Pod) (*corev1.Pod, error) {
			if pod.Name == "7" {
				runtime.Goexit()
			}
			return pod, nil
		}})
		n := 0
		p := newTestPipeline(r, func(*corev1.Pod, *DecodeError, bool, []byte) error { n++; return nil })
		for i := range 50 {
			p.add(encodedPod(fmt.Sprint(i), 10_000), false, nil)
			p.flush(false)
		}
		if err := p.wait(); err != errGoroutineEnded || n != 7 {
			t.Errorf("%v after %d, want %v after 7", err, n, errGoroutineEnded)
		}
	})
}

// What comes one by one, after a time of silence, is handed on before the reader waits for more, by the reader itself.
func TestPipelineDecodesAtOnceWhatComesAlone(t *testing.T) {
	r := pipelined(t, Config[*corev1.Pod]{})
	n := 0
	p := newTestPipeline(r, func(*corev1.Pod, *DecodeError, bool, []byte) error { n++; return nil })
	body := p.body(readFunc(func(b []byte) (int, error) {
		if p.workers > 0 || p.open != nil {
			t.Errorf("%d workers, and something open: %v", p.workers, p.open != nil)
		}
		return 1, nil
	})).(*pipelineReader[*corev1.Pod])
	for i := range 20 {
		body.waited = true // which a clock would have to tell
		p.add(encodedPod("a", 1000), false, nil)
		if _, err := body.Read(make([]byte, 1)); err != nil || n != i+1 {
			t.Fatalf("%d of %d handed on: %v", n, i+1, err)
		}
	}
}

// When there is no need to wait for the network again and again, work is shared: reading goes on while an object is decoded.
func TestPipelineSharesTheWorkInARush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, reads := 0, 0
		goesOn := make(chan struct{})
		p := newTestPipeline(pipelined(t, Config[*corev1.Pod]{}), func(*corev1.Pod, *DecodeError, bool, []byte) error {
			if n == minRush {
				<-goesOn // for ever, if this is the reader
			}
			n++
			return nil
		})
		body := p.body(readFunc(func([]byte) (int, error) {
			if reads++; reads > minRush {
				close(goesOn)
			} else if n != reads {
				t.Errorf("%d of %d objects were handed on in a short burst", n, reads)
			}
			return 1, nil // at once: time stands still
		}))
		for range minRush + 1 {
			p.add(encodedPod("a", 1000), false, nil)
			if _, err := body.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.wait(); err != nil || n != minRush+1 {
			t.Errorf("%d objects were handed on: %v", n, err)
		}
	})
}

// Of a list, an object is of no use before the others: what is small waits for more, and for the end at the latest, which is
// no work for another goroutine.
func TestPipelineWaitsForMoreOfAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelined(t, Config[*corev1.Pod]{})
		n := 0
		p := newTestPipeline(r, func(*corev1.Pod, *DecodeError, bool, []byte) error { n++; return nil })
		p.live = false
		for range 10 {
			p.add(encodedPod("a", 1000), false, nil)
			p.flush(true)
		}
		if n > 0 || p.workers > 0 {
			t.Errorf("%d objects were handed on, %d workers", n, p.workers)
		}
		if err := p.wait(); err != nil || n != 10 {
			t.Errorf("%d objects of 10 were handed on: %v", n, err)
		}
		for range 20 {
			p.add(encodedPod("a", 1000), false, nil)
		}
		p.flush(true)
		synctest.Wait()
		if n != 30 {
			t.Errorf("%d objects of 30 were handed on", n)
		}
	})
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(b []byte) (int, error) { return f(b) }

package intake

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/source/decode"
)

// newDecoder returns a decoder of a T, without functions of a user.
func newDecoder[T object.Object](t testing.TB) *Decoder[T] {
	pool, err := decode.NewPool(reflect.TypeFor[T](), "", false, nil)
	if err != nil {
		t.Fatal(err)
	}
	metadata, err := decode.NewPool(reflect.TypeFor[*metav1.PartialObjectMetadata](), "", false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Decoder[T]{
		Pool:     pool,
		Packing:  Unpacked[T]{pool.Type()},
		Metadata: metadata,
		Report:   func(object.Key, error) {},
		Calling:  run.NewLimit(1),
	}
}

// newTestIntake returns an intake with several workers, on any machine.
func newTestIntake[T object.Object](d *Decoder[T], hand func(Result[T]) error) *intake[T] {
	in := d.intake(decode.JSON, Asked{}, func(error) {}, hand)
	in.pipeline.Workers, in.live = run.MaxWorkers, true
	return in
}

func encodedPod(name string, padding int) []byte {
	return fmt.Appendf(nil, `{"metadata":{"namespace":"ns","name":%q,"uid":"u","resourceVersion":"1","annotations":{"a":%q}}}`, name, strings.Repeat("x", padding))
}

// The pipeline hands on objects one at a time and in order, each as decoded, held, broken or deleted.
// Guarantees: F1, R20
func TestPipelineKeepsTheOrder(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var reported *object.Key
		var reportedRaw []byte
		d := newDecoder[*corev1.Pod](t)
		d.Transform = func(pod *corev1.Pod) (*corev1.Pod, error) {
			pod.Spec.NodeName = "seen"
			return pod, nil
		}
		logged := 0
		d.Report = func(object.Key, error) { logged++ }
		d.OnDecodeError = func(key object.Key, err error, raw []byte) { reported, reportedRaw = &key, raw }
		held := map[object.Key]*corev1.Pod{}
		for i := range 400 {
			if rnd.IntN(4) == 0 {
				pod := &corev1.Pod{}
				pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion = "ns", fmt.Sprint("pod-", i), "u", "1"
				held[object.KeyOf(pod)] = pod
			}
		}
		d.Held = func(key object.Key) (*corev1.Pod, bool) { pod, ok := held[key]; return pod, ok }
		var want, got []string
		var busy atomic.Int32
		in := newTestIntake(d, func(o Result[*corev1.Pod]) error {
			if busy.Add(1) > 1 {
				t.Error("two objects are handed on at once")
			}
			defer busy.Add(-1)
			switch {
			case o.Err != nil:
				if reported == nil || !bytes.Contains(reportedRaw, fmt.Appendf(nil, `"name":%q`, o.Key.Name)) || *reported != o.Key || logged != 1 {
					t.Errorf("reported %v and %d times more, handed on %.200v", reported, logged, o)
				}
				reported, logged = nil, 0
				got = append(got, fmt.Sprint(o.Key.Name, " broken ", o.Deleted))
			case held[o.Key] == o.Object:
				got = append(got, fmt.Sprint(o.Key.Name, " held ", o.Deleted))
			default:
				got = append(got, fmt.Sprint(o.Object.Name, " ", o.Object.Spec.NodeName, " ", o.Deleted))
			}
			return nil
		})
		for i := range 400 {
			name, deleted := fmt.Sprint("pod-", i), rnd.IntN(5) == 0
			raw := encodedPod(name, rnd.IntN(8_000))
			switch _, isHeld := held[object.Key{Namespace: "ns", Name: name}]; {
			case isHeld && !deleted:
				want = append(want, name+" held false")
			case rnd.IntN(6) == 0:
				raw = bytes.Replace(raw, []byte(`"annotations":{`), []byte(`"annotations":[`), 1)
				want = append(want, fmt.Sprint(name, " broken ", deleted))
			default:
				want = append(want, fmt.Sprint(name, " seen ", deleted))
			}
			in.Add(raw, deleted, nil)
			clear(raw) // the reader reuses its buffer
			switch rnd.IntN(40) {
			case 0:
				if err := in.Wait(); err != nil || !slices.Equal(got, want) {
					t.Fatalf("seed %d: wait: %v, %d of %d", seed, err, len(got), len(want))
				}
			case 1, 2, 3:
				in.flush(true)
			case 4, 5, 6, 7, 8, 9, 10:
				in.flush(false)
			}
		}
		if err := in.Wait(); err != nil || !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v\n%q\nwant\n%q", seed, err, got, want)
		}
	}
}

// After a failure the pipeline hands on nothing, cancels the response and leaves no goroutine running.
// Guarantees: L1
func TestPipelineEndsWithAFailure(t *testing.T) {
	boom := errors.New("boom")
	for failing := range 60 {
		synctest.Test(t, func(t *testing.T) {
			d := newDecoder[*corev1.Pod](t)
			n := 0
			in := newTestIntake(d, func(o Result[*corev1.Pod]) error {
				if n++; n > failing {
					return boom
				}
				return nil
			})
			var cancelled atomic.Int32
			in.pipeline.Cancel = func(err error) {
				if err != boom || cancelled.Add(1) > 1 {
					t.Errorf("cancelled %d times, with cause %v", cancelled.Load(), err)
				}
			}
			body := fillFunc(func() error { return nil })
			var err error
			for i := range 100 {
				in.Add(encodedPod(fmt.Sprint(i), 10_000), false, nil)
				if err = in.Fill(body); err != nil {
					break
				}
			}
			if failure := in.Wait(); failure != boom || n != failing+1 || cancelled.Load() != 1 {
				t.Errorf("%v after %d of %d; cancelled %d times", failure, n, failing+1, cancelled.Load())
			}
			if err == nil {
				err = in.Fill(body)
			}
			if err == nil {
				t.Error("the response can still be read")
			}
		}) // synctest.Test waits for all goroutines
	}
}

// While its consumer blocks, the pipeline reads a limited number of bytes: one batch per worker, and one open batch.
// Guarantees: F3
func TestPipelineWaitsForWhoTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDecoder[*corev1.Pod](t)
		taken, n := make(chan struct{}), 0
		in := newTestIntake(d, func(o Result[*corev1.Pod]) error {
			<-taken
			n++
			return nil
		})
		const objects, size = 400, 10_000
		written := 0
		in.rush = minRush // so that workers decode
		go func() {
			for range objects {
				in.Add(encodedPod("a", size), false, nil)
				written += size
				_ = in.Fill(fillFunc(func() error { return nil }))
			}
			if err := in.Wait(); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		if most := (run.MaxWorkers + 1) * (batchBytes + size); written > most || written < batchBytes {
			t.Errorf("the pipeline buffers %d bytes, want %d at most", written, most)
		}
		close(taken)
		synctest.Wait()
		if n != objects {
			t.Errorf("%d of %d were handed on", n, objects)
		}
	})
}

// A list's own fields may be read while its items are decoded. Each item has the fields that were read before it.
func TestPipelineItemsHaveTheirList(t *testing.T) {
	d := newDecoder[*unstructured.Unstructured](t)
	var kinds []string
	in := newTestIntake(d, func(o Result[*unstructured.Unstructured]) error {
		if version := o.Object.GetAPIVersion(); len(version) > len(kinds) {
			t.Errorf("item %d has the later version %q", len(kinds), version)
		}
		kinds = append(kinds, o.Object.GetKind())
		return nil
	})
	info := decode.ListInfo{Kind: "PodList"}
	for range 100 {
		in.Add(encodedPod("a", 20_000), false, &info)
		in.flush(false)
		info.APIVersion += "x" // the race detector reports a worker that reads it
	}
	if err := in.Wait(); err != nil || !slices.Equal(kinds, slices.Repeat([]string{"Pod"}, 100)) {
		t.Fatal(err, kinds)
	}
}

// Transform may end its goroutine, as a test's Fatal does. The pipeline then fails, but survives.
func TestPipelineSurvivesAnExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDecoder[*corev1.Pod](t)
		d.Transform = func(pod *corev1.Pod) (*corev1.Pod, error) {
			if pod.Name == "7" {
				runtime.Goexit()
			}
			return pod, nil
		}
		n := 0
		in := newTestIntake(d, func(Result[*corev1.Pod]) error { n++; return nil })
		for i := range 50 {
			in.Add(encodedPod(fmt.Sprint(i), 10_000), false, nil)
			in.flush(false)
		}
		if err := in.Wait(); err != run.ErrGoroutineEnded || n != 7 {
			t.Errorf("%v after %d, want %v after 7", err, n, run.ErrGoroutineEnded)
		}
	})
}

// exits is a field whose decoding ends the goroutine.
type exits struct{}

func (*exits) UnmarshalJSON([]byte) error { runtime.Goexit(); return nil }

type exitingPod struct {
	corev1.Pod
	Exit *exits `json:"exit"`
}

// If a user's function ends a worker, the reader continues, wait returns the failure, and no object after the lost one is
// handed on. Enough objects follow for the reader to wait for a worker that never comes.
// Guarantees: R20, L1
func TestPipelineEndsWhenItsWorkersExit(t *testing.T) {
	raw := func(i int) []byte {
		exit := "null"
		if i >= 7 { // every worker gets one
			exit = "{}"
		}
		return bytes.Replace(encodedPod(fmt.Sprint(i), 10_000), []byte(`{"metadata"`), []byte(`{"exit":`+exit+`,"metadata"`), 1)
	}
	is7 := func(name string) bool { return len(name) > 1 || name >= "7" }
	refuses := func(pod *exitingPod) (*exitingPod, error) {
		if is7(pod.Name) {
			return nil, errors.New("refused")
		}
		return pod, nil
	}
	for name, set := range map[string]func(*Decoder[*exitingPod]){
		"UnmarshalJSON": func(*Decoder[*exitingPod]) {},
		"Transform": func(d *Decoder[*exitingPod]) {
			d.Transform = func(pod *exitingPod) (*exitingPod, error) {
				if is7(pod.Name) {
					runtime.Goexit()
				}
				return pod, nil
			}
		},
		"Filter": func(d *Decoder[*exitingPod]) {
			d.Filter = func(meta *metav1.PartialObjectMetadata) bool {
				if is7(meta.Name) {
					runtime.Goexit()
				}
				return true
			}
		},
		"OnDecodeError": func(d *Decoder[*exitingPod]) {
			d.Transform, d.OnDecodeError = refuses, func(object.Key, error, []byte) { runtime.Goexit() }
		},
		"Report": func(d *Decoder[*exitingPod]) { // it logs, and a logger may be the user's
			d.Transform, d.Report = refuses, func(object.Key, error) { runtime.Goexit() }
		},
	} {
		for _, live := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ",live=", live), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := newDecoder[*exitingPod](t)
					set(d)
					n := 0
					in := newTestIntake(d, func(o Result[*exitingPod]) error {
						if o.Err != nil || o.Object.Name != fmt.Sprint(n) {
							t.Errorf("object %d is %v, %v", n, o.Object, o.Err)
						}
						n++
						return nil
					})
					in.live = live
					var cause error
					in.pipeline.Cancel = func(err error) { cause = err }
					for i := range 200 {
						encoded := raw(i)
						if name != "UnmarshalJSON" {
							encoded = encodedPod(fmt.Sprint(i), 10_000)
						}
						in.Add(encoded, false, nil)
						in.flush(false)
					}
					if err := in.Wait(); err != run.ErrGoroutineEnded || cause != run.ErrGoroutineEnded || n > 7 {
						t.Errorf("%v after %d, cause %v, want %v after 7 at most", err, n, cause, run.ErrGoroutineEnded)
					}
					for range cap(d.Calling) { // every turn was given back
						d.Calling.Enter()
					}
				})
			})
		}
	}
}

// All workers end at once while the reader waits for one of them to take a batch.
// Guarantees: R20, L1
func TestPipelineDoesNotWaitForWorkersThatEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		exit := func() { <-gate; runtime.Goexit() }
		decodes.Store(&exit)
		in := newTestIntake(newDecoder[*slowPod](t), func(o Result[*slowPod]) error {
			t.Error("an object was handed on")
			return nil
		})
		ended := make(chan error, 1)
		go func() {
			for i := range 100 {
				in.Add(slowly(encodedPod(fmt.Sprint(i), 10_000)), false, nil)
				in.flush(false)
			}
			ended <- in.Wait()
		}()
		synctest.Wait()
		if workers, open := in.pipeline.State(); len(ended) > 0 || workers != run.MaxWorkers || !open {
			t.Errorf("%d workers, an open batch: %v: the reader does not wait", workers, open)
		}
		close(gate)
		if err := <-ended; err != run.ErrGoroutineEnded {
			t.Errorf("%v, want %v", err, run.ErrGoroutineEnded)
		}
	})
}

// Workers call Filter for one object at a time, while other objects are decoded.
func TestPipelineFiltersInItsWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy, decoding, most atomic.Int32
		together := make(chan struct{})
		alone := func() func() {
			if busy.Add(1) > 1 {
				t.Error("two functions of the configuration run at once")
			}
			return func() { busy.Add(-1) }
		}
		slow := func() { // blocks until a second object is decoded too
			n := decoding.Add(1)
			if n > most.Load() {
				most.Store(n)
			}
			if n == 2 {
				close(together)
			}
			<-together
		}
		asked := map[string]int{}
		d := newDecoder[*slowPod](t)
		d.Filter = func(meta *metav1.PartialObjectMetadata) bool {
			defer alone()()
			asked[meta.Name]++
			return len(meta.Name)%2 == 0
		}
		d.Transform = func(pod *slowPod) (*slowPod, error) { defer alone()(); return pod, nil }
		decodes.Store(&slow)
		var names []string
		in := newTestIntake(d, func(o Result[*slowPod]) error {
			switch {
			case o.Filtered:
				names = append(names, "")
			default:
				names = append(names, o.Object.Name)
			}
			return nil
		})
		var want []string
		for i := range 100 {
			name := fmt.Sprint(i)
			in.Add(slowly(encodedPod(name, 10_000)), false, nil)
			in.flush(false)
			if len(name)%2 != 0 {
				name = ""
			}
			want = append(want, name)
		}
		if err := in.Wait(); err != nil || !slices.Equal(names, want) {
			t.Errorf("%v: %q, want %q", err, names, want)
		}
		for name, n := range asked {
			if n != 1 {
				t.Errorf("%d Filter calls for %s", n, name)
			}
		}
		if len(asked) != 100 || most.Load() < 2 {
			t.Errorf("Filter was called for %d objects; %d were decoded at once", len(asked), most.Load())
		}
	})
}

// slow is a field whose decoding calls decodes.
type slow struct{}

var decodes atomic.Pointer[func()]

func (*slow) UnmarshalJSON([]byte) error { (*decodes.Load())(); return nil }

type slowPod struct {
	corev1.Pod
	Slow *slow `json:"slow"`
}

// slowly returns an encoded slowPod with the metadata of an encoded pod.
func slowly(pod []byte) []byte {
	return bytes.Replace(pod, []byte(`{"metadata"`), []byte(`{"slow":{},"metadata"`), 1)
}

// Decoders that share their limits, as those of an informer of several namespaces do, decode four batches at a time. No
// two calls of functions of the user overlap, whichever decoder makes them. The test fails if one of these functions is
// called without its turn: each takes some time.
// Guarantees: R20
func TestDecodersShareTheirLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decoding, calling := run.NewLimit(run.MaxWorkers), run.NewLimit(1)
		var busy, now, most atomic.Int32
		calls := map[string]int{} // a turn protects it: the race detector reports a call without one
		call := func(function string) {
			if busy.Add(1) > 1 {
				t.Errorf("%s is called beside another function of the user", function)
			}
			calls[function]++
			time.Sleep(time.Second)
			busy.Add(-1)
		}
		wait := func() {
			n := now.Add(1)
			for have := most.Load(); n > have && !most.CompareAndSwap(have, n); have = most.Load() {
			}
			time.Sleep(10 * time.Second) // so that the functions of the user do not set the pace
			now.Add(-1)
		}
		decodes.Store(&wait)
		const decoders, objects = 5, 20
		var handed atomic.Int32
		var done sync.WaitGroup
		for range decoders {
			d := newDecoder[*slowPod](t)
			d.Decoding, d.Calling = decoding, calling
			d.Filter = func(*metav1.PartialObjectMetadata) bool { call("Filter"); return true }
			d.Transform = func(pod *slowPod) (*slowPod, error) {
				if call("Transform"); len(pod.Name) == 1 {
					return nil, errors.New("refused")
				}
				return pod, nil
			}
			d.OnDecodeError = func(object.Key, error, []byte) { call("OnDecodeError") }
			in := newTestIntake(d, func(Result[*slowPod]) error { handed.Add(1); return nil })
			done.Go(func() {
				for i := range objects {
					in.Add(slowly(encodedPod(fmt.Sprint(i), 10_000)), false, nil)
					in.flush(i%2 == 0)
				}
				if err := in.Wait(); err != nil {
					t.Error(err)
				}
			})
			done.Go(func() { d.Call(func() { call("Call") }) })
		}
		done.Wait()
		want := map[string]int{"Filter": decoders * objects, "Transform": decoders * objects, "OnDecodeError": decoders * 10,
			"Call": decoders}
		if !maps.Equal(calls, want) || handed.Load() != decoders*objects || most.Load() != run.MaxWorkers {
			t.Errorf("calls %v, want %v; %d objects handed on; %d decoded at once", calls, want, handed.Load(), most.Load())
		}
	})
}

// A function of the user that panics or ends its goroutine gives its turn back.
func TestCallGivesItsTurnBack(t *testing.T) {
	d := newDecoder[*corev1.Pod](t)
	for _, f := range []func(){func() {}, runtime.Goexit, func() { panic("a function of the user") }} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { _ = recover() }()
			d.Call(f)
		}()
		<-done
		if len(d.Calling) != 0 {
			t.Fatal("the turn is lost")
		}
	}
}

// The reader itself decodes and hands on a single event before it waits for the next one.
func TestPipelineDecodesAtOnceWhatComesAlone(t *testing.T) {
	d := newDecoder[*corev1.Pod](t)
	n := 0
	in := newTestIntake(d, func(Result[*corev1.Pod]) error { n++; return nil })
	body := fillFunc(func() error {
		if workers, open := in.pipeline.State(); workers > 0 || open {
			t.Errorf("%d workers, an open batch: %v", workers, open)
		}
		return nil
	})
	for i := range 20 {
		in.waited = true // normally set by the clock
		in.Add(encodedPod("a", 1000), false, nil)
		if err := in.Fill(body); err != nil || n != i+1 {
			t.Fatalf("%d of %d handed on: %v", n, i+1, err)
		}
	}
}

// When reads return without waiting, workers share the work: reading continues while an object is decoded.
func TestPipelineSharesTheWorkInARush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, reads := 0, 0
		goesOn := make(chan struct{})
		in := newTestIntake(newDecoder[*corev1.Pod](t), func(o Result[*corev1.Pod]) error {
			if n == minRush {
				<-goesOn // a deadlock if this is the reader
			}
			n++
			return nil
		})
		body := fillFunc(func() error {
			if reads++; reads > minRush {
				close(goesOn)
			} else if n != reads {
				t.Errorf("%d of %d objects were handed on in a short burst", n, reads)
			}
			return nil // without waiting: time stands still
		})
		for range minRush + 1 {
			in.Add(encodedPod("a", 1000), false, nil)
			if err := in.Fill(body); err != nil {
				t.Fatal(err)
			}
		}
		if err := in.Wait(); err != nil || n != minRush+1 {
			t.Errorf("%d objects were handed on: %v", n, err)
		}
	})
}

// An object of a list is of no use alone: a small batch waits for more objects, or for the end of the list, which needs no
// other goroutine.
func TestPipelineWaitsForMoreOfAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDecoder[*corev1.Pod](t)
		n := 0
		in := newTestIntake(d, func(Result[*corev1.Pod]) error { n++; return nil })
		in.live = false
		for range 10 {
			in.Add(encodedPod("a", 1000), false, nil)
			in.flush(true)
		}
		if workers, _ := in.pipeline.State(); n > 0 || workers > 0 {
			t.Errorf("%d objects were handed on, %d workers", n, workers)
		}
		if err := in.Wait(); err != nil || n != 10 {
			t.Errorf("%d objects of 10 were handed on: %v", n, err)
		}
		for range 20 {
			in.Add(encodedPod("a", 1000), false, nil)
		}
		in.flush(true)
		synctest.Wait()
		if n != 30 {
			t.Errorf("%d objects of 30 were handed on", n)
		}
	})
}

type fillFunc func() error

func (f fillFunc) Fill() error { return f() }

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

// Transform may end its goroutine, as a test's Fatal does. The list fails, and its unread objects are not deleted.
// Guarantees: R20, L2
func TestTransformThatExits(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // so that Transform runs on another goroutine than Run
	for _, paged := range []bool{true, false} {
		var exited atomic.Bool
		config := informer.Config[*corev1.Pod]{PagedList: paged, Transform: func(p *corev1.Pod) (*corev1.Pod, error) {
			if p.Name == "05" && exited.CompareAndSwap(false, true) {
				runtime.Goexit()
			}
			return p, nil
		}}
		world.Bubble(t, func(w world.World) {
			inf, _ := w.PodInformer(config)
			const pods = 30
			for i := range pods {
				pod := world.NewPod("ns", fmt.Sprintf("%02d", i))
				pod.Annotations = map[string]string{"x": strings.Repeat("x", 20_000)}
				w.Create(pod)
			}
			ctx, cancel := context.WithCancel(w.Context())
			ended := make(chan error, 1)
			go func() { ended <- inf.Run(ctx) }()
			defer func() { cancel(); <-ended }()
			if err := inf.WaitSynced(ctx); err != nil {
				w.Fatal(err)
			}
			if s := inf.Status().Reflectors[0]; inf.Store().Len() != pods || s.LastError == nil || !strings.Contains(s.LastError.Error(), "called runtime.Goexit") {
				w.Errorf("paged %t: %d objects, status %+v", paged, inf.Store().Len(), s)
			}
		})
	}
}

// touchyPod is a pod whose spec has its own decoding method.
type touchyPod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              touchySpec `json:"spec"`
}

type touchySpec struct{ NodeName string }

// touch is the function that UnmarshalJSON calls, if it is set.
var touch atomic.Pointer[func(nodeName string)]

func (s *touchySpec) UnmarshalJSON(raw []byte) error {
	var plain corev1.PodSpec
	if err := json.Unmarshal(raw, &plain); err != nil {
		return err
	}
	if f := touch.Load(); f != nil {
		(*f)(plain.NodeName)
	}
	s.NodeName = plain.NodeName
	return nil
}

// exiting returns a config with one function that ends its goroutine for objects on the node "exit", as often as times says.
// decodes reports whether such an object reaches the store later: it does not if the function is OnDecodeError.
func exiting(t *testing.T, function string, times *atomic.Int32) (config informer.Config[*touchyPod], decodes bool) {
	exit := func(exits bool) {
		if exits && times.Add(-1) >= 0 {
			runtime.Goexit()
		}
	}
	config = world.Quiet[*touchyPod]()
	switch function {
	case "UnmarshalJSON":
		touched := func(nodeName string) { exit(nodeName == "exit") }
		touch.Store(&touched)
		t.Cleanup(func() { touch.Store(nil) })
	case "Transform":
		config.Transform = func(p *touchyPod) (*touchyPod, error) { exit(p.Spec.NodeName == "exit"); return p, nil }
	case "Filter":
		config.Filter = func(meta *metav1.PartialObjectMetadata) bool { exit(meta.Labels["v"] == "exit"); return true }
	case "OnDecodeError":
		config.Transform = func(p *touchyPod) (*touchyPod, error) {
			if p.Spec.NodeName == "exit" {
				return nil, errors.New("refused")
			}
			return p, nil
		}
		config.OnDecodeError = func(*informer.DecodeError) { exit(true) }
		return config, false
	}
	return config, true
}

// If a user's function ends its goroutine, as a test's Fatal does, the list or watch fails on whichever goroutine it runs. The
// status says why, and the reflector retries. Unread objects are not deleted, and nothing hangs.
// Guarantees: R20, L1, L2
func TestFunctionsThatEndTheirGoroutine(t *testing.T) {
	for _, procs := range []int{1, 4} { // with one, the reading goroutine does all the work
		for _, function := range []string{"UnmarshalJSON", "Transform", "Filter", "OnDecodeError"} {
			for _, verb := range []string{"list", "stream", "watch"} {
				for _, times := range []int32{1, 1 << 20} {
					t.Run(fmt.Sprintf("%s,%s,procs=%d,times=%d", function, verb, procs, times), func(t *testing.T) {
						defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
						left := atomic.Int32{}
						left.Store(times)
						config, decodes := exiting(t, function, &left)
						config.PagedList = verb == "list"
						world.Bubble(t, func(w world.World) { endsGoroutine(w, config, verb, times == 1, decodes) })
					})
				}
			}
		}
	}
}

func endsGoroutine(w world.World, config informer.Config[*touchyPod], verb string, once, decodes bool) {
	const pods = 14
	exit := func(pod *corev1.Pod) *corev1.Pod {
		pod.Labels["v"], pod.Spec.NodeName = "exit", "exit"
		return pod
	}
	for i := range pods {
		pod := world.NewPod("ns", fmt.Sprintf("%02d", i))
		pod.Annotations = map[string]string{"x": strings.Repeat("x", 20_000)} // fills several batches
		if verb != "watch" && (i == 5 || !once && i > 5) {
			exit(pod)
		}
		w.Create(pod)
	}
	inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, config)
	rec := &testkit.Recorder[*touchyPod]{}
	inf.Subscribe(rec)
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- inf.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			w.Errorf("Run: %v", err)
		}
	}()
	short, cancelShort := context.WithTimeout(ctx, 10*time.Minute)
	defer cancelShort()
	err := inf.WaitSynced(short)
	if synced := once || verb == "watch"; synced != (err == nil) || !synced && !strings.Contains(err.Error(), "called runtime.Goexit") {
		w.Fatalf("WaitSynced: %v", err)
	}
	if verb == "watch" {
		pod, _ := w.Pods.Get(informer.Key{Namespace: "ns", Name: "05"})
		if _, err := w.Pods.Update(exit(pod.DeepCopy())); err != nil {
			w.Fatal(err)
		}
		behind := w.Relabel("ns", "06", "2")
		if err := inf.WaitForResourceVersion(short, behind.ResourceVersion); once != (err == nil) {
			w.Errorf("WaitFor: %v", err)
		}
	}
	want := pods
	switch {
	case !once && verb != "watch":
		want = 0
	case !decodes && verb != "watch":
		want--
	}
	status := inf.Status().Reflectors[0]
	if inf.Store().Len() != want || once && decodes && (status.LastError == nil || !strings.Contains(status.LastError.Error(), "called runtime.Goexit")) {
		w.Errorf("%d objects, want %d; status %+v", inf.Store().Len(), want, status)
	}
	for _, line := range rec.Told() {
		if strings.HasPrefix(line, "delete") {
			w.Errorf("handler got: %s", line)
		}
	}
	if verb == "watch" {
		pod, _ := inf.Store().Get(informer.Key{Namespace: "ns", Name: "05"})
		if has := pod != nil && pod.Spec.NodeName == "exit"; has != (once && decodes) {
			w.Errorf("05 is %+v", pod)
		}
		if status.Traffic.Lists != 1 {
			w.Errorf("%d lists: the watch did not resume", status.Traffic.Lists)
		}
	}
}

// A function that ends the goroutine that writes to the store ends the informer. Run returns an error that says so.
// Guarantees: C3, L1, L4
func TestIndexThatEndsItsGoroutine(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a", "v=1"))
		inf := w.QuietInformer()
		informer.NewIndex(inf, func(p *corev1.Pod) []string {
			if p.Labels["v"] == "exit" {
				runtime.Goexit()
			}
			return nil
		})
		sub := inf.Subscribe(&testkit.Recorder[*corev1.Pod]{})
		ended := make(chan error, 1)
		go func() { ended <- inf.Run(w.Context()) }()
		if err := sub.WaitSynced(w.Context()); err != nil {
			w.Fatal(err)
		}
		last := w.Relabel("ns", "a", "exit")
		if err := inf.WaitForResourceVersion(w.Context(), last.ResourceVersion); !errors.Is(err, informer.ErrStopped) {
			w.Errorf("WaitFor: %v", err)
		}
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "v1 pods: a callback") || !strings.Contains(err.Error(), "called runtime.Goexit") {
			w.Errorf("Run: %v", err)
		}
		if pod, _ := inf.Store().Get(informer.Key{Namespace: "ns", Name: "a"}); pod == nil || pod.Labels["v"] != "1" {
			w.Errorf("the store has %v", pod)
		}
		if err := sub.Err(); !errors.Is(err, informer.ErrStopped) {
			w.Errorf("subscription: %v", err)
		}
	})
}

package recovery

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

// turns returns events of the pod ns/a, each of the form TYPE UID VERSION. Without a version, they have increasing ones above
// those of the server. Without a UID, or with self, they have that of the server's pod. The label v is the number of the event.
func turns(w world.World, events ...string) func() [][]byte {
	return func() (frames [][]byte) {
		version, _ := strconv.Atoi(w.Server.ResourceVersion())
		for n, event := range events {
			parts := append(strings.Fields(event), "self", "")
			pod, _ := w.Pods.Get(world.KeyA)
			pod = pod.DeepCopy()
			if parts[1] != "self" {
				pod.UID = types.UID(parts[1])
			}
			if pod.ResourceVersion = strconv.Itoa(version + n + 1); len(parts) == 5 {
				pod.ResourceVersion = parts[2]
			}
			pod.Labels["v"] = fmt.Sprint(n + 2)
			frames = append(frames, world.Frame(world.JSONType, parts[0], w.Encoded(world.JSONType, pod)))
		}
		return frames
	}
}

// If a watch alternates between two objects with the same key, the informer reports both UIDs once. The store keeps its
// object until the server deletes it, and then has the other one. A recreated object is no such case, even if the watch
// missed the deletion.
// Guarantees: R29, H5
func TestTwoObjectsWithOneKeyInAWatch(t *testing.T) {
	for name, c := range map[string]struct {
		events []string
		want   []string
		shared int
	}{
		"by turns": {
			[]string{"MODIFIED other", "MODIFIED", "MODIFIED other", "MODIFIED", "ADDED", "MODIFIED other"},
			[]string{"delete ns/a 1 final=false", "add ns/a 2 initial=false", "update ns/a 2->4", "update ns/a 4->7"}, 1,
		},
		"three": {
			[]string{"MODIFIED b", "MODIFIED c", "MODIFIED", "MODIFIED b", "MODIFIED c"},
			[]string{"delete ns/a 1 final=false", "add ns/a 2 initial=false", "delete ns/a 2 final=false", "add ns/a 3 initial=false", "update ns/a 3->6"}, 1,
		},
		"deletion of the other one": {
			[]string{"MODIFIED other", "MODIFIED", "DELETED", "MODIFIED other"},
			[]string{"delete ns/a 1 final=false", "add ns/a 2 initial=false", "update ns/a 2->5"}, 0,
		},
		"deletion of the kept one": {
			[]string{"MODIFIED other", "MODIFIED", "DELETED other", "MODIFIED"},
			[]string{"delete ns/a 1 final=false", "add ns/a 2 initial=false", "delete ns/a 4 final=true", "add ns/a 3 initial=false", "update ns/a 3->5"}, 0,
		},
		"deletion of the kept one, at the end": {
			[]string{"MODIFIED other", "MODIFIED", "MODIFIED", "DELETED other"},
			[]string{"delete ns/a 1 final=false", "add ns/a 2 initial=false", "delete ns/a 5 final=true", "add ns/a 4 initial=false"}, 0,
		},
		"deletion of the kept one of three": {
			[]string{"MODIFIED 0", "MODIFIED b", "MODIFIED", "MODIFIED 0", "DELETED b", "DELETED 0", "MODIFIED"},
			[]string{"delete ns/a 1 final=false", "add ns/a 2 initial=false", "delete ns/a 2 final=false", "add ns/a 3 initial=false",
				"delete ns/a 6 final=true", "add ns/a 5 initial=false", "delete ns/a 7 final=true", "add ns/a 4 initial=false", "update ns/a 4->8"}, 0,
		},
		"versions of another cluster": {
			[]string{"MODIFIED other", "MODIFIED", "MODIFIED self 2", "MODIFIED self abc", "MODIFIED other"},
			[]string{"delete ns/a 1 final=false", "add ns/a 2 initial=false", "update ns/a 2->6"}, 1,
		},
		"a third one that is only deleted": {
			[]string{"MODIFIED other", "MODIFIED", "DELETED third", "ADDED other"},
			[]string{"delete ns/a 1 final=false", "add ns/a 2 initial=false", "update ns/a 2->5"}, 1,
		},
		"recreated": {
			[]string{"DELETED", "ADDED new", "MODIFIED new", "DELETED new", "ADDED newer"},
			[]string{"delete ns/a 2 final=true", "add ns/a 3 initial=false", "update ns/a 3->4", "delete ns/a 5 final=true", "add ns/a 6 initial=false"}, 0,
		},
		"recreated without deletion": {
			[]string{"ADDED new", "MODIFIED new", "ADDED newer", "MODIFIED newer"},
			[]string{"delete ns/a 1 final=false", "add ns/a 2 initial=false", "update ns/a 2->3", "delete ns/a 3 final=false", "add ns/a 4 initial=false", "update ns/a 4->5"}, 0,
		},
		"late deletion": {
			[]string{"ADDED new", "DELETED", "MODIFIED new"},
			[]string{"delete ns/a 1 final=false", "add ns/a 2 initial=false", "update ns/a 2->4"}, 0,
		},
	} {
		for _, pause := range []time.Duration{0, time.Second} {
			t.Run(fmt.Sprint(name, " ", pause), func(t *testing.T) {
				world.Bubble(t, func(w world.World) {
					p, stop := watchPods(w, world.JSONType)
					defer stop()
					pod, _ := w.Pods.Get(world.KeyA)
					defer w.AnswerWatch(world.JSONType, pause, turns(w, c.events...))()
					<-time.After(20 * time.Second)
					got := p.rec.Take()
					if pause > 0 && !slices.Equal(got, c.want) { // without, events of one batch fold
						w.Errorf("the handler got %q, want %q", got, c.want)
					}
					last := c.want[len(c.want)-1]
					stored, ok := p.inf.Store().Get(world.KeyA)
					if !ok || !strings.HasSuffix(last, ">"+stored.Labels["v"]) && !strings.HasPrefix(last, "add ns/a "+stored.Labels["v"]+" ") {
						w.Errorf("stored %v, want that of %q", stored, last)
					}
					s := p.status()
					if s.Traffic.SharedKeys != c.shared || s.Traffic.Lists != 1 {
						w.Errorf("status %+v", s)
					}
					reports := int32(1)
					if name == "late deletion" || strings.HasPrefix(name, "recreated") {
						reports = 0
					} else if s.LastError == nil || !strings.Contains(s.LastError.Error(), string(pod.UID)) || !strings.Contains(s.LastError.Error(), "ns/a") {
						w.Errorf("LastError: %v", s.LastError)
					}
					if n := p.failures.Load(); n != reports {
						w.Errorf("%d reports, want %d", n, reports)
					}
				})
			})
		}
	}
}

// Of two objects with one key in a list, the store has the same one after each list, whatever their order. A list without the
// one that it has replaces that one.
// Guarantees: R29
func TestTwoObjectsWithOneKeyInAList(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		var uids atomic.Pointer[[]types.UID]
		uids.Store(&[]types.UID{"y", "x"})
		w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
			if world.AsksToWatch(r) {
				http.Error(rw, "expired", http.StatusGone) // a list follows
				return true
			}
			list := &corev1.PodList{}
			list.ResourceVersion = "100"
			for _, uid := range *uids.Load() {
				pod := world.NewPod("ns", "a", "v="+string(uid))
				pod.UID, pod.ResourceVersion = uid, "50"
				list.Items = append(list.Items, *pod)
			}
			world.Write(rw, world.JSONType, w.Encoded(world.JSONType, list))
			return true
		})
		p, stop := watchPods(w, world.JSONType)
		defer stop()
		lists := p.status().Traffic.Lists
		for _, order := range [][]types.UID{{"y", "x"}, {"x", "y"}, {"x", "y", "b"}, {"y", "b", "x"}} {
			uids.Store(&order)
			<-time.After(2 * time.Minute)
			p.rec.Want(w.T)
		}
		if pod, ok := p.inf.Store().Get(world.KeyA); !ok || pod.UID != "x" {
			w.Errorf("stored %v", pod)
		}
		s := p.status()
		if s.Traffic.SharedKeys != 1 || s.Traffic.Lists < lists+4 {
			w.Errorf("status %+v", s)
		}
		uids.Store(&[]types.UID{"y"})
		<-time.After(2 * time.Minute)
		p.rec.Want(w.T, "delete ns/a x final=false", "add ns/a y initial=false")
		if s := p.status(); s.Traffic.SharedKeys != 0 {
			w.Errorf("status %+v", s)
		}
	})
}

// The object that shares its key with another one in a list takes its place when the server deletes that one. The informer
// sends no request for it.
// Guarantees: R29
func TestOtherObjectOfAKeyTakesItsPlace(t *testing.T) {
	for _, media := range []string{world.JSONType, world.ProtobufType} {
		world.Bubble(t, func(w world.World) {
			pod := func(uid types.UID, version string) *corev1.Pod {
				p := world.NewPod("ns", "a", "v="+version)
				p.UID, p.ResourceVersion = uid, version
				return p
			}
			w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
				if !world.AsksToWatch(r) {
					world.WritePods(rw, r, "100", "", pod("x", "50"), pod("y", "40"))
					return true
				}
				for _, frame := range [][]byte{
					world.Frame(media, "MODIFIED", w.Encoded(media, pod("y", "101"))),
					world.Frame(media, "DELETED", w.Encoded(media, pod("x", "102"))),
				} {
					<-time.After(time.Second)
					world.Write(rw, media, frame)
				}
				<-r.Context().Done()
				return true
			})
			inf := informer.New(w.Client(func(c *rest.Config) { c.ContentType = media }), informer.Resource{GroupVersionResource: world.PodGVR}, world.Paged[*corev1.Pod]())
			rec := &testkit.Recorder[*corev1.Pod]{}
			inf.Subscribe(rec)
			defer world.Start(w.T, inf)()
			rec.Want(w.T, "add ns/a 50 initial=true")
			if s := world.StatusOf(inf); s.Traffic.SharedKeys != 1 {
				w.Errorf("status %+v", s)
			}
			<-time.After(10 * time.Second)
			rec.Want(w.T, "delete ns/a 102 final=true", "add ns/a 101 initial=false")
			s := world.StatusOf(inf)
			if s.Traffic.SharedKeys != 0 || s.Traffic.Lists != 1 || s.Traffic.Watches != 1 || s.ResourceVersion != "102" || s.Traffic.Late != 0 {
				w.Errorf("status %+v", s)
			}
		})
	}
}

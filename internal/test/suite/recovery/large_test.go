package recovery

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

// large returns pod with an annotation that makes it exceed the limit for an object.
func large(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Annotations = map[string]string{"a": strings.Repeat("x", 33<<20)}
	return pod
}

// watched is an informer of the pods a and b, its recorder, and what it reports.
type watched struct {
	inf      *informer.Informer[*corev1.Pod]
	rec      *testkit.Recorder[*corev1.Pod]
	failures *atomic.Int32
	failed   []*informer.DecodeError // in the order of the calls
}

// watchPods starts an informer, and returns it when it is synced.
func watchPods(w world.World, media string) (p *watched, stop func()) {
	w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
	p = &watched{rec: &testkit.Recorder[*corev1.Pod]{}, failures: &atomic.Int32{}}
	config := world.Paged[*corev1.Pod]()
	config.OnFailure = func(error) { p.failures.Add(1) }
	config.OnDecodeError = func(err *informer.DecodeError) { p.failed = append(p.failed, err) }
	p.inf = informer.New(w.Client(func(c *rest.Config) { c.ContentType = media }), informer.Resource{GroupVersionResource: world.PodGVR}, config)
	p.inf.Subscribe(p.rec)
	stop = world.Start(w.T, p.inf)
	<-time.After(time.Minute) // a watch that ends at once is a failure
	p.rec.Take()
	p.failures.Store(0)
	return p, stop
}

func (p *watched) status() status.Reflector { return p.inf.Status().Reflectors[0] }

// An event of an object over the size limit is reported with the key, like one that cannot be decoded. The watch goes on: the
// store keeps the last good version, later events arrive, and the next version of the object repairs it.
// Guarantees: R26, R17
func TestEventOver32MiBStopsNothing(t *testing.T) {
	for _, media := range []string{world.JSONType, world.ProtobufType} {
		t.Run(strings.TrimPrefix(media, "application/"), func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				p, stop := watchPods(w, media)
				defer stop()
				end := w.AnswerWatch(media, 0, func() [][]byte {
					a := w.Encoded(media, large(w.Relabel("ns", "a", "2")))
					b := w.Encoded(media, w.Relabel("ns", "b", "2"))
					return [][]byte{world.Frame(media, "MODIFIED", a), world.Frame(media, "MODIFIED", b)}
				})
				synctest.Wait()
				p.rec.Want(w.T, "update ns/b 1->2")
				s := p.status()
				if s.Stale != 1 || s.DecodeErrors != 1 || s.Traffic.Lists != 1 || s.ResourceVersion != w.Server.ResourceVersion() || p.failures.Load() != 0 {
					w.Errorf("status %+v, %d failures", s, p.failures.Load())
				}
				if len(p.failed) != 1 || p.failed[0].Key != world.KeyA || p.failed[0].Raw != nil || !errors.Is(p.failed[0], informer.ErrTooLarge) {
					w.Errorf("reported %v", p.failed)
				}
				if failed := (*informer.DecodeError)(nil); !errors.As(p.inf.Store().Undecodable(world.KeyA), &failed) || failed.Key != world.KeyA {
					w.Errorf("Undecodable: %+v", failed)
				}
				end()
				synctest.Wait()
				w.Relabel("ns", "a", "3")
				world.EqualsServer(w, p.inf)
				p.rec.Want(w.T, "update ns/a 1->3")
				if s := p.status(); s.Stale != 0 || s.Traffic.Lists != 1 {
					w.Errorf("status %+v", s)
				}
			})
		})
	}
}

// A deletion of an object over the size limit deletes it.
// Guarantees: R26
func TestDeletionOver32MiB(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		p, stop := watchPods(w, world.ProtobufType)
		defer stop()
		defer w.AnswerWatch(world.ProtobufType, 0, func() [][]byte {
			pod := large(w.Relabel("ns", "a", "2"))
			w.Delete("ns", "a")
			pod.ResourceVersion = w.Server.ResourceVersion()
			return [][]byte{world.Frame(world.ProtobufType, "DELETED", w.Encoded(world.ProtobufType, pod))}
		})()
		synctest.Wait()
		p.rec.Want(w.T, "delete ns/a 1 final=false")
		world.EqualsServer(w, p.inf)
		if s := p.status(); s.Stale != 0 || s.DecodeErrors != 1 {
			w.Errorf("status %+v", s)
		}
	})
}

// If the key of an object over the size limit is not known, the informer says so, and lists after a backoff. It does not list
// again and again.
// Guarantees: R26
func TestLargeEventWithoutAKeyLists(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		p, stop := watchPods(w, world.JSONType)
		defer stop()
		defer w.AnswerWatch(world.JSONType, 0, func() [][]byte {
			data := strings.Repeat("x", 33<<20)
			return [][]byte{world.Frame(world.JSONType, "MODIFIED", fmt.Appendf(nil, `{"data":%q,"kind":"Pod","metadata":{"name":"a"}}`, data))}
		})()
		<-time.After(5 * time.Minute)
		s := p.status()
		if s.Traffic.Lists != 2 || p.failures.Load() != 1 || s.LastError == nil || !strings.Contains(s.LastError.Error(), "whose name does not precede the size limit") {
			w.Errorf("%d lists, %d failures, last error %v", s.Traffic.Lists, p.failures.Load(), s.LastError)
		}
		w.Relabel("ns", "a", "2")
		world.EqualsServer(w, p.inf)
		p.rec.Want(w.T, "update ns/a 1->2")
	})
}

// A list with an item over the size limit has the other items, and the key of that one is known. So it is for the initial
// events of a streaming list.
// Guarantees: R26, R17
func TestListWithAnItemOver32MiB(t *testing.T) {
	for _, media := range []string{world.JSONType, world.ProtobufType} {
		for _, streams := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,streams=%v", strings.TrimPrefix(media, "application/"), streams), func(t *testing.T) {
				world.Bubble(t, func(w world.World) {
					w.Create(world.NewPod("ns", "a", "v=1"))
					b := w.Create(world.NewPod("ns", "b", "v=1"))
					a, _ := w.Pods.Get(world.KeyA)
					w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
						list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: b.ResourceVersion}, Items: []corev1.Pod{*large(a), *b}}
						switch {
						case world.AsksToStream(r):
							var body bytes.Buffer
							for i := range list.Items {
								body.Write(world.Frame(media, "ADDED", w.Encoded(media, &list.Items[i])))
							}
							end := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: b.ResourceVersion, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
							body.Write(world.Frame(media, "BOOKMARK", w.Encoded(media, end)))
							world.Write(rw, media, body.Bytes())
							<-r.Context().Done()
						case world.AsksToWatch(r):
							return false
						default:
							world.Write(rw, media, w.Encoded(media, list))
						}
						return true
					})
					config := world.Quiet[*corev1.Pod]()
					config.PagedList = !streams
					inf := informer.New(w.Client(func(c *rest.Config) { c.ContentType = media }), informer.Resource{GroupVersionResource: world.PodGVR}, config)
					defer world.Start(w.T, inf)()
					if s := inf.Status(); s.Objects != 1 || s.Missing != 1 || s.Reflectors[0].Traffic.Lists != 1 {
						w.Errorf("%d objects, %d missing, %d lists", s.Objects, s.Missing, s.Reflectors[0].Traffic.Lists)
					}
					if failed := (*informer.DecodeError)(nil); !errors.As(inf.Store().Undecodable(world.KeyA), &failed) || failed.Key != world.KeyA {
						w.Errorf("Undecodable: %+v", failed)
					}
				})
			})
		}
	}
}

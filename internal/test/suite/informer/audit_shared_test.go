package informer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

// sharing returns the pods ns/a of these UIDs and versions, as "x 5", and the pod ns/z.
func sharing(ids ...string) []*corev1.Pod {
	z := world.NewPod("ns", "z", "v=1")
	z.UID, z.ResourceVersion = "z", "1"
	all := []*corev1.Pod{z}
	for _, id := range ids {
		uid, version, _ := strings.Cut(id, " ")
		pod := world.NewPod("ns", "a", "v="+uid)
		pod.UID, pod.ResourceVersion = types.UID(uid), version
		all = append(all, pod)
	}
	return all
}

// An audit of a server that has several objects with one key finds the store right, whatever their order, as long as the store
// has one of them at the version of the server. Otherwise the key counts once, and the list that follows repairs it.
// Guarantees: R23, R29
func TestAuditOfSeveralObjectsWithOneKey(t *testing.T) {
	for _, media := range []string{world.JSONType, world.ProtobufType} {
		t.Run(strings.TrimPrefix(media, "application/"), func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				server := &world.ListServer{Watch: 405}
				w.Answer(server.Answer)
				server.Set("7", sharing("x 5", "y 6")...)
				config := world.Quiet[*corev1.Pod]()
				config.PollEvery = 1000 * time.Hour // nothing but an audit lists again
				inf := informer.New(w.Client(func(c *rest.Config) { c.ContentType = media }), pods, config)
				rec := &testkit.Recorder[*corev1.Pod]{}
				inf.Subscribe(rec)
				defer world.Start(w.T, inf)()
				rec.Want(w.T, "add ns/a x initial=true", "add ns/z 1 initial=true")
				for n, c := range []struct {
					served  []*corev1.Pod
					want    []string
					handler []string
				}{
					{sharing("x 5", "y 6"), nil, nil},
					{sharing("y 6", "x 5"), nil, nil},
					{sharing("y 9", "x 5", "b 3"), nil, nil},
					{sharing("y 9", "x 6"), []string{"ns/a outdated"}, []string{"update ns/a x->x"}},
					{sharing("y 9", "b 6"), []string{"ns/a recreated"}, []string{"delete ns/a x final=false", "add ns/a b initial=false"}},
					{sharing("y 9", "b 6"), nil, nil},
					{sharing(), []string{"ns/a superfluous"}, []string{"delete ns/a b final=false"}},
					{sharing("y 9", "b 6"), []string{"ns/a missing"}, []string{"add ns/a b initial=false"}},
					{sharing("y 9"), []string{"ns/a recreated"}, []string{"delete ns/a b final=false", "add ns/a y initial=false"}},
				} {
					t.Log(n)
					lists := world.StatusOf(inf).Traffic.Lists
					server.Set("7", c.served...)
					wantAudit(w, inf, len(c.served), c.want...)
					<-time.After(10 * time.Second)
					rec.Want(w.T, c.handler...)
					wantAudit(w, inf, len(c.served)) // repaired
					if more := world.StatusOf(inf).Traffic.Lists - lists; more != min(len(c.want), 1) {
						w.Errorf("%d lists", more)
					}
					if shared := world.StatusOf(inf).Traffic.SharedKeys; len(c.want) > 0 && shared != min(1, max(0, len(c.served)-2)) {
						w.Error(fmt.Sprint(shared, " shared keys"))
					}
				}
			})
		})
	}
}

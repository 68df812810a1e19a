package client

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
)

const drop = ";drop=metadata.managedFields"

// An informer that drops managedFields asks for JSON without them. It needs fewer bytes of a server that can do it, and gets the same
// objects from one that cannot. A server that does not accept the parameter is asked without it from then on.
// Guarantees: R21
func TestServerLeavesOutManagedFields(t *testing.T) {
	received := map[string]int64{}
	for _, c := range []struct {
		name            string
		keep, can, keen bool     // keen: the server accepts media types without parameters only
		want            []string // the Accept headers
	}{
		{"can", false, true, false, []string{"application/json" + drop}},
		{"cannot", false, false, false, []string{"application/json" + drop}},
		{"does not accept it", false, false, true, []string{"application/json", "application/json" + drop}},
		{"kept", true, true, false, []string{"application/json"}},
	} {
		for _, paged := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,paged=%v", c.name, paged), func(t *testing.T) {
				world.BubbleWith(t, informertest.Options{ManagedFieldsOptOut: c.can}, func(w world.World) {
					for i := range 20 {
						w.Create(world.NewPod("ns", fmt.Sprint("p", i), "v=1"))
					}
					if c.keen {
						w.Answer(func(w http.ResponseWriter, r *http.Request) bool {
							if !strings.Contains(r.Header.Get("Accept"), ";") {
								return false
							}
							w.WriteHeader(http.StatusNotAcceptable)
							return true
						})
					}
					config := world.Quiet[*corev1.Pod]()
					config.PagedList, config.KeepManagedFields = paged, c.keep
					client := w.Client(func(c *rest.Config) { c.ContentType = world.JSONType })
					inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
					defer world.Start(w.T, inf)()
					if err := inf.WaitSynced(w.Context()); err != nil {
						t.Fatal(err)
					}
					w.Relabel("ns", "p1", "2")
					if err := inf.WaitForResourceVersion(w.Context(), w.Server.ResourceVersion()); err != nil {
						t.Fatal(err)
					}
					if n := inf.Store().Len(); n != 20 {
						t.Errorf("%d pods", n)
					}
					for pod := range inf.Store().All() {
						if kept := len(pod.ManagedFields) > 0; kept != c.keep {
							t.Errorf("%s has managedFields: %v", pod.Name, kept)
						}
					}
					if got := w.Accepts(); !slices.Equal(got, c.want) {
						t.Errorf("Accept %q, want %q", got, c.want)
					}
					status := inf.Status().Reflectors[0]
					if refused := slices.IndexFunc(w.Server.Requests(), func(r informertest.Request) bool { return r.Header.Get("Accept") == "application/json" }); c.keen && refused != 1 {
						t.Errorf("request %d is the first without the parameter", refused)
					}
					received[fmt.Sprint(c.name, paged)] = status.Traffic.Bytes
				})
			})
		}
	}
	for _, paged := range []bool{false, true} {
		can, cannot := received[fmt.Sprint("can", paged)], received[fmt.Sprint("cannot", paged)]
		if can == 0 || cannot-can < 20*50 {
			t.Errorf("paged=%v: %d bytes without managedFields, %d with them", paged, can, cannot)
		}
	}
}

package watchcache_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/watchcache"
)

// A watcher that has not taken the latest events receives them before its watch ends.
func TestEndWatches_ComesAfterTheEventsSoFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := watchcache.New[*corev1.Pod](watchcache.Config{
			GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod"})
		put := func(d informer.Delta[*corev1.Pod]) {
			if err := cache.Put(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		pod := func(name, rv string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: rv}}
		}
		remove := func(name, rv string) {
			put(informer.Delta[*corev1.Pod]{Type: informer.Removed, Key: informer.Key{Namespace: "ns", Name: name},
				ResourceVersion: rv})
		}
		put(informer.Delta[*corev1.Pod]{Type: informer.Replaced, Items: []*corev1.Pod{pod("a", "2"), pod("b", "3")},
			ResourceVersion: "3"})
		client := &slowClient{ResponseRecorder: httptest.NewRecorder(), read: make(chan struct{})}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			cache.ServeList(client, httptest.NewRequest(http.MethodGet, "/api/v1/pods?watch=1", nil), "")
		}()
		synctest.Wait() // it is stuck in writing the initial objects
		remove("a", "4")
		cache.EndWatches()
		remove("b", "5")
		close(client.read)
		<-ended
		var got []string
		for line := range strings.Lines(client.Body.String()) {
			var e struct {
				Type   string
				Object metav1.PartialObjectMetadata
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Type+" "+e.Object.Name)
		}
		if want := []string{"ADDED a", "ADDED b", "DELETED a"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// slowClient is a client that begins to read when read is closed.
type slowClient struct {
	*httptest.ResponseRecorder
	read chan struct{}
}

func (c *slowClient) Write(b []byte) (int, error) {
	<-c.read
	return c.ResponseRecorder.Write(b)
}

func (*slowClient) SetWriteDeadline(time.Time) error { return nil }

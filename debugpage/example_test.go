package debugpage_test

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/debugpage"
	"github.com/typedinformer/informer/review"
	"github.com/typedinformer/informer/status"
)

func Example() {
	_ = func(mux *http.ServeMux, client *informer.Client, group *informer.Group, controller *informer.Controller[informer.Key]) {
		mux.Handle("/debug/informers/", debugpage.New(debugpage.Config{
			Groups:      []func() []informer.InformerStatus{group.Status},
			Controllers: []func() status.Controller{controller.Status},
			Clients:     []func() status.Client{client.Status},
		}))
	}
}

// Callers with a password see objects and indexes, too.
func ExampleObjects() {
	_ = func(pods *informer.Informer[*corev1.Pod], password string) http.Handler {
		byNode := informer.NewIndex(pods, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
		return debugpage.New(debugpage.Config{
			Informers: []func() informer.InformerStatus{pods.Status},
			Objects:   []debugpage.Source{debugpage.Objects(pods, debugpage.Index("node", byNode))},
			Authorize: func(r *http.Request) bool {
				_, got, _ := r.BasicAuth()
				return subtle.ConstantTimeCompare([]byte(got), []byte(password)) == 1
			},
		})
	}
}

// Callers whose token may get the path /debug/informers at the API server see objects, too.
func ExampleConfig_authorize() {
	_ = func(pods *informer.Informer[*corev1.Pod], config *rest.Config) (http.Handler, error) {
		client, err := informer.NewClient(config) // with a rate limit of its own
		if err != nil {
			return nil, err
		}
		reviewer := review.New(client, review.Config{})
		return debugpage.New(debugpage.Config{
			Informers: []func() informer.InformerStatus{pods.Status},
			Objects:   []debugpage.Source{debugpage.Objects(pods)},
			Authorize: reviewer.Authorize(review.Path("get", "/debug/informers")),
			Hosts:     []string{"web.shop.svc"},
		}), nil
	}
}

// A script reads the same as JSON.
func ExampleNew() {
	queue := informer.NewQueue(informer.QueueConfig[string]{Name: "jobs"})
	queue.Add("a")
	page := debugpage.New(debugpage.Config{Name: "worker", Queues: []func() status.Queue{queue.Status}})

	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/debug/informers/status.json", nil))
	var status debugpage.Status
	if err := json.Unmarshal(answer.Body.Bytes(), &status); err != nil {
		fmt.Println(err)
		return
	}
	for _, q := range status.Queues {
		fmt.Printf("%s of %s: %d ready", q.Name, status.Name, q.Ready)
	}
	// Output: jobs of worker: 1 ready
}

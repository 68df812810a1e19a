package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

const namespaces = 12

var phases = []corev1.PodPhase{corev1.PodRunning, corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed}

// simulation is a cluster in the process, whose pods change.
type simulation struct {
	server *informertest.Server
	pods   *informertest.Collection[*corev1.Pod]
	count  int // of the pods
}

// newSimulation starts a server with that many pods.
func newSimulation(pods int) *simulation {
	s := &simulation{server: informertest.NewServer(informertest.Options{}), count: pods}
	s.pods = informertest.Register[*corev1.Pod](s.server,
		informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")})
	for i := range pods {
		key := keyOf(i)
		created := metav1.NewTime(time.Now().Add(-time.Duration(i*i%1_000_000) * time.Second))
		_, err := s.pods.Create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, CreationTimestamp: created},
			Status: corev1.PodStatus{Phase: phases[i%7%len(phases)],
				ContainerStatuses: []corev1.ContainerStatus{{Name: "app", RestartCount: int32(i % 5)}}},
		})
		if err != nil {
			panic(err) // the names are valid and different
		}
	}
	return s
}

// keyOf returns the key of a pod.
func keyOf(i int) informer.Key {
	return informer.Key{Namespace: fmt.Sprint("team-", i%namespaces), Name: fmt.Sprintf("app-%06d", i)}
}

// run restarts pods until ctx ends.
func (s *simulation) run(ctx context.Context, rate int) error {
	if rate == 0 {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := s.restart(rand.IntN(s.count)); err != nil {
			return err
		}
	}
}

// restart restarts a pod.
func (s *simulation) restart(i int) error {
	pod, _ := s.pods.Get(keyOf(i))
	pod = pod.DeepCopy()
	pod.Status.ContainerStatuses[0].RestartCount++
	pod.Status.Phase = phases[rand.IntN(len(phases))]
	_, err := s.pods.Update(pod)
	return err
}

// simulatedAccess believes what the query says: user=team-1,team-2 may list these namespaces, and no user may list all.
// A real cluster has [reviewed] instead.
func simulatedAccess(r *http.Request, namespace string) (bool, error) {
	user := r.URL.Query().Get("user")
	return user == "" || slices.Contains(strings.Split(user, ","), namespace), nil
}

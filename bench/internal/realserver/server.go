// Package realserver serves realistic pods by a kube-apiserver and an etcd, for the clients that package canned serves
// otherwise.
package realserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/typedinformer/informer/bench/internal/canned"
	"github.com/typedinformer/informer/bench/internal/measure"
	"github.com/typedinformer/informer/e2e/cluster"
	"github.com/typedinformer/informer/internal/test/fleet"
)

// writers is the number of changes that are written at the same time.
const writers = 8

// Serve starts a cluster with this many pods, with its files in dir, which it makes, and prints the URL of its control on a line, for
// [measure.Serve]. It returns only if it fails.
func Serve(pods int, dir string) error {
	ctx := context.Background()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	on, err := cluster.Start(ctx, cluster.Config{Dir: dir})
	if err != nil {
		return err
	}
	s, err := newServer(ctx, on, pods)
	if err != nil {
		return errors.Join(err, on.Stop())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, on.Stop())
	}
	mux := http.NewServeMux()
	canned.HandleControl(mux, s)
	fmt.Println("http://" + listener.Addr().String())
	return errors.Join(http.Serve(listener, mux), on.Stop())
}

// server is a [canned.Backend]. A change sets the status of a pod.
type server struct {
	cluster *cluster.Cluster
	client  kubernetes.Interface
	info    canned.Info
	pods    []*corev1.Pod // as they were written last; a writer has the one that it writes

	mu      sync.Mutex // protects the fields below
	news    chan struct{}
	changes []change // released ones; the version is empty until the change is written
	failed  error    // of a write
}

type change struct {
	key     types.NamespacedName
	version string
	sent    int64
}

func newServer(ctx context.Context, on *cluster.Cluster, pods int) (*server, error) {
	config := on.Config()
	s := &server{cluster: on, news: make(chan struct{})}
	var err error
	if s.pods, err = cluster.CreateFleet(ctx, config, fleet.Config{Pods: pods}, 1); err != nil {
		return nil, err
	}
	var keys []types.NamespacedName
	for _, pod := range s.pods {
		keys = append(keys, keyOf(pod))
	}
	s.info = canned.InfoOf(keys)
	s.info.TLS, s.info.CA, s.info.Token, s.info.Real = config.Host, config.CAData, config.BearerToken, true
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	s.client, err = kubernetes.NewForConfig(config)
	return s, err
}

func keyOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// Reset implements canned.Backend. The pods keep their changes, which each client sees in its first list.
func (s *server) Reset() canned.Info { return s.info }

// Expire implements canned.Backend. It restarts kube-apiserver, which then has no history, so that all clients list.
func (s *server) Expire(ctx context.Context) error {
	if err := s.cluster.KillAPIServer(); err != nil {
		return err
	}
	return s.cluster.StartAPIServer(ctx)
}

// Release implements canned.Backend.
func (s *server) Release(n, rate int) (first int, err error) {
	if n < 0 {
		return 0, fmt.Errorf("%d changes", n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	first = len(s.changes)
	for i := range n {
		s.changes = append(s.changes, change{key: keyOf(s.pods[(first+i)%len(s.pods)])})
	}
	if n > 0 {
		go s.write(first, n, rate)
	}
	return first, nil
}

// write writes the changes with numbers from first on, at a rate a second if that is positive.
func (s *server) write(first, n, rate int) {
	var group errgroup.Group
	group.SetLimit(writers)
	began := time.Now()
	for i := range n {
		if rate > 0 {
			time.Sleep(time.Until(began.Add(time.Duration(i+1) * time.Second / time.Duration(rate))))
		}
		group.Go(func() error { return s.update(first + i) })
	}
	if err := group.Wait(); err != nil {
		s.mu.Lock()
		s.failed = errors.Join(s.failed, err)
		s.tellLocked()
		s.mu.Unlock()
	}
}

func (s *server) update(number int) error {
	slot := &s.pods[number%len(s.pods)] // no other writer has it: there are more pods than writers
	pod := (*slot).DeepCopy()
	pod.ResourceVersion = "" // whatever the present version is
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	if i < 0 {
		pod.Status.Conditions = append(pod.Status.Conditions, ready)
	} else {
		if pod.Status.Conditions[i].Status == corev1.ConditionTrue {
			ready.Status, ready.Reason = corev1.ConditionFalse, "ContainersNotReady"
		}
		pod.Status.Conditions[i] = ready
	}
	pod.Status.Message = fmt.Sprint("change ", number)
	sent := measure.Now()
	written, err := s.client.CoreV1().Pods(pod.Namespace).UpdateStatus(context.Background(), pod, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	*slot = written
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes[number].version, s.changes[number].sent = written.ResourceVersion, sent
	s.tellLocked()
	return nil
}

func (s *server) tellLocked() {
	close(s.news)
	s.news = make(chan struct{})
}

// Released implements canned.Backend. It waits until the changes are written.
func (s *server) Released(ctx context.Context, from, to int) (released canned.Released, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from < 0 || to < from || to > len(s.changes) {
		return released, fmt.Errorf("only %d changes have been released", len(s.changes))
	}
	unwritten := func(c change) bool { return c.version == "" }
	for s.failed == nil && slices.ContainsFunc(s.changes[from:to], unwritten) {
		news := s.news
		s.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return released, ctx.Err()
		}
	}
	if s.failed != nil {
		return released, s.failed
	}
	changes := slices.Clone(s.changes[from:to])
	number := func(c change) uint64 { n, _ := strconv.ParseUint(c.version, 10, 64); return n }
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(number(a), number(b)) })
	for _, c := range changes {
		released.Versions = append(released.Versions, c.version)
		released.Keys = append(released.Keys, c.key)
		released.Sent = append(released.Sent, c.sent)
	}
	return released, nil
}

// Served implements canned.Backend.
func (s *server) Served() []string { return nil }

// CPU implements canned.Backend: the time of kube-apiserver and etcd since their last start.
func (s *server) CPU() (time.Duration, error) {
	apiServer, etcd, err := s.cluster.CPUTime()
	return apiServer + etcd, err
}

// Memory implements canned.Backend.
func (s *server) Memory() (memory canned.Memory, err error) {
	memory.Peak, memory.Present, err = s.cluster.PeakMemory()
	return memory, err
}

package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/e2e/cluster"
	"github.com/typedinformer/informer/examples/controller/website"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/manager"
)

const (
	hot            = 40              // websites that others write to all the time
	convergeWithin = 4 * time.Minute // on a busy machine
)

// overlaps records the keys in work, and fails the test if one is reconciled twice at the same time.
type overlaps struct {
	t     *testing.T
	calls atomic.Int64

	mu     sync.Mutex // protects inWork
	inWork map[informer.Key]bool
}

func (o *overlaps) wrap(reconcile func(context.Context, informer.Key) (informer.Result, error)) func(context.Context, informer.Key) (informer.Result, error) {
	return func(ctx context.Context, key informer.Key) (informer.Result, error) {
		o.calls.Add(1)
		o.mu.Lock()
		if o.inWork[key] {
			o.t.Errorf("%s is reconciled twice at the same time", key)
		}
		o.inWork[key] = true
		o.mu.Unlock()
		defer func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			delete(o.inWork, key)
		}()
		return reconcile(ctx, key)
	}
}

// startWebsites runs the controller of examples/controller until stop is called or the test ends. stop returns when the last
// reconcile has.
func startWebsites(t *testing.T, seen *overlaps) (ctl *website.Controller, stop func()) {
	t.Helper()
	ctl, err := website.New(newClient(t, runtime.ContentTypeProtobuf, nil), newClient(t, runtime.ContentTypeProtobuf, nil), website.Config{Workers: 16, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctl.Reconcile = seen.wrap(ctl.Reconcile)
	m := manager.New(manager.Config{GracefulShutdownTimeout: -1, Logger: slog.New(slog.DiscardHandler)})
	if err := ctl.AddTo(m); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := m.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return ctl, stop
}

// startRollouts makes the Deployments of a namespace available, like kube-controller-manager. It is a controller too.
func startRollouts(t *testing.T, namespace string) *informer.Informer[*appsv1.Deployment] {
	resource := informer.Resource{GroupVersionResource: appsv1.SchemeGroupVersion.WithResource("deployments"), Namespaces: []string{namespace}}
	client := newClient(t, runtime.ContentTypeProtobuf, nil)
	deployments := informer.New(client, resource, logged[*appsv1.Deployment](t))
	writer := informer.NewTypedClient[*appsv1.Deployment](client, resource.GroupVersionResource)
	queue := informer.NewQueue(informer.QueueConfig[informer.Key]{RateLimiter: &informer.ExponentialLimiter[informer.Key]{Max: time.Second}})
	ctl := &informer.Controller[informer.Key]{
		Name:                    "rollouts",
		Queue:                   queue,
		MaxConcurrentReconciles: 8,
		Logger:                  slog.New(slog.DiscardHandler),
		Reconcile: func(ctx context.Context, key informer.Key) (informer.Result, error) {
			d, ok := deployments.Store().Get(key)
			if !ok || d.Status.ObservedGeneration == d.Generation {
				return informer.Result{}, nil
			}
			d = d.DeepCopy()
			n := *d.Spec.Replicas
			d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
			_, err := writer.UpdateStatus(ctx, d, metav1.UpdateOptions{})
			return informer.Result{}, err
		},
	}
	ctl.Watch(informer.EnqueueObject(deployments, informer.GenerationChanged))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = deployments.Run(ctx) })
	running.Go(func() { _ = ctl.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return deployments
}

func siteName(i int) string { return fmt.Sprintf("site-%04d", i) }

// The controller of examples/controller runs on 500 websites (2,000 if tests run whole). Others write to them all the time.
// Meanwhile the API server is killed twice and the controller is replaced once. Every website ends with its children and
// the status of its last spec, and no key is ever reconciled twice at the same time.
func TestController(t *testing.T) {
	controlled := testkit.Rounds(500, 2000)
	namespace := newNamespace(t)
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(website.CRD, &crd.Object); err != nil {
		t.Fatal(err)
	}
	if err := cluster.InstallCRD(within(t, patience), server.Config(), crd); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	seen := &overlaps{t: t, inWork: map[informer.Key]bool{}}
	ctl, stop := startWebsites(t, seen)
	deployments := startRollouts(t, namespace)
	client := informer.NewTypedClient[*website.Website](newClient(t, runtime.ContentTypeJSON, nil), website.Resource)

	// Some writers begin before all websites exist.
	ctx, cancel := context.WithCancel(t.Context())
	var storm sync.WaitGroup
	var written, refused atomic.Int64
	for worker := range 4 {
		random := rand.New(rand.NewPCG(1, uint64(worker)))
		storm.Go(func() {
			pace := time.NewTicker(20 * time.Millisecond)
			defer pace.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				key := informer.Key{Namespace: namespace, Name: siteName(random.IntN(hot))}
				patch := fmt.Sprintf(`{"metadata":{"annotations":{"writer-%d":"%d"}}}`, worker, n)
				if n%20 == 0 {
					key.Name = siteName(random.IntN(controlled))
					patch = fmt.Sprintf(`{"spec":{"image":"web:%d-%d","replicas":%d}}`, worker, n, 1+random.IntN(3))
				}
				// Complete a request at the end: a cancelled one could still succeed, after the final check.
				if _, err := client.Patch(context.WithoutCancel(ctx), key, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err == nil {
					written.Add(1)
				} else {
					refused.Add(1) // the website does not exist yet, or the server is down
				}
				select { // without a pace, four writers would keep two cores busy
				case <-pace.C:
				case <-ctx.Done():
				}
			}
		})
	}
	defer storm.Wait()
	defer cancel()
	creating := new(errgroup.Group)
	creating.SetLimit(16)
	create := func(from, to int) {
		for i := from; i < to; i++ {
			creating.Go(func() error {
				_, err := client.Create(t.Context(), &website.Website{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: siteName(i)},
					Spec:       website.Spec{Host: fmt.Sprintf("%s.%s.example.com", siteName(i), namespace), Image: "web:1"},
				}, metav1.CreateOptions{})
				return err
			})
		}
		if err := creating.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	phase := func(what string) {
		s := ctl.Status()
		t.Logf("%v: %s; %d reconciles, queue %v, %d delayed", time.Since(began).Round(time.Second), what, seen.calls.Load(), s.Queue.Depth, s.Queue.Delayed)
	}
	create(0, controlled/2)
	restartAPIServer(t)
	create(controlled/2, controlled)
	phase("all were created")
	stop()
	first := ctl.Status()
	ctl, stop = startWebsites(t, seen)
	restartAPIServer(t)
	if err := ctl.Websites.WaitSynced(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	if err := ctl.WaitSynced(within(t, convergeWithin)); err != nil {
		t.Error(err)
	}
	phase("the new controller reconciled each once")
	cancel()
	storm.Wait()

	services := informer.New(newClient(t, runtime.ContentTypeProtobuf, nil), informer.Resource{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("services"), Namespaces: []string{namespace},
	}, logged[*corev1.Service](t))
	start(t, services)
	deadline := within(t, convergeWithin)
	for i := range controlled {
		key := informer.Key{Namespace: namespace, Name: siteName(i)}
		// The API server has the last spec; the cache may be late.
		last, err := client.Get(t.Context(), key, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := ctl.Websites.Await(deadline, key, func(w *website.Website) bool {
			return w != nil && w.Generation == last.Generation && informer.HasCondition[*website.Website](website.Ready, "True")(w)
		})
		if err != nil {
			w, _ := client.Get(t.Context(), key, metav1.GetOptions{})
			t.Fatalf("%v: spec %+v, status %+v; controller %+v", err, w.Spec, w.Status, ctl.Status())
		}
		d, _ := deployments.Store().Get(key)
		s, _ := services.Store().Get(key)
		if d == nil || s == nil || !metav1.IsControlledBy(d, w) || !metav1.IsControlledBy(s, w) {
			t.Fatalf("%s has the children %v, %v", key, d, s)
		}
		want := int32(1)
		if last.Spec.Replicas != nil {
			want = *last.Spec.Replicas
		}
		if d.Spec.Template.Spec.Containers[0].Image != last.Spec.Image || *d.Spec.Replicas != want || w.Status.AvailableReplicas != want {
			t.Errorf("%s: spec %+v, deployment %+v, status %+v", key, last.Spec, d.Spec, w.Status)
		}
	}
	stop()
	s := ctl.Status()
	t.Logf("converged after %v: %d writes of others, %d refused; %d reconciles; conflicts and the like: %d and %d; failures: %d and %d",
		time.Since(began), written.Load(), refused.Load(), seen.calls.Load(), first.BackedOff, s.BackedOff, first.Failed, s.Failed)
	if first.BackedOff+s.BackedOff == 0 {
		t.Error("no conflicts")
	}
}

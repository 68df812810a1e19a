package website

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/leader"
	"github.com/typedinformer/informer/manager"
	"github.com/typedinformer/informer/watchcache"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// cluster is an API server with everything that a controller of websites needs, in a bubble where time passes when all
// goroutines block.
type cluster struct {
	*testing.T
	server      *informertest.Server
	websites    *informertest.Collection[*Website]
	deployments *informertest.Collection[*appsv1.Deployment]
	services    *informertest.Collection[*corev1.Service]
	events      *informertest.Collection[*corev1.Event]

	mu     sync.Mutex              // protects the fields below
	inWork map[informer.Key]string // the keys in work, and by which controller
	calls  int
}

func inCluster(t *testing.T, test func(c *cluster)) {
	synctest.Test(t, func(t *testing.T) {
		s := informertest.NewServer(informertest.Options{InMemory: true})
		defer s.Close()
		informertest.Register[*coordinationv1.Lease](s, informertest.Resource{GroupVersionResource: coordinationv1.SchemeGroupVersion.WithResource("leases")})
		test(&cluster{
			T: t, server: s, inWork: map[informer.Key]string{},
			websites:    informertest.Register[*Website](s, informertest.Resource{GroupVersionResource: Resource}),
			deployments: informertest.Register[*appsv1.Deployment](s, informertest.Resource{GroupVersionResource: appsv1.SchemeGroupVersion.WithResource("deployments")}),
			services:    informertest.Register[*corev1.Service](s, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("services")}),
			events:      informertest.Register[*corev1.Event](s, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("events")}),
		})
	})
}

func (c *cluster) client() *informer.Client {
	client, err := informer.NewClient(c.server.Config())
	c.must(err)
	return client
}

// controller returns a controller. The test fails if a key is ever reconciled twice at the same time, by any controller.
func (c *cluster) controller(who string) *Controller {
	c.Helper()
	ctl, err := New(c.client(), c.client(), Config{Logger: quiet})
	c.must(err)
	reconcile := ctl.Reconcile
	ctl.Reconcile = func(ctx context.Context, key informer.Key) (informer.Result, error) {
		c.mu.Lock()
		c.calls++
		if other := c.inWork[key]; other != "" {
			c.Errorf("%s and %[3]s reconcile %[2]s at the same time", who, key, other)
		}
		c.inWork[key] = who
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.inWork, key)
		}()
		return reconcile(ctx, key)
	}
	return ctl
}

// process returns a process of the controller.
func (c *cluster) process(who string, elector *leader.Elector) (*manager.Manager, *Controller) {
	ctl, m := c.controller(who), manager.New(manager.Config{Elector: elector, Logger: quiet})
	c.must(ctl.AddTo(m))
	return m, ctl
}

// run calls f until stop is called, or the test ends.
func (c *cluster) run(f func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(c.Context())
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	c.Cleanup(stop)
	return stop
}

// alone runs one process, without leader election.
func (c *cluster) alone() (*manager.Manager, *Controller) {
	m, ctl := c.process("a", nil)
	c.run(func(ctx context.Context) { c.must(m.Run(ctx)) })
	return m, ctl
}

// replica runs a process with leader election. When it ends, it starts again, as in a pod.
func (c *cluster) replica(who string) (stop func()) {
	return c.run(func(ctx context.Context) {
		for ctx.Err() == nil {
			elector, err := leader.New(c.client(), leader.Config{
				Namespace: "ns", Name: name, Identity: who, Logger: quiet,
				Fatal: func() { c.Errorf("%s: Fatal", who) },
			})
			c.must(err)
			m, _ := c.process(who, elector)
			if err := m.Run(ctx); err != nil && !errors.Is(err, leader.ErrLost) {
				c.Error(err)
			}
		}
	})
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// play makes Deployments available a second after each change, like a cluster, until the test ends.
func (c *cluster) play() {
	ctx, cancel := context.WithCancel(c.Context())
	var playing sync.WaitGroup
	playing.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-time.After(time.Second):
				c.rollOut()
			case <-ctx.Done():
			}
		}
	})
	c.Cleanup(func() { cancel(); playing.Wait() })
}

func (c *cluster) rollOut() {
	for d := range c.deployments.All() {
		if d.Status.ObservedGeneration != d.Generation {
			d = d.DeepCopy()
			d.Status = appsv1.DeploymentStatus{
				ObservedGeneration: d.Generation, Replicas: *d.Spec.Replicas, UpdatedReplicas: *d.Spec.Replicas, AvailableReplicas: *d.Spec.Replicas,
			}
			if _, err := c.deployments.Update(d); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				c.Error(err)
			}
		}
	}
}

func key(name string) informer.Key { return informer.Key{Namespace: "ns", Name: name} }

func (c *cluster) create(name, host string, change ...func(*Website)) {
	c.Helper()
	w := &Website{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: Spec{Host: host, Image: "web:1"}}
	for _, f := range change {
		f(w)
	}
	_, err := c.websites.Create(w)
	c.must(err)
}

// change changes an object, and retries on a conflict.
func change[T interface {
	watchcache.Object
	DeepCopy() T
}](c *cluster, in *informertest.Collection[T], name string, f func(T)) {
	c.Helper()
	for {
		obj, ok := in.Get(key(name))
		if !ok {
			c.Fatalf("no %s", name)
		}
		obj = obj.DeepCopy()
		f(obj)
		if _, err := in.Update(obj); !apierrors.IsConflict(err) {
			c.must(err)
			return
		}
	}
}

// settle lets the controller work for ten seconds.
func (c *cluster) settle() {
	<-time.After(10 * time.Second)
	synctest.Wait()
}

// condition returns the status and reason of a condition.
func condition(w *Website, conditionType string) string {
	cond := meta.FindStatusCondition(w.Status.Conditions, conditionType)
	if cond == nil {
		return "none"
	}
	return string(cond.Status) + " " + cond.Reason
}

func (c *cluster) want(name, accepted, ready string) *Website {
	c.Helper()
	w, ok := c.websites.Get(key(name))
	if !ok {
		c.Fatalf("website %s does not exist", name)
	}
	if got, want := condition(w, Accepted)+", "+condition(w, Ready), accepted+", "+ready; got != want || w.Status.ObservedGeneration != w.Generation {
		c.Errorf("website %s: %s for generation %d of %d, want %s", name, got, w.Status.ObservedGeneration, w.Generation, want)
	}
	return w
}

// wantReady checks that a website has its children, and a status for its present spec.
func (c *cluster) wantReady(name string) {
	c.Helper()
	w := c.want(name, "True HostReserved", "True Available")
	d, _ := c.deployments.Get(key(name))
	s, _ := c.services.Get(key(name))
	switch {
	case d == nil || s == nil:
		c.Errorf("website %s has the children %v, %v", name, d, s)
	case !metav1.IsControlledBy(d, w) || !metav1.IsControlledBy(s, w):
		c.Errorf("website %s does not own %v, %v", name, d.OwnerReferences, s.OwnerReferences)
	case d.Spec.Template.Spec.Containers[0].Image != w.Spec.Image || *d.Spec.Replicas != w.replicas() || w.Status.AvailableReplicas != w.replicas():
		c.Errorf("website %s: %+v and its deployment: %+v, %+v", name, w.Spec, d.Spec, w.Status)
	case s.Annotations["external-dns.alpha.kubernetes.io/hostname"] != w.Spec.Host || w.Status.Host != w.Spec.Host:
		c.Errorf("website %s: host %s, status %s, service %v", name, w.Spec.Host, w.Status.Host, s.Annotations)
	}
}

func (c *cluster) wantChildren(name string, deployment, service bool) {
	c.Helper()
	_, d := c.deployments.Get(key(name))
	_, s := c.services.Get(key(name))
	if d != deployment || s != service {
		c.Errorf("%s: deployment %t, service %t; want %t, %t", name, d, s, deployment, service)
	}
}

// reasons returns the reasons of a website's events.
func (c *cluster) reasons(name string) string {
	var reasons []string
	for e := range c.events.All() {
		if e.InvolvedObject.Name == name {
			for range e.Count {
				reasons = append(reasons, e.Type[:1]+":"+e.Reason)
			}
		}
	}
	slices.Sort(reasons)
	return strings.Join(reasons, " ")
}

// writes returns the clients' writes since the last call.
func (c *cluster) writes() []string {
	var writes []string
	for _, r := range c.server.Requests() {
		if r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" && r.Resource.Resource != "leases" {
			writes = append(writes, strings.TrimSuffix(r.Verb+" "+r.Resource.Resource+"/"+r.Subresource, "/"))
		}
	}
	c.server.ResetRequests()
	return writes
}

func (c *cluster) wantWrites(want ...string) {
	c.Helper()
	if got := c.writes(); !slices.Equal(got, want) {
		c.Errorf("writes %q, want %q", got, want)
	}
}

func TestLife(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.alone()
		c.settle()
		c.create("shop", "shop.example.com")
		c.settle()
		c.want("shop", "True HostReserved", "False RollingOut")
		c.wantWrites("update websites", "create deployments", "create services", "update websites/status", "create events", "create events")
		c.rollOut()
		c.settle()
		c.wantReady("shop")
		c.wantWrites("update websites/status", "create events")

		change(c, c.websites, "shop", func(w *Website) { w.Spec.Image, w.Spec.Replicas = "web:2", new(int32(3)) })
		synctest.Wait()
		c.want("shop", "True HostReserved", "False RollingOut")
		c.rollOut()
		c.settle()
		c.wantReady("shop")
		c.writes()

		// The controller writes nothing if nothing needs a change.
		change(c, c.websites, "shop", func(w *Website) { w.Annotations = map[string]string{"note": "mine"} })
		change(c, c.services, "shop", func(s *corev1.Service) { s.Annotations["note"] = "mine" })
		c.settle()
		c.wantWrites()

		change(c, c.websites, "shop", func(w *Website) { w.Spec.Replicas = new(int32(0)) })
		synctest.Wait()
		c.rollOut()
		c.settle()
		c.want("shop", "True HostReserved", "False Off")
		c.wantChildren("shop", true, false)
		change(c, c.websites, "shop", func(w *Website) { w.Spec.Replicas = nil })
		synctest.Wait()
		c.rollOut()
		c.settle()
		c.wantReady("shop")
		if got, want := c.reasons("shop"), "N:Available N:Available N:Available N:HostReserved N:Off N:RollingOut N:RollingOut N:RollingOut"; got != want {
			t.Errorf("events %s, want %s", got, want)
		}

		c.writes()
		_, err := c.websites.Delete(key("shop"))
		c.must(err)
		c.settle()
		if _, ok := c.websites.Get(key("shop")); ok {
			t.Error("the website still exists")
		}
		c.wantChildren("shop", false, false)
		c.wantWrites("delete services", "delete deployments", "update websites")
	})
}

func TestChildrenArePutBack(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.play()
		c.alone()
		c.create("shop", "shop.example.com")
		c.settle()
		c.wantReady("shop")
		for what, f := range map[string]func(){
			"deployment deleted": func() { _, err := c.deployments.Delete(key("shop")); c.must(err) },
			"service deleted":    func() { _, err := c.services.Delete(key("shop")); c.must(err) },
			"image changed": func() {
				change(c, c.deployments, "shop", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "evil" })
			},
			"scaled to zero": func() {
				change(c, c.deployments, "shop", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(0)) })
			},
			"port changed": func() {
				change(c, c.services, "shop", func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt(81) })
			},
			"label removed":   func() { change(c, c.services, "shop", func(s *corev1.Service) { delete(s.Labels, managedBy) }) },
			"disowned":        func() { change(c, c.services, "shop", func(s *corev1.Service) { s.Annotations = nil }) },
			"all at one time": func() { c.deployments.Delete(key("shop")); c.services.Delete(key("shop")) },
		} {
			f()
			c.settle()
			c.wantReady("shop")
			if s, ok := c.services.Get(key("shop")); !ok || s.Labels[managedBy] != name || s.Spec.Ports[0].TargetPort.StrVal != "http" {
				t.Errorf("%s: service %+v", what, s)
			}
		}
	})
}

// The second index: a host belongs to one website, the first one that had it.
func TestHosts(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.play()
		c.alone()
		c.create("first", "shop.example.com")
		<-time.After(2 * time.Second)
		c.create("second", "shop.example.com")
		c.create("third", "other.example.com")
		c.settle()
		c.wantReady("first")
		c.want("second", "False HostTaken", "False NotAccepted")
		c.wantReady("third")
		c.wantChildren("second", false, false)
		if got := c.reasons("second"); got != "N:NotAccepted W:HostTaken" {
			t.Errorf("events %s", got)
		}
		// An older website that asks for the host later does not get it either, and loses its old host.
		change(c, c.websites, "first", func(w *Website) { w.Spec.Host = "other.example.com" })
		c.settle()
		c.want("first", "False HostTaken", "False NotAccepted")
		c.wantChildren("first", false, false)
		c.wantReady("second") // it was enqueued when its host became free
		_, err := c.websites.Delete(key("third"))
		c.must(err)
		c.settle()
		c.wantReady("first")
		c.wantReady("second")
	})
}

func TestInvalidAndTaken(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.play()
		_, ctl := c.alone()
		c.create("shop", "not a host")
		c.settle()
		c.want("shop", "False Invalid", "False NotAccepted")
		c.wantChildren("shop", false, false)
		if s := ctl.Status(); s.Terminal == 0 || s.Queue.Delayed != 0 || s.Failed != s.Terminal {
			t.Errorf("status %+v", s)
		}
		change(c, c.websites, "shop", func(w *Website) { w.Spec.Host = "shop.example.com" })
		c.settle()
		c.wantReady("shop")

		// The controller does not touch another owner's Service, but waits for it to go.
		foreign, err := c.services.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "blog"}})
		c.must(err)
		c.create("blog", "blog.example.com")
		c.settle()
		c.want("blog", "True HostReserved", "False NameTaken")
		if s, _ := c.services.Get(key("blog")); s != foreign {
			t.Errorf("the service is now %+v", s)
		}
		if _, err := c.services.Delete(key("blog")); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		c.wantReady("blog")

		// The controller does not delete the Service with the website either.
		c.create("docs", "docs.example.com")
		change(c, c.websites, "docs", func(w *Website) { w.Spec.Replicas = new(int32(0)) })
		c.settle()
		_, err = c.services.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "docs"}})
		c.must(err)
		_, err = c.websites.Delete(key("docs"))
		c.must(err)
		c.settle()
		c.wantChildren("docs", false, true)
	})
}

// storm writes to every website all the time, and changes some specs. stop ends it.
func (c *cluster) storm(names []string, every time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(c.Context())
	var storm sync.WaitGroup
	for i, name := range names {
		storm.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if w, ok := c.websites.Get(key(name)); ok && w.DeletionTimestamp == nil {
					w = w.DeepCopy()
					w.Annotations = map[string]string{"n": fmt.Sprint(n)}
					if n%10 == i%10 {
						w.Spec.Image = fmt.Sprint("web:", n)
					}
					if _, err := c.websites.Update(w); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
						c.Error(err)
					}
				}
				select {
				case <-time.After(every + time.Duration(i)*time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
	}
	return func() { cancel(); storm.Wait() }
}

// slowServer delays each write, so that others come in between.
func (c *cluster) slowServer() (remove func()) {
	return c.server.Inject(informertest.Fault{Verb: "update", Resource: Resource.Resource, Delay: 50 * time.Millisecond})
}

func (c *cluster) createMany(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint("site-", i))
		c.create(names[i], fmt.Sprintf("site-%d.example.com", i))
	}
	return names
}

func TestConflictStormsAndAServerAway(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.play()
		_, ctl := c.alone()
		names := c.createMany(5)
		defer c.slowServer()()
		stop := c.storm(names, 200*time.Millisecond)
		<-time.After(5 * time.Second)
		c.server.Stop()
		<-time.After(5 * time.Second)
		c.server.Start()
		<-time.After(5 * time.Second)
		c.server.EndWatches()
		c.server.Compact()
		<-time.After(5 * time.Second)
		stop()
		if s := ctl.Status(); s.BackedOff == 0 {
			t.Errorf("no conflicts: %+v", s)
		}
		<-time.After(time.Minute) // backoff after the outage
		for _, name := range names {
			c.wantReady(name)
		}
	})
}

// Two replicas run while everything changes. The leader is cut off, killed or stopped again and again.
func TestReplicas(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.play()
		names := c.createMany(4)
		stop := c.storm(names, time.Second)
		replicas := map[string]func(){}
		for i := range 3 {
			who := fmt.Sprint("replica-", i)
			replicas[who] = c.replica(who)
			<-time.After(10 * time.Second)
			if i > 0 {
				replicas[fmt.Sprint("replica-", i-1)]()
			}
			<-time.After(5 * time.Second)
			mend := c.server.Inject(informertest.Fault{Resource: "leases", Times: 20, Error: errors.New("etcd is down")})
			<-time.After(20 * time.Second)
			mend()
		}
		stop()
		for _, name := range names[:1] {
			_, err := c.websites.Delete(key(name))
			c.must(err)
		}
		<-time.After(2 * time.Minute)
		for _, name := range names[:1] {
			c.wantChildren(name, false, false)
			if _, ok := c.websites.Get(key(name)); ok {
				t.Errorf("%s still exists", name)
			}
		}
		for _, name := range names[1:] {
			c.wantReady(name)
		}
	})
}

// The probes pass while the controller works.
func TestHealth(t *testing.T) {
	inCluster(t, func(c *cluster) {
		m, _ := c.alone()
		<-time.After(time.Minute)
		for _, probe := range []http.Handler{m.Ready(), m.Live()} {
			w := httptest.NewRecorder()
			probe.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			if w.Code != http.StatusOK {
				c.Errorf("%d %s", w.Code, w.Body)
			}
		}
	})
}

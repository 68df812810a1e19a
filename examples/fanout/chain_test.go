package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/status"
)

// chain is an API server with pods and services that change, in a bubble, and the clients of fan-outs behind it.
type chain struct {
	*testing.T
	source *informertest.Server
	pods   *informertest.Collection[*corev1.Pod]
	random *rand.Rand
	tasks  sync.WaitGroup
	ctx    context.Context
}

func inChain(t *testing.T, test func(c *chain)) {
	synctest.Test(t, func(t *testing.T) {
		source := informertest.NewServer(informertest.Options{InMemory: true})
		defer source.Close()
		seed := rand.Uint64()
		t.Log("seed", seed)
		ctx, cancel := context.WithCancel(t.Context())
		c := &chain{T: t, source: source, random: rand.New(rand.NewPCG(seed, 0)), ctx: ctx}
		c.pods = informertest.Register[*corev1.Pod](source, informertest.Resource{GroupVersionResource: pods})
		defer c.tasks.Wait()
		defer cancel()
		c.change(100)
		test(c)
	})
}

func (c *chain) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// change makes n random changes.
func (c *chain) change(n int) {
	c.Helper()
	for range n {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: []string{"a", "b", "c"}[c.random.IntN(3)], Name: fmt.Sprint("p", c.random.IntN(40)),
			Annotations: map[string]string{"value": strconv.FormatUint(c.random.Uint64(), 36)},
		}}
		_, exists := c.pods.Get(informer.KeyOf(pod))
		var err error
		switch {
		case !exists:
			_, err = c.pods.Create(pod)
		case c.random.IntN(4) == 0:
			_, err = c.pods.Delete(informer.KeyOf(pod))
		default:
			_, err = c.pods.Update(pod)
		}
		c.must(err)
	}
}

// pipes is a listener in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipes) Addr() net.Addr { return &net.IPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// replica is a fan-out that serves.
type replica struct {
	listener *pipes
	server   *http.Server
	proxy    *proxy
	stop     context.CancelFunc
	done     chan struct{}
}

// replica starts a fan-out behind a server.
func (c *chain) replica(upstream *rest.Config) *replica {
	c.Helper()
	quiet := slog.New(slog.DiscardHandler)
	m := newMetrics()
	proxy, err := newProxy(c.ctx, upstream, []schema.GroupVersionResource{pods}, 64, quiet, m)
	c.must(err)
	g, err := newGuard(options{listen: "127.0.0.1:0", limits: limits{requestsPerUser: 1000, userQPS: 1000, ipQPS: 1000, bandwidth: 1000, userBandwidth: 1000}}, quiet, m)
	c.must(err)
	ctx, stop := context.WithCancel(c.ctx)
	r := &replica{
		listener: &pipes{conns: make(chan net.Conn), closed: make(chan struct{})},
		server:   &http.Server{Handler: endWith(ctx, g.handler(proxy)), ReadTimeout: 30 * time.Second}, // as that of package manager
		proxy:    proxy, stop: stop, done: make(chan struct{}),
	}
	c.tasks.Go(func() { _ = r.server.Serve(r.listener) })
	c.tasks.Go(func() { defer close(r.done); _ = proxy.run(ctx) })
	c.tasks.Go(func() { <-ctx.Done(); r.server.Close() })
	return r
}

// kill ends a fan-out like SIGKILL: connections break in the middle of a frame, and nothing is left.
func (r *replica) kill() {
	r.server.Close()
	r.stop()
	<-r.done
}

// service is a Service of Kubernetes: a new connection goes to one of its replicas.
type service struct {
	mu       sync.Mutex // protects replicas
	replicas []*replica
}

func (s *service) set(replicas ...*replica) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicas = replicas
}

func (s *service) config() *rest.Config {
	return &rest.Config{Host: "http://localhost", QPS: -1, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.replicas) == 0 {
			return nil, errors.New("no endpoint")
		}
		to := s.replicas[rand.IntN(len(s.replicas))].listener
		ours, theirs := net.Pipe()
		select {
		case to.conns <- theirs:
			return ours, nil
		case <-to.closed:
			return nil, errors.New("connection refused")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
}

// client is an informer that checks the events it receives.
type client struct {
	*informer.Informer[*corev1.Pod]
	t        *testing.T
	shard    informer.Shard
	mu       sync.Mutex // protects the fields below
	has      map[informer.Key]*corev1.Pod
	versions map[informer.Key]uint64 // the newest version of each key, also of those that are gone
	events   map[informer.Key][]string
}

func (c *chain) client(config *rest.Config, shard informer.Shard, contentType string) *client {
	c.Helper()
	config = rest.CopyConfig(config)
	config.ContentType, config.QPS = contentType, -1
	upstream, err := informer.NewClient(config)
	c.must(err)
	l := &client{t: c.T, shard: shard, has: map[informer.Key]*corev1.Pod{}, versions: map[informer.Key]uint64{}, events: map[informer.Key][]string{}}
	l.Informer = informer.New(upstream, informer.Resource{GroupVersionResource: pods, Shard: shard}, informer.Config[*corev1.Pod]{
		KeepManagedFields: true, Logger: slog.New(slog.DiscardHandler),
	})
	l.Subscribe(informer.HandlerFuncs[*corev1.Pod]{
		AddFunc:    func(pod *corev1.Pod, _ bool) { l.see("+", nil, pod) },
		UpdateFunc: func(old, pod *corev1.Pod) { l.see("~", old, pod) },
		DeleteFunc: func(pod *corev1.Pod, final bool) { l.see("-", pod, nil) },
	}, informer.SubscriptionConfig[*corev1.Pod]{Delivery: informer.DeliverEvery(0)})
	c.tasks.Go(func() { _ = l.Run(c.ctx) })
	return l
}

// see checks that the events of a key form a chain, and that no version is older than one before.
func (l *client) see(what string, old, now *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pod := now
	if pod == nil {
		pod = old
	}
	key := informer.KeyOf(pod)
	if had := l.has[key]; old != nil && had != nil && what == "~" && had.ResourceVersion != old.ResourceVersion || (old == nil) != (had == nil) {
		l.t.Errorf("%s %s: it was %v", what, key, had)
	}
	if now != nil {
		rv, err := strconv.ParseUint(now.ResourceVersion, 10, 64)
		if err != nil || rv <= l.versions[key] {
			l.t.Errorf("%s %s went back from version %d to %s", what, key, l.versions[key], now.ResourceVersion)
		}
		l.versions[key], l.has[key] = rv, now
	} else {
		delete(l.has, key)
	}
	version := ""
	if now != nil {
		version = now.ResourceVersion
	}
	l.events[key] = append(l.events[key], what+version)
}

// equal waits until everything is idle, and compares a client with the server.
func (c *chain) equal(when string, l *client) {
	c.Helper()
	var want, got []string
	for pod := range c.pods.All() {
		if l.shard.Has(pod) {
			want = append(want, pod.Namespace+"/"+pod.Name+"@"+pod.ResourceVersion+pod.Annotations["value"])
		}
	}
	for pod := range l.Store().All() {
		got = append(got, pod.Namespace+"/"+pod.Name+"@"+pod.ResourceVersion+pod.Annotations["value"])
	}
	if !slices.Equal(got, want) {
		c.Errorf("%s: a client of shard %q has\n%q, want\n%q", when, l.shard, got, want)
	}
	if restored := l.Status().Reflectors[0].Restored; restored > 0 {
		c.Errorf("%s: a client went back in time %d times", when, restored)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.has) != len(got) {
		c.Errorf("%s: the handler has %d objects, the store %d", when, len(l.has), len(got))
	}
}

var (
	lower = informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: 1<<63 - 1}}}
	upper = informer.Shard{Ranges: []informer.HashRange{{First: 1 << 63, Last: 1<<64 - 1}}}
	ofA   = informer.Shard{Field: informer.ShardByNamespace, Ranges: []informer.HashRange{{First: informer.HashOf("a"), Last: informer.HashOf("a")}}}
)

// clients returns clients of several kinds.
func (c *chain) clients(config *rest.Config) (all []*client) {
	c.Helper()
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		for _, shard := range []informer.Shard{{}, lower, upper, ofA} {
			all = append(all, c.client(config, shard, contentType))
		}
	}
	for _, l := range all {
		c.must(l.WaitSynced(c.ctx))
	}
	return all
}

// Behind two fan-outs in a row, a client receives each event that a client of the API server receives, with the same resource versions.
func TestTwoInARow(t *testing.T) {
	inChain(t, func(c *chain) {
		var near, far service
		near.set(c.replica(c.source.Config()))
		far.set(c.replica(near.config()))
		<-time.After(time.Minute) // the second one finds the first one not ready, and tries again
		direct, behind := c.clients(c.source.Config()), c.clients(far.config())
		for range 20 {
			c.change(20)
			<-time.After(5 * time.Second)
		}
		for i, l := range behind {
			c.equal("at the end", l)
			s := l.Status().Reflectors[0]
			if s.Traffic.Lists != 1 || s.Traffic.Watches != 1 || s.OutsideShard > 0 {
				c.Errorf("a client of shard %q made %d lists and %d watches, and got %d objects from outside", l.shard, s.Traffic.Lists, s.Traffic.Watches, s.OutsideShard)
			}
			direct[i].mu.Lock()
			for key, want := range direct[i].events {
				l.mu.Lock()
				if got := l.events[key]; !slices.Equal(got, want) {
					c.Errorf("%s: behind two fan-outs %v, directly %v", key, got, want)
				}
				l.mu.Unlock()
			}
			direct[i].mu.Unlock()
		}
		if n := c.pods.Watchers(); n != 1+len(direct) {
			c.Errorf("%d watches at the API server", n)
		}
	})
}

// A fan-out that is killed restarts with an empty cache. Its clients lose no event, whether they are connected to it or
// to another fan-out behind it.
func TestKilled(t *testing.T) {
	inChain(t, func(c *chain) {
		var near, far service
		a, b := c.replica(c.source.Config()), (*replica)(nil)
		near.set(a)
		b = c.replica(near.config())
		far.set(b)
		<-time.After(time.Second)
		all := append(c.clients(near.config()), c.clients(far.config())...)
		for round := range 6 {
			c.change(10)
			<-testkit.After(time.Duration(c.random.IntN(3)) * time.Second)
			c.change(1 + c.random.IntN(100)) // while events are on their way; sometimes more than the window
			if round%2 == 0 {
				near.set()
				a.kill()
				c.change(c.random.IntN(100))
				<-testkit.After(time.Duration(c.random.IntN(30)) * time.Second)
				a = c.replica(c.source.Config())
				near.set(a)
			}
			if round%3 == 0 {
				far.set()
				b.kill()
				c.change(c.random.IntN(100))
				<-testkit.After(time.Duration(c.random.IntN(30)) * time.Second)
				b = c.replica(near.config())
				far.set(b)
			}
			c.change(10)
			<-time.After(3 * time.Minute)
			for _, l := range all {
				c.equal(fmt.Sprint("round ", round), l)
			}
		}
		lists := 0
		for _, l := range all {
			lists += l.Status().Reflectors[0].Traffic.ListsBy[status.ReasonExpired]
		}
		if lists == 0 {
			c.Error("no client received 410 Expired: the test tests nothing")
		}
	})
}

// lagging is a way to a server whose open connections can be made to hang.
type lagging struct {
	config *rest.Config
	mu     sync.Mutex // protects the fields below
	open   []*laggingConn
}

type laggingConn struct {
	net.Conn
	mu      sync.Mutex
	release chan struct{} // nil while data passes
}

func (c *laggingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	release := c.release
	c.mu.Unlock()
	if release != nil {
		<-release
	}
	return n, err
}

func (l *lagging) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := l.config.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, &laggingConn{Conn: conn})
	return l.open[len(l.open)-1], nil
}

// stop makes all open connections hang until the returned function is called.
func (l *lagging) stop() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := make(chan struct{})
	for _, conn := range l.open {
		conn.mu.Lock()
		conn.release = until
		conn.mu.Unlock()
	}
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, conn := range l.open {
			conn.mu.Lock()
			if conn.release == until {
				conn.release = nil
			}
			conn.mu.Unlock()
		}
		close(until)
	})
}

// Behind a Service, a client that moves to a replica with an older state waits, and does not go back in time, whether
// it watches or must list.
func TestReplicasAtDifferentProgress(t *testing.T) {
	inChain(t, func(c *chain) {
		slow := &lagging{config: c.source.Config()}
		config := rest.CopyConfig(slow.config)
		config.Dial = slow.dial
		var both, onlyAhead service
		ahead, behind := c.replica(c.source.Config()), c.replica(config)
		behind.server.SetKeepAlivesEnabled(false)
		both.set(ahead)
		onlyAhead.set(ahead)
		<-time.After(time.Second)
		all := c.clients(both.config())
		for round := range 6 {
			release := slow.stop()
			c.change(100) // behind does not have these; the window is 64
			<-time.After(time.Minute)
			for _, l := range all {
				c.equal("ahead", l)
			}
			if was, now := behind.proxy.collections[0].rv(), ahead.proxy.collections[0].rv(); was == now {
				c.Fatalf("both replicas are at %s", now)
			}
			ahead.kill() // all clients move to the other replica
			both.set(behind)
			c.change(5)
			<-time.After(time.Minute)
			ahead = c.replica(c.source.Config())     // it has no history: a client that returns must list
			ahead.server.SetKeepAlivesEnabled(false) // each request may go to the other replica
			both.set(behind, ahead)
			for range 10 {
				behind.proxy.collections[0].endWatches()
				<-time.After(10 * time.Second)
			}
			<-testkit.After(time.Duration(c.random.IntN(60)) * time.Second)
			behind.proxy.collections[0].endWatches() // move again
			<-testkit.After(time.Duration(c.random.IntN(60)) * time.Second)
			release()
			<-time.After(5 * time.Minute)
			for _, l := range all {
				c.equal(fmt.Sprint("round ", round), l)
			}
			both.set(ahead)
			behind.proxy.collections[0].endWatches()
			behind.server.Close()
			behind.kill()
			slow.open = nil
			behind = c.replica(config)
			behind.server.SetKeepAlivesEnabled(false)
			<-time.After(3 * time.Minute)
		}
	})
}

// A read without a resource version sees every earlier write, even while the watch of the fan-out is slow or nothing
// changes.
func TestReadsAreFresh(t *testing.T) {
	inChain(t, func(c *chain) {
		services := informertest.Register[*corev1.Service](c.source, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("services")})
		var near, far service
		near.set(c.replica(c.source.Config()))
		far.set(c.replica(near.config()))
		<-time.After(time.Minute) // the second one finds the first one not ready, and tries again
		upstream, err := informer.NewClient(far.config())
		c.must(err)
		reads := informer.NewTypedClient[*corev1.Pod](upstream, pods)
		for i := range 10 {
			if i%2 == 0 {
				c.change(1)
			}
			_, err := services.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("s", i)}})
			c.must(err) // moves the version of the server, not that of the pods
			began := time.Now()
			list, meta, err := reads.List(c.ctx, "", metav1.ListOptions{})
			c.must(err)
			if len(list) != c.pods.Len() || versionOf(c.T, meta.ResourceVersion) < versionOf(c.T, c.source.ResourceVersion()) {
				c.Errorf("%d pods at %s, want %d at %s", len(list), meta.ResourceVersion, c.pods.Len(), c.source.ResourceVersion())
			}
			for pod := range c.pods.All() {
				got, err := reads.Get(c.ctx, informer.KeyOf(pod), metav1.GetOptions{})
				c.must(err)
				if got.ResourceVersion != pod.ResourceVersion {
					c.Errorf("%s at %s, want %s", informer.KeyOf(pod), got.ResourceVersion, pod.ResourceVersion)
				}
			}
			c.Logf("after %v", time.Since(began))
		}
	})
}

func versionOf(t *testing.T, version string) uint64 {
	t.Helper()
	rv, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return rv
}

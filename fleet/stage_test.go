package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/leak"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

func TestMain(m *testing.M) { leak.Main(m) }

// secret is in every token of the tests, and must be in no error, log or status.
const secret = "s3cr3t"

// host is the server of a cluster. Its address is http://, followed by its name.
type host struct {
	server *informertest.Server
	pods   *informertest.Collection[*corev1.Pod]

	mu     sync.Mutex
	token  string   // that it accepts; empty for any
	tokens []string // of watches, in order
}

// stage is a fleet of pods, the servers of its clusters, and what its handler has received.
type stage struct {
	*testing.T
	servers map[string]*host
	fleet   *Fleet[*corev1.Pod]
	log     *testkit.Log
	stop    func()

	mu     sync.Mutex
	events []string
}

// onStage runs test in a bubble, with a server for each name.
func onStage(t *testing.T, names []string, test func(s *stage)) {
	t.Helper()
	testkit.Bubble(t, func(t *testing.T) {
		s := &stage{T: t, servers: map[string]*host{}, log: &testkit.Log{}, stop: func() {}}
		for _, name := range names {
			s.serve(name)
		}
		test(s)
		s.stop()
		if text := s.log.String(); strings.Contains(text, secret) {
			t.Errorf("the log has a credential: %s", text)
		}
	})
}

// serve starts a server.
func (s *stage) serve(name string) {
	h := &host{}
	h.server = informertest.NewServer(informertest.Options{InMemory: true, Middleware: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			h.mu.Lock()
			refused := h.token != "" && token != h.token
			if r.URL.Query().Get("watch") != "" {
				h.tokens = append(h.tokens, token)
			}
			h.mu.Unlock()
			if refused {
				http.Error(w, "unauthorized", http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	}})
	s.Cleanup(h.server.Close)
	h.pods = informertest.Register[*corev1.Pod](h.server, informertest.Resource{GroupVersionResource: world.PodGVR})
	s.servers[name] = h
}

// accept makes a server accept only that token.
func (s *stage) accept(name, token string) {
	h := s.servers[name]
	h.mu.Lock()
	defer h.mu.Unlock()
	h.token = token
}

// dial connects to a server by its name.
func (s *stage) dial(ctx context.Context, network, address string) (net.Conn, error) {
	name, _, _ := strings.Cut(address, ":")
	h, ok := s.servers[name]
	if !ok {
		return nil, fmt.Errorf("no host %s", name)
	}
	return h.server.Config().Dial(ctx, network, address)
}

// reachable makes a client reach the servers, which do not speak TLS. client-go takes credentials of a kubeconfig only
// for an address with https.
func (s *stage) reachable(_ string, config *rest.Config) {
	config.Host = strings.Replace(config.Host, "https://", "http://", 1)
	config.Dial = s.dial
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
}

// hub returns a client of a server.
func (s *stage) hub(name string) *informer.Client {
	client, err := informer.NewClient(s.servers[name].server.Config())
	s.must(err)
	return client
}

// run runs a fleet of source.
func (s *stage) run(source Source, change ...func(*Config[*corev1.Pod])) {
	s.Helper()
	config := Config[*corev1.Pod]{
		Clusters: source,
		Resource: informer.Resource{GroupVersionResource: world.PodGVR},
		Client:   s.reachable,
		Logger:   s.log.Logger(),
	}
	for _, c := range change {
		c(&config)
	}
	fleet, err := New(config)
	s.must(err)
	s.fleet = fleet
	fleet.Subscribe(HandlerFuncs[*corev1.Pod]{
		AddFunc: func(cluster string, p *corev1.Pod, initial bool) { s.add("%s: add %s %v", cluster, p.Name, initial) },
		UpdateFunc: func(cluster string, _, p *corev1.Pod) {
			s.add("%s: update %s %s", cluster, p.Name, p.Labels["v"])
		},
		DeleteFunc: func(cluster string, p *corev1.Pod, final bool) { s.add("%s: delete %s %v", cluster, p.Name, final) },
	}, SubscriptionConfig{})
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- fleet.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			s.Errorf("Run: %v", err)
		}
	})
}

func (s *stage) add(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, fmt.Sprintf(format, args...))
}

// want checks what the handler has received since the last call, in any order.
func (s *stage) want(want ...string) {
	s.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.events)
	slices.Sort(want)
	if !slices.Equal(s.events, want) {
		s.Errorf("the handler received %q, want %q", s.events, want)
	}
	s.events = nil
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// create creates a pod of a cluster.
func (s *stage) create(cluster, name string) {
	s.Helper()
	_, err := s.servers[cluster].pods.Create(world.NewPod("ns", name))
	s.must(err)
}

// wantErr checks that err has all texts, and no credential.
func (s *stage) wantErr(err error, texts ...string) {
	s.Helper()
	if err == nil {
		s.Errorf("no error, want one with %q", texts)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			s.Errorf("the error %q does not have %q", err, text)
		}
	}
	if strings.Contains(err.Error(), secret) {
		s.Errorf("the error has a credential: %v", err)
	}
}

// configErr returns why the configuration of a cluster is unusable.
func (s *stage) configErr(name string) error {
	synctest.Wait()
	for _, c := range s.fleet.Status().Clusters {
		if c.Name == name {
			return c.ConfigErr
		}
	}
	s.Helper()
	s.Errorf("the fleet does not have %s", name)
	return nil
}

// names returns the names of the clusters.
func (s *stage) names() (names []string) {
	synctest.Wait()
	for _, c := range s.fleet.Status().Clusters {
		names = append(names, c.Name)
	}
	return names
}

// lists returns how often a server was asked for all pods.
func (s *stage) lists(name string) (n int) {
	for _, r := range s.servers[name].server.Requests() {
		if r.Verb == "list" || r.Verb == "watch" && r.Query.Get("sendInitialEvents") == "true" {
			n++
		}
	}
	return n
}

// kubeconfig returns a kubeconfig for a server.
func kubeconfig(server, user string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: main
contexts: [{name: main, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://%s"}}]
users: [{name: u, user: %s}]
`, server, user)
}

func withToken(n int) string { return fmt.Sprintf("{token: %s-%d}", secret, n) }

func restConfig(server string, n int) *rest.Config {
	return &rest.Config{Host: "http://" + server, BearerToken: fmt.Sprintf("%s-%d", secret, n)}
}

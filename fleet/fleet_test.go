package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
)

// Clusters come and go while the fleet runs. One that goes gives its deletions, or nothing.
// Guarantees: N1
func TestClustersComeAndGo(t *testing.T) {
	for _, how := range []Removal{Deliver, Silent} {
		onStage(t, []string{"a", "b"}, func(s *stage) {
			s.create("a", "x")
			s.create("b", "y")
			clusters := NewMap(map[string]*rest.Config{"a": restConfig("a", 1)})
			s.run(clusters, func(c *Config[*corev1.Pod]) { c.Removed = how })
			s.must(s.fleet.WaitSynced(s.Context()))
			s.want("a: add x true")
			clusters.Set("b", restConfig("b", 1))
			s.want("b: add y true")
			clusters.Delete("a")
			if how == Deliver {
				s.want("a: delete x false")
			} else {
				s.want()
			}
			if _, err := s.fleet.Store("a"); !errors.Is(err, ErrNotMember) {
				s.Errorf("Store: %v", err)
			}
			if _, err := s.fleet.Client("a"); !errors.Is(err, ErrNotMember) {
				s.Errorf("Client: %v", err)
			}
			if names := s.names(); !slices.Equal(names, []string{"b"}) {
				s.Errorf("clusters %q", names)
			}
			if text := s.log.String(); strings.Contains(text, "WARN") || strings.Contains(text, "ERROR") {
				s.Errorf("log: %s", text)
			}
		})
	}
}

// An index, a snapshot and a queue have the objects of all clusters.
// Guarantees: N5
func TestAllClustersAtOnce(t *testing.T) {
	onStage(t, []string{"a", "b"}, func(s *stage) {
		s.create("a", "x")
		s.create("b", "x")
		s.create("b", "y")
		s.run(NewMap(map[string]*rest.Config{"a": restConfig("a", 1), "b": restConfig("b", 1)}))
		byName := NewIndex(s.fleet, func(_ string, p *corev1.Pod) []string { return []string{p.Name} })
		keys := make(chan Key, 10)
		controller := &informer.Controller[Key]{Reconcile: func(_ context.Context, key Key) (informer.Result, error) {
			keys <- key
			return informer.Result{}, nil
		}}
		controller.Watch(EnqueueObject(s.fleet))
		defer world.Run(world.World{T: s.T}.WithContext(s.Context()), controller)()
		s.must(s.fleet.WaitSynced(s.Context(), "a", "b"))
		synctest.Wait()
		var found []string
		for cluster, pod := range byName.Lookup("x") {
			found = append(found, cluster+"/"+pod.Name)
		}
		if !slices.Equal(found, []string{"a/x", "b/x"}) {
			s.Errorf("the index has %q", found)
		}
		if n := s.fleet.Snapshot().Len(); n != 3 {
			s.Errorf("the snapshot has %d objects", n)
		}
		close(keys)
		var reconciled []string
		for key := range keys {
			reconciled = append(reconciled, key.String())
		}
		slices.Sort(reconciled)
		if !slices.Equal(reconciled, []string{"a/ns/x", "b/ns/x", "b/ns/y"}) {
			s.Errorf("reconciled %q", reconciled)
		}
		store, err := s.fleet.Store("b")
		s.must(err)
		if store.Len() != 2 {
			s.Errorf("%d pods in b", store.Len())
		}
	})
}

// When the credentials of a cluster and then its address change, nothing is listed, and handlers receive only what has
// changed.
// Guarantees: N7
func TestChangeOfCredentialsAndAddress(t *testing.T) {
	onStage(t, []string{"a"}, func(s *stage) {
		s.create("a", "x")
		s.accept("a", secret+"-1")
		clusters := NewMap(map[string]*rest.Config{"a": restConfig("a", 1)})
		s.run(clusters)
		s.must(s.fleet.WaitSynced(s.Context()))
		s.want("a: add x true")
		lists := s.lists("a")
		s.accept("a", secret+"-2")
		clusters.Set("a", restConfig("a", 2))
		s.create("a", "y")
		s.want("a: add y false")
		h := s.servers["a"]
		s.servers["moved"] = h
		clusters.Set("a", restConfig("moved", 2))
		synctest.Wait()
		s.create("a", "z")
		s.want("a: add z false")
		if n := s.lists("a"); n != lists {
			s.Errorf("%d lists before, %d after", lists, n)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if last := h.tokens[len(h.tokens)-1]; last != secret+"-2" {
			s.Errorf("the last watch has the old token")
		}
	})
}

// A report with the same configuration ends no watch.
// Guarantees: N7
func TestUnchangedConfigurationEndsNoWatch(t *testing.T) {
	onStage(t, []string{"a", "b"}, func(s *stage) {
		clusters := NewMap(map[string]*rest.Config{"a": restConfig("a", 1)})
		s.run(clusters)
		s.must(s.fleet.WaitSynced(s.Context()))
		synctest.Wait()
		requests := len(s.servers["a"].server.Requests())
		clusters.Set("b", restConfig("b", 1))
		synctest.Wait()
		if n := len(s.servers["a"].server.Requests()); n != requests {
			s.Errorf("%d requests before, %d after", requests, n)
		}
	})
}

// A cluster that hangs delays no other, and is named.
// Guarantees: N2
func TestHungClusterDelaysNoOther(t *testing.T) {
	onStage(t, []string{"a", "hung", "z"}, func(s *stage) {
		s.servers["hung"].server.Inject(informertest.Fault{Hang: true})
		s.create("a", "x")
		s.create("z", "x")
		s.run(NewMap(map[string]*rest.Config{"a": restConfig("a", 1), "hung": restConfig("hung", 1), "z": restConfig("z", 1)}))
		begun := time.Now()
		s.must(s.fleet.WaitSynced(s.Context(), "a", "z"))
		if took := time.Since(begun); took > time.Second {
			s.Errorf("the others took %v", took)
		}
		s.want("a: add x true", "z: add x true")
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		err := s.fleet.WaitSynced(ctx)
		s.wantErr(err, "hung")
		if !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("WaitSynced: %v", err)
		}
	})
}

// A cluster that returns after a day delivers what has changed, and nothing else.
// Guarantees: N7
func TestReturnAfterADay(t *testing.T) {
	onStage(t, []string{"a", "b"}, func(s *stage) {
		for i := range 3 {
			s.create("a", fmt.Sprint("x", i))
		}
		s.run(NewMap(map[string]*rest.Config{"a": restConfig("a", 1), "b": restConfig("b", 1)}))
		s.must(s.fleet.WaitSynced(s.Context()))
		s.want("a: add x0 true", "a: add x1 true", "a: add x2 true")
		h := s.servers["a"]
		h.server.Stop()
		_, err := h.pods.Delete(informer.Key{Namespace: "ns", Name: "x0"})
		s.must(err)
		time.Sleep(24 * time.Hour)
		s.create("b", "y")
		s.want("b: add y false")
		h.server.Compact() // its watch cannot resume
		h.server.Start()
		time.Sleep(time.Hour)
		s.want("a: delete x0 false")
	})
}

// Objects of several clusters share equal parts.
func TestClustersShareParts(t *testing.T) {
	onStage(t, []string{"a", "b"}, func(s *stage) {
		s.create("a", "x")
		clusters := NewMap(map[string]*rest.Config{"a": restConfig("a", 1)})
		s.run(clusters)
		s.must(s.fleet.WaitSynced(s.Context()))
		s.create("b", "x")
		clusters.Set("b", restConfig("b", 1))
		synctest.Wait()
		var first []*corev1.Container
		for _, pod := range s.fleet.Snapshot().All() {
			first = append(first, &pod.Spec.Containers[0])
		}
		if len(first) != 2 || first[0] != first[1] {
			s.Errorf("%d pods have their own containers", len(first))
		}
	})
}

// WaitSynced and Status name a cluster without a usable configuration, and the others go on. A good configuration starts
// it. A bad one after that changes nothing but its error.
// Guarantees: N2
func TestUnusableConfiguration(t *testing.T) {
	onStage(t, []string{"a", "b"}, func(s *stage) {
		s.create("a", "x")
		s.create("b", "x")
		bad := func() *rest.Config {
			c := restConfig("b", 1)
			c.TLSClientConfig.CAData = []byte(secret)
			return c
		}
		clusters := NewMap(map[string]*rest.Config{"a": restConfig("a", 1), "b": bad()})
		s.run(clusters)
		s.wantErr(s.fleet.WaitSynced(s.Context()), "b: ")
		s.wantErr(s.fleet.WaitSynced(s.Context(), "b"), "b: ")
		_, err := s.fleet.Store("b")
		s.wantErr(err, "b: ")
		s.wantErr(s.configErr("b"), "")
		s.want("a: add x true")
		clusters.Set("b", restConfig("b", 1))
		s.want("b: add x true")
		s.must(s.configErr("b"))
		clusters.Set("b", bad())
		s.wantErr(s.configErr("b"), "")
		s.create("b", "y")
		s.want("b: add y false")
		s.must(s.fleet.WaitSynced(s.Context()))
	})
}

// sourceFunc is a Source.
type sourceFunc func(ctx context.Context, report func(map[string]Cluster, error)) error

func (f sourceFunc) Run(ctx context.Context, report func(map[string]Cluster, error)) error {
	return f(ctx, report)
}

// While the source does not know the clusters, the fleet keeps those that it has, and says so. If the source ends, so
// does the fleet.
func TestSourceThatFails(t *testing.T) {
	onStage(t, []string{"a"}, func(s *stage) {
		s.create("a", "x")
		steps, failure := make(chan bool), errors.New("the hub is away")
		s.run(sourceFunc(func(ctx context.Context, report func(map[string]Cluster, error)) error {
			report(nil, failure)
			<-steps
			report(map[string]Cluster{"a": {Config: restConfig("a", 1)}}, nil)
			<-steps
			report(nil, failure)
			<-ctx.Done()
			return context.Cause(ctx)
		}))
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		if err := s.fleet.WaitSynced(ctx); !errors.Is(err, failure) || !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("WaitSynced: %v", err)
		}
		steps <- true
		s.must(s.fleet.WaitSynced(s.Context()))
		s.want("a: add x true")
		steps <- true
		synctest.Wait()
		if err := s.fleet.Status().Err; !errors.Is(err, failure) {
			s.Errorf("Status: %v", err)
		}
		s.create("a", "y")
		s.want("a: add y false")
		s.stop()

		fleet, err := New(Config[*corev1.Pod]{Clusters: Folder(FolderConfig{}), Resource: s.fleet.config.Resource})
		s.must(err)
		s.wantErr(fleet.Run(s.Context()), "FolderConfig.Dir")
	})
}

// New names the field that is wrong.
func TestNewNamesTheWrongField(t *testing.T) {
	good := Config[*corev1.Pod]{Clusters: NewMap(nil), Resource: informer.Resource{GroupVersionResource: world.PodGVR}}
	for field, change := range map[string]func(c *Config[*corev1.Pod]){
		"Clusters": func(c *Config[*corev1.Pod]) { c.Clusters = nil },
		"Resource": func(c *Config[*corev1.Pod]) { c.Resource = informer.Resource{} },
		"Removed":  func(c *Config[*corev1.Pod]) { c.Removed = 7 },
	} {
		config := good
		change(&config)
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), "Config."+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

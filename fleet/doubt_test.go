package fleet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
)

// An address without a scheme is refused if it has a user, as one with a scheme is. No error has the password.
// Guarantees: N7
func TestUserInAnAddressWithoutASchemeIsRefused(t *testing.T) {
	for _, server := range []string{"admin:100%sure" + secret + "@10.0.0.1", "admin:" + secret + "@10.0.0.1:6443"} {
		config, err := trust{}.kubeconfig([]byte(strings.Replace(kubeconfig(server, "{}"), "https://", "", 1)))
		if config != nil || err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: config %t, error %v", strings.ReplaceAll(server, secret, "…"), config != nil, err)
		}
	}
}

// WaitSynced returns when Run has returned before the clusters were known, with its error. A fleet runs once.
// Guarantees: N2
func TestWaitSyncedEndsWithRun(t *testing.T) {
	onStage(t, []string{"a"}, func(s *stage) {
		fleet, err := New(Config[*corev1.Pod]{Clusters: Folder(FolderConfig{}), Resource: informer.Resource{GroupVersionResource: world.PodGVR}})
		s.must(err)
		why := fleet.Run(s.Context())
		if err := fleet.WaitSynced(s.Context()); why == nil || !errors.Is(err, why) {
			s.Errorf("WaitSynced: %v, want %v", err, why)
		}
		if err := fleet.Run(s.Context()); !errors.Is(err, informer.ErrRunning) {
			s.Errorf("a second Run: %v", err)
		}
	})
}

// lateSource is a Source that knows its cluster when known is closed.
type lateSource struct{ known chan struct{} }

func (l lateSource) Run(ctx context.Context, report func(map[string]Cluster, error)) error {
	<-l.known
	report(map[string]Cluster{"a": {Config: restConfig("a", 1)}}, nil)
	<-ctx.Done()
	return context.Cause(ctx)
}

// Before the clusters are known, no handler is synced, and no controller starts.
// Guarantees: N2
func TestNothingIsSyncedBeforeTheClustersAreKnown(t *testing.T) {
	onStage(t, []string{"a"}, func(s *stage) {
		s.create("a", "x")
		known := make(chan struct{})
		s.run(lateSource{known})
		sub := s.fleet.Subscribe(HandlerFuncs[*corev1.Pod]{}, SubscriptionConfig{})
		controller := &informer.Controller[Key]{Reconcile: func(context.Context, Key) (informer.Result, error) {
			return informer.Result{}, nil
		}}
		controller.Watch(EnqueueObject(s.fleet))
		stop := world.Run(world.World{T: s.T}.WithContext(s.Context()), controller)
		defer stop()
		synced := make(chan error, 1)
		go func() { synced <- controller.WaitSynced(s.Context()) }()
		synctest.Wait()
		if sub.HasSynced() || len(synced) > 0 {
			s.Errorf("before the clusters are known: handler %t, controller %t", sub.HasSynced(), len(synced) > 0)
		}
		close(known)
		s.must(<-synced)
		s.must(sub.WaitSynced(s.Context()))
	})
}

// A function for an access provider that fails is called again, and also if the profile's annotations change.
// Guarantees: N7
func TestAccessIsTriedAgain(t *testing.T) {
	onStage(t, []string{"hub", "a"}, func(s *stage) {
		s.create("a", "x")
		profiles := informertest.Register[*clusterProfile](s.servers["hub"].server, informertest.Resource{GroupVersionResource: schema.
			GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}})
		p := &clusterProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "a"}}
		access := accessProvider{Name: "tokens"}
		access.Cluster.Server = "http://a"
		p.Status.AccessProviders = []accessProvider{access}
		_, err := profiles.Create(p)
		s.must(err)
		calls := 0
		s.run(Profiles(s.hub("hub"), ProfilesConfig{Logger: s.log.Logger(), Access: map[string]func(metav1.ObjectMeta, *rest.Config) error{
			"tokens": func(metav1.ObjectMeta, *rest.Config) error {
				if calls++; calls == 1 {
					return errors.New("the token service is away")
				}
				return nil
			},
		}}))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if err := s.configErr("a"); err != nil || calls != 2 {
			s.Errorf("after two minutes: %v, %d calls", err, calls)
		}
		changed := *p
		changed.Annotations = map[string]string{"role": "other"}
		_, err = profiles.Update(&changed)
		s.must(err)
		synctest.Wait()
		if calls != 3 {
			s.Errorf("after a change of the annotations: %d calls, want 3", calls)
		}
	})
}

// A kubeconfig that names a file which comes later is read again.
// Guarantees: N7
func TestFileOfAKubeconfigMayComeLater(t *testing.T) {
	onStage(t, []string{"a"}, func(s *stage) {
		s.create("a", "x")
		dir := s.TempDir()
		s.must(os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(kubeconfig("a", "{tokenFile: sub/token}")), 0o600))
		s.must(os.Mkdir(filepath.Join(dir, "sub"), 0o700))
		s.run(Folder(FolderConfig{Dir: dir}))
		time.Sleep(time.Minute)
		if s.configErr("a") == nil {
			s.Error("there is no error without the file")
		}
		s.must(os.WriteFile(filepath.Join(dir, "sub", "token"), []byte("t"), 0o600))
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := s.configErr("a"); err != nil {
			s.Errorf("a minute after the file came: %v", err)
		}
	})
}

// When one of two files of a name goes, the other one is used, whatever is in them.
// Guarantees: N7
func TestSecondFileOfANameGoes(t *testing.T) {
	dir := t.TempDir()
	f := folder{Dir: dir}
	write := func(name string, n int) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(kubeconfig("a", withToken(n))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.yaml", 1)
	for i := range 200 {
		write("a.conf", i)
		known, _, _ := f.look(nil)
		if err := os.Remove(filepath.Join(dir, "a.conf")); err != nil {
			t.Fatal(err)
		}
		if after, changed, _ := f.look(known); after["a"].cluster.Err != nil || !changed {
			t.Fatalf("file %d: changed=%t: %v", i, changed, after["a"].cluster.Err)
		}
	}
}

// A map takes clusters without a configuration, which are errors, and does not keep those of its caller.
// Guarantees: N7
func TestMapKeepsNothingOfItsCaller(t *testing.T) {
	config := &rest.Config{Host: "https://a"}
	m := NewMap(map[string]*rest.Config{"a": config, "nil": nil})
	m.Set("b", nil)
	clusters, _ := m.present()
	if clusters["a"].Config == config || clusters["a"].Config.Host != "https://a" || clusters["b"].Config != nil || len(clusters) != 3 {
		t.Errorf("the map has %v", clusters)
	}
}

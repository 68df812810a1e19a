package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

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

// Files that editors leave behind are no clusters.
// Guarantees: N7
func TestFolderIgnoresLeftovers(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.yaml", "b", "c.eu-west", "a.yaml~", "a.yaml.bak", "a.orig", ".a.yaml.swp", "a.yaml.swp", "a.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(kubeconfig("a", withToken(1))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	known, _, err := folder{Dir: dir}.look(nil)
	if names := slices.Sorted(maps.Keys(known)); err != nil || !slices.Equal(names, []string{"a", "b", "c.eu-west"}) {
		t.Errorf("clusters %q, %v", names, err)
	}
}

// A folder reads the certificates and keys that kubeconfigs name, and sees that they change. Its clients have no names of
// certificates: they would read them again for ever, each in a goroutine.
// Guarantees: N7
func TestFolderReadsCertificates(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := folder{Dir: dir}
	write("a.yaml", []byte(kubeconfig("a", "{client-certificate: sub/cert, client-key: sub/key}")))
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	known, _, err := f.look(nil)
	if err != nil || known["a"].cluster.Err == nil {
		t.Fatalf("without the files: %v, %v", err, known["a"].cluster.Err)
	}
	for _, host := range []string{"one", "two"} {
		certificate, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		write("sub/cert", certificate)
		write("sub/key", key)
		now, changed, err := f.look(known)
		if err != nil || !changed || now["a"].cluster.Err != nil {
			t.Fatalf("%s: changed=%t, %v, %v", host, changed, err, now["a"].cluster.Err)
		}
		c := now["a"].cluster.Config
		if c.CertFile != "" || c.KeyFile != "" || !bytes.Equal(c.CertData, certificate) || !bytes.Equal(c.KeyData, key) {
			t.Errorf("%s: the client has the files %q and %q", host, c.CertFile, c.KeyFile)
		}
		again, changed, err := f.look(now)
		if err != nil || changed || again["a"].cluster.Config != c {
			t.Errorf("%s: the next look has a change, or another configuration: %t, %v", host, changed, err)
		}
		known = now
	}
}

// The name that a Secret of Argo CD gives to its cluster has a limit.
// Guarantees: N7
func TestNameOfAClusterIsLimited(t *testing.T) {
	read := func(name string) found {
		return SecretsConfig{Key: "kubeconfig"}.read(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{
			"name": []byte(name), "server": []byte("https://a"), "config": []byte("{}"),
		}})
	}
	if f := read(strings.Repeat("n", maxName)); len(f.name) != maxName {
		t.Errorf("the name is %q", f.name)
	} else if _, err := f.config(); err != nil {
		t.Error(err)
	}
	f := read(strings.Repeat("n", maxName+1))
	if _, err := f.config(); f.name != "s" || err == nil || !strings.Contains(err.Error(), "at most 253") {
		t.Errorf("the name is %q, the error %v", f.name, err)
	}
	if f := read("a\xff"); f.name != "a\uFFFD" {
		t.Errorf("the name is %q", f.name)
	}
}

// A hub that goes away after the first list is an error of the fleet, once, until it is back.
// Guarantees: N7
func TestHubGoesAwayLater(t *testing.T) {
	onStage(t, []string{"hub", "a"}, func(s *stage) {
		s.create("a", "x")
		hub := s.servers["hub"].server
		secrets := informertest.Register[*corev1.Secret](hub, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets")})
		_, err := secrets.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "c", Name: "a"},
			Data: map[string][]byte{"kubeconfig": []byte(kubeconfig("a", withToken(1)))}})
		s.must(err)
		s.run(Secrets(s.hub("hub"), SecretsConfig{LabelSelector: "x!=y", Logger: s.log.Logger()}))
		s.must(s.fleet.WaitSynced(s.Context()))
		s.want("a: add x true")
		time.Sleep(10 * time.Minute)
		s.must(s.fleet.Status().Err)
		hub.Stop()
		time.Sleep(time.Hour)
		s.wantErr(s.fleet.Status().Err, "not followed since")
		if n := strings.Count(s.log.String(), "are not known"); n != 1 {
			s.Errorf("%d lines for one state: %s", n, s.log.String())
		}
		if names := s.names(); !slices.Equal(names, []string{"a"}) {
			s.Errorf("clusters %q", names)
		}
		hub.Start()
		time.Sleep(3 * time.Minute)
		s.must(s.fleet.Status().Err)
	})
}

// A Secret that is deleted and created again is a change of its cluster, for which no handler is called.
// Guarantees: N7
func TestSecretIsRenewedByADeletion(t *testing.T) {
	onStage(t, []string{"hub", "a"}, func(s *stage) {
		s.create("a", "x")
		s.accept("a", secret+"-1")
		secrets := informertest.Register[*corev1.Secret](s.servers["hub"].server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets")})
		put := func(token int) {
			_, err := secrets.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "c", Name: "a"},
				Data: map[string][]byte{"kubeconfig": []byte(kubeconfig("a", withToken(token)))}})
			s.must(err)
		}
		put(1)
		s.run(Secrets(s.hub("hub"), SecretsConfig{LabelSelector: "x!=y", Logger: s.log.Logger()}))
		s.must(s.fleet.WaitSynced(s.Context()))
		s.want("a: add x true")
		for token := 2; token < 5; token++ {
			_, err := secrets.Delete(informer.Key{Namespace: "c", Name: "a"})
			s.must(err)
			time.Sleep(3 * time.Second)
			s.accept("a", fmt.Sprint(secret, "-", token))
			put(token)
			time.Sleep(time.Minute)
		}
		s.want()
		s.create("a", "y")
		s.want("a: add y false")
		s.must(s.configErr("a"))
	})
}

// A configuration that could not be made is tried again each minute, also while the hub is lost.
// Guarantees: N7
func TestBrokenConfigurationIsTriedWhileTheHubIsLost(t *testing.T) {
	o := &objects[*corev1.Secret]{what: "Secrets"}
	works := false
	o.read = func(obj *corev1.Secret) found {
		return found{name: obj.Name, config: func() (*rest.Config, error) {
			if !works {
				return nil, errors.New("not yet")
			}
			return &rest.Config{Host: "https://a"}, nil
		}}
	}
	store, w := informer.NewStore[*corev1.Secret]()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	if err := w.Apply(informer.Delta[*corev1.Secret]{Type: informer.Upserted, Key: informer.KeyOf(secret), Object: secret}); err != nil {
		t.Fatal(err)
	}
	broken, _ := o.present(store, nil)
	again, _ := o.present(store, broken)
	if !broken["a"].isBroken() || !sameUse(broken, again) {
		t.Errorf("%v, then %v", broken["a"].cluster.Err, again["a"].cluster.Err)
	}
	works = true
	if now, _ := o.present(store, again); now["a"].isBroken() || sameUse(again, now) {
		t.Errorf("the configuration is still broken: %v", now["a"].cluster.Err)
	}
}

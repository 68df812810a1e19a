package fleet

import (
	"fmt"
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

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// Files of a folder come, change and go. A file that breaks is an error of its cluster, which goes on as it was.
// Guarantees: N7
func TestFolder(t *testing.T) {
	onStage(t, []string{"a", "b"}, func(s *stage) {
		s.create("a", "x")
		s.create("b", "y")
		dir := s.TempDir()
		write := func(name, content string) {
			s.must(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
			time.Sleep(11 * time.Second) // the folder looks
		}
		write("token", secret+"-9")
		s.must(os.Mkdir(filepath.Join(dir, "subfolder"), 0o700))
		s.must(os.WriteFile(filepath.Join(dir, ".hidden"), []byte("x"), 0o600))
		s.must(os.Rename(filepath.Join(dir, "token"), filepath.Join(dir, "subfolder", "token")))
		s.run(Folder(FolderConfig{Dir: dir}))
		s.must(s.fleet.WaitSynced(s.Context()))
		write("a.yaml", kubeconfig("a", withToken(1)))
		s.want("a: add x true")
		write("b", kubeconfig("b", "{tokenFile: subfolder/token}"))
		s.want("b: add y true")
		if names := s.names(); !slices.Equal(names, []string{"a", "b"}) {
			s.Errorf("clusters %q", names)
		}
		requests := len(s.servers["a"].server.Requests())
		for what, content := range map[string]string{
			"valid kubeconfig":  "{" + secret,
			"current-context":   "{}",
			"exec plugin":       kubeconfig("a", "{exec: {apiVersion: client.authentication.k8s.io/v1, command: "+secret+"}}"),
			"auth-provider":     kubeconfig("a", "{auth-provider: {name: "+secret+"}}"),
			"contains a user":   kubeconfig("me:"+secret+"@a", "{}"),
			"cannot be read":    kubeconfig("a", "{tokenFile: /"+secret+", client-certificate: "+secret+"}"),
			"at most 1048576":   strings.Repeat(" ", maxKubeconfig+1),
			"among its users":   strings.Replace(kubeconfig("a", "{}"), "name: u,", "name: other,", 1),
			"among its cluster": strings.Replace(kubeconfig("a", "{}"), "name: c,", "name: other,", 1),
		} {
			write("a.yaml", content)
			s.wantErr(s.configErr("a"), what)
		}
		write("a.conf", kubeconfig("a", withToken(1)))
		s.wantErr(s.configErr("a"), "several files")
		s.must(os.Remove(filepath.Join(dir, "a.yaml")))
		time.Sleep(11 * time.Second)
		s.must(s.configErr("a"))
		if n := len(s.servers["a"].server.Requests()); n > requests+1 {
			s.Errorf("%d requests before, %d after: only the watch must resume, once", requests, n)
		}
		s.must(os.Remove(filepath.Join(dir, "b")))
		time.Sleep(11 * time.Second)
		s.want("b: delete y false")

		s.must(os.Rename(dir, dir+"-away"))
		time.Sleep(time.Hour)
		s.wantErr(s.fleet.Status().Err, "folder of clusters")
		s.create("a", "z")
		s.want("a: add z false")
		if n := strings.Count(s.log.String(), "are not known"); n != 1 {
			s.Errorf("%d lines for one state", n)
		}
		s.must(os.Rename(dir+"-away", dir))
		time.Sleep(11 * time.Second)
		s.must(s.fleet.Status().Err)
	})
}

// A Secret of a hub is a cluster, as multicluster-runtime and as Argo CD have it. It cannot make the process run a program
// or send a file.
// Guarantees: N7
func TestSecrets(t *testing.T) {
	onStage(t, []string{"hub", "a", "b"}, func(s *stage) {
		s.create("a", "x")
		s.create("b", "y")
		secrets := informertest.Register[*corev1.Secret](s.servers["hub"].server,
			informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets")})
		put := func(name string, data map[string]string) {
			obj := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: name,
				Labels: map[string]string{"fleet": "yes"}}, Data: map[string][]byte{}}
			for key, value := range data {
				obj.Data[key] = []byte(value)
			}
			_, err := secrets.Create(obj)
			if err != nil {
				_, err = secrets.Update(obj)
			}
			s.must(err)
		}
		put("a", map[string]string{"kubeconfig": kubeconfig("a", withToken(1))})
		argo := func(config string) map[string]string {
			return map[string]string{"name": "b", "server": "https://b", "config": config}
		}
		put("cluster-b-123", argo(`{"bearerToken": "`+secret+`-1", "tlsClientConfig": {"insecure": false}}`))
		other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "other"}}
		_, err := secrets.Create(other)
		s.must(err)
		s.run(Secrets(s.hub("hub"), SecretsConfig{Namespace: "clusters", LabelSelector: "fleet=yes", Logger: s.log.Logger()}))
		s.must(s.fleet.WaitSynced(s.Context()))
		s.want("a: add x true", "b: add y true")

		requests := len(s.servers["a"].server.Requests())
		labeled, _ := secrets.Get(informer.Key{Namespace: "clusters", Name: "a"})
		labeled = labeled.DeepCopy()
		labeled.Labels["more"] = "yes"
		_, err = secrets.Update(labeled)
		s.must(err)
		synctest.Wait()
		if n := len(s.servers["a"].server.Requests()); n != requests {
			s.Errorf("a label of a Secret has ended a watch: %d requests before, %d after", requests, n)
		}

		lists := s.lists("a")
		s.accept("a", secret+"-2")
		put("a", map[string]string{"kubeconfig": kubeconfig("a", withToken(2))})
		synctest.Wait()
		s.create("a", "z")
		s.want("a: add z false")
		if n := s.lists("a"); n != lists {
			s.Errorf("%d lists before, %d after", lists, n)
		}
		for what, user := range map[string]string{
			"exec plugin":   "{exec: {apiVersion: client.authentication.k8s.io/v1, command: " + secret + "}}",
			"auth-provider": "{auth-provider: {name: " + secret + "}}",
			"names a file":  "{tokenFile: /var/run/" + secret + "}",
		} {
			put("a", map[string]string{"kubeconfig": kubeconfig("a", user)})
			s.wantErr(s.configErr("a"), "clusters/a", what)
		}
		for what, config := range map[string]string{
			"valid JSON":         secret,
			"execProviderConfig": `{"execProviderConfig": {"command": "` + secret + `"}}`,
			"awsAuthConfig":      `{"awsAuthConfig": {"clusterName": "` + secret + `"}}`,
			"proxy":              `{"proxyUrl": "http://%` + secret + `"}`,
		} {
			put("cluster-b-123", argo(config))
			s.wantErr(s.configErr("b"), "clusters/cluster-b-123", what)
		}
		put("cluster-b-123", map[string]string{"name": "b"})
		s.wantErr(s.configErr("b"), "kubeconfig")
		put("twice", argo("{}"))
		s.wantErr(s.configErr("b"), "several")
		s.create("b", "more")
		s.want("b: add more false")
		for _, name := range []string{"a", "twice", "cluster-b-123"} {
			_, err := secrets.Delete(informer.Key{Namespace: "clusters", Name: name})
			s.must(err)
		}
		synctest.Wait()
		s.want() // a Secret may come again
		time.Sleep(11 * time.Second)
		s.want("a: delete x false", "a: delete z false", "b: delete y false", "b: delete more false")
	})
}

// What is not allowed by default is allowed by an option.
func TestAllowedPrograms(t *testing.T) {
	exec := "{exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/plugin, interactiveMode: Never}}"
	config, err := trust{exec: true}.kubeconfig([]byte(kubeconfig("a", exec)))
	if err != nil || config.ExecProvider == nil || config.ExecProvider.Command != "/bin/plugin" {
		t.Errorf("%v, %v", config, err)
	}
	config, err = trust{exec: true}.argo("https://a", []byte(`{"execProviderConfig": {"command": "/bin/plugin", "env": {"A": "b"}}}`))
	if err != nil || config.ExecProvider == nil || config.ExecProvider.Command != "/bin/plugin" || len(config.ExecProvider.Env) != 1 {
		t.Errorf("%v, %v", config, err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("t"), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err = trust{files: true}.kubeconfig([]byte(kubeconfig("a", "{tokenFile: "+file+"}")))
	if err != nil || config.BearerTokenFile != file {
		t.Errorf("%v, %v", config, err)
	}
	argo := `{"username": "u", "password": "p", "proxyUrl": "http://proxy", "tlsClientConfig": {"serverName": "n", "caData": "Y2E=", "insecure": true}}`
	config, err = trust{}.argo("https://a", []byte(argo))
	if err != nil || config.Username != "u" || config.Password != "p" || config.Proxy == nil || config.ServerName != "n" ||
		string(config.CAData) != "ca" || !config.Insecure || config.Host != "https://a" {
		t.Errorf("%v, %v", config, err)
	}
}

// A hub that is away when the fleet starts is an error of WaitSynced that says so.
// Guarantees: N2
func TestHubThatIsAway(t *testing.T) {
	onStage(t, []string{"hub"}, func(s *stage) { // it does not serve secrets
		s.run(Secrets(s.hub("hub"), SecretsConfig{Logger: s.log.Logger()}))
		time.Sleep(time.Minute)
		s.wantErr(s.fleet.Status().Err, "Secrets of clusters")
		secrets := informertest.Register[*corev1.Secret](s.servers["hub"].server,
			informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets")})
		_ = secrets
		s.must(s.fleet.WaitSynced(s.Context()))
		s.must(s.fleet.Status().Err)
	})
}

// A ClusterProfile is a cluster, with the credentials of a function of the program.
// Guarantees: N7
func TestProfiles(t *testing.T) {
	onStage(t, []string{"hub", "a", "b"}, func(s *stage) {
		s.create("a", "x")
		s.create("b", "y")
		profiles := informertest.Register[*clusterProfile](s.servers["hub"].server, informertest.Resource{GroupVersionResource: schema.
			GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}})
		profile := func(name, server string, former bool, provider string) *clusterProfile {
			p := &clusterProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name}}
			access := accessProvider{Name: provider}
			access.Cluster.Server = server
			if p.Status.AccessProviders = []accessProvider{{Name: "unknown"}, access}; former {
				p.Status.AccessProviders, p.Status.CredentialProviders = nil, []accessProvider{access}
			}
			return p
		}
		for _, p := range []*clusterProfile{profile("a", "http://a", false, "tokens"), profile("b", "http://b", true, "tokens"),
			profile("c", "http://c", false, "other"), profile("d", "http://me:"+secret+"@d", false, "tokens"),
			profile("e", "http://e", false, "fails")} {
			_, err := profiles.Create(p)
			s.must(err)
		}
		s.run(Profiles(s.hub("hub"), ProfilesConfig{Logger: s.log.Logger(), Access: map[string]func(metav1.ObjectMeta, *rest.Config) error{
			"tokens": func(p metav1.ObjectMeta, config *rest.Config) error {
				config.BearerToken = secret + "-" + p.Name
				return nil
			},
			"fails": func(metav1.ObjectMeta, *rest.Config) error { return fmt.Errorf("no token") },
		}}))
		s.wantErr(s.fleet.WaitSynced(s.Context()), "c: fleet/c: none of its access providers", "d: ", "contains a user", "no token")
		s.want("a: add x true", "b: add y true")
		h := s.servers["a"]
		synctest.Wait()
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.tokens[0] != secret+"-a" {
			s.Error("the watch does not have the token of the function")
		}
	})
}

// FuzzKubeconfig parses any bytes as a kubeconfig and as Argo CD's config: no panic, and no program or file.
func FuzzKubeconfig(f *testing.F) {
	f.Add([]byte(kubeconfig("a", withToken(1))))
	f.Add([]byte(kubeconfig("a", "{exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Never}}")))
	f.Add([]byte(kubeconfig("a", "{tokenFile: /etc/passwd, client-key: x}")))
	f.Add([]byte(`{"contexts": [{"name": "", "context": null}], "clusters": null}`))
	f.Add([]byte(`{"bearerToken": "x", "tlsClientConfig": {"caData": "Y2E="}, "execProviderConfig": {"command": "x"}}`))
	f.Add([]byte(`{"awsAuthConfig": {}, "proxyUrl": "://"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		config, err := trust{}.kubeconfig(raw)
		argo, err2 := trust{}.argo("https://a", raw)
		for _, c := range []*rest.Config{config, argo} {
			if c != nil && (c.ExecProvider != nil || c.AuthProvider != nil || c.BearerTokenFile != "" || c.CAFile != "" ||
				c.CertFile != "" || c.KeyFile != "") {
				t.Errorf("it names a program or a file: %v", c)
			}
		}
		if (config == nil) == (err == nil) || (argo == nil) == (err2 == nil) {
			t.Errorf("%v, %v, %v, %v", config, err, argo, err2)
		}
	})
}

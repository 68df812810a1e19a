package informertest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/typedinformer/informer/informertest"
)

// readers allows alice to read pods, and gives bob a reason why not.
func readers(review authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
	resource := review.ResourceAttributes
	reads := resource != nil && resource.Resource == "pods" && slices.Contains([]string{"get", "list", "watch"}, resource.Verb)
	switch {
	case review.User == "bob":
		return authorizationv1.SubjectAccessReviewStatus{Reason: "bob is on leave"}
	case review.User == "carol" && resource != nil && resource.Verb == "impersonate":
		return authorizationv1.SubjectAccessReviewStatus{Allowed: resource.Name == "alice" || resource.Resource == "groups"}
	}
	return authorizationv1.SubjectAccessReviewStatus{Allowed: review.User == "alice" && reads}
}

// authBubble runs test in a bubble, with a server of pods that readers authorizes.
func authBubble(t *testing.T, test func(t *testing.T, server *informertest.Server)) {
	bubble(t, informertest.Options{Auth: &informertest.Auth{Authorize: readers}},
		func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
			test(t, server)
		})
}

func clientsetFor(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

func userNamed(name string, groups ...string) authenticationv1.UserInfo {
	return authenticationv1.UserInfo{Username: name, Groups: groups}
}

// The texts are those of kube-apiserver 1.36.
func TestAuth_WhoMayDoWhat(t *testing.T) {
	list := func(ctx context.Context, c *kubernetes.Clientset) error {
		_, err := c.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		return err
	}
	listAll := func(ctx context.Context, c *kubernetes.Clientset) error {
		_, err := c.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=a"})
		return err
	}
	deletePod := func(ctx context.Context, c *kubernetes.Clientset) error {
		return c.CoreV1().Pods("default").Delete(ctx, "a", metav1.DeleteOptions{})
	}
	status := func(ctx context.Context, c *kubernetes.Clientset) error {
		_, err := c.CoreV1().Pods("default").UpdateStatus(ctx, newPod("default", "a"), metav1.UpdateOptions{})
		return err
	}
	namespace := func(ctx context.Context, c *kubernetes.Clientset) error {
		_, err := c.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		return err
	}
	path := func(path string) func(context.Context, *kubernetes.Clientset) error {
		return func(ctx context.Context, c *kubernetes.Clientset) error {
			return c.RESTClient().Get().AbsPath(path).Do(ctx).Error()
		}
	}
	alice := func(s *informertest.Server) *rest.Config { return s.ConfigFor(userNamed("alice")) }
	bob := func(s *informertest.Server) *rest.Config { return s.ConfigFor(userNamed("bob")) }
	nobody := func(s *informertest.Server) *rest.Config { return rest.AnonymousClientConfig(s.Config()) }
	withToken := func(token func(*informertest.Server) string) func(s *informertest.Server) *rest.Config {
		return func(s *informertest.Server) *rest.Config {
			config := nobody(s)
			config.BearerToken = token(s)
			return config
		}
	}
	as := func(user string, impersonate rest.ImpersonationConfig) func(s *informertest.Server) *rest.Config {
		return func(s *informertest.Server) *rest.Config {
			config := s.ConfigFor(userNamed(user))
			config.Impersonate = impersonate
			return config
		}
	}
	for _, c := range []struct {
		name   string
		config func(*informertest.Server) *rest.Config
		do     func(context.Context, *kubernetes.Clientset) error
		want   string // the code and message, or nothing
	}{
		{"admin", (*informertest.Server).Config, deletePod, ""},
		{"certificate", alice, list, ""},
		{"token", withToken(func(s *informertest.Server) string { return s.TokenFor(userNamed("alice")) }), list, ""},
		{"user with a UID", func(s *informertest.Server) *rest.Config {
			return s.ConfigFor(authenticationv1.UserInfo{Username: "alice", UID: "7"})
		}, list, ""},
		{"named", alice, deletePod, `403 pods "a" is forbidden: User "alice" cannot delete resource "pods" in API group "" in the namespace "default"`},
		{"subresource", alice, status, `403 pods "a" is forbidden: User "alice" cannot update resource "pods/status" in API group "" in the namespace "default"`},
		{"reason", bob, list, `403 pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "default": bob is on leave`},
		{"all namespaces, by name", bob, listAll, `403 pods "a" is forbidden: User "bob" cannot list resource "pods" in API group "" at the cluster scope: bob is on leave`},
		{"namespace", alice, namespace, `403 namespaces "default" is forbidden: User "alice" cannot get resource "namespaces" in API group "" in the namespace "default"`},
		{"path", alice, path("/logs"), `403 forbidden: User "alice" cannot get path "/logs"`},
		{"markup", func(s *informertest.Server) *rest.Config { return s.ConfigFor(userNamed("<b>")) }, path("/logs"),
			`403 forbidden: User "&lt;b&gt;" cannot get path "/logs"`},
		{"discovery", alice, path("/apis"), ""},
		{"anonymous", nobody, list, `403 pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" in the namespace "default"`},
		{"anonymous discovery", nobody, path("/api"), `403 forbidden: User "system:anonymous" cannot get path "/api"`},
		{"anonymous health", nobody, path("/readyz"), ""},
		{"unknown token", withToken(func(*informertest.Server) string { return "x" }), list, "401 Unauthorized"},
		{"revoked token", withToken(func(s *informertest.Server) string {
			token := s.TokenFor(userNamed("alice"))
			s.RevokeToken(token)
			return token
		}), list, "401 Unauthorized"},
		{"password", func(s *informertest.Server) *rest.Config {
			config := nobody(s)
			config.Username, config.Password = "alice", "x"
			return config
		}, list, "401 Unauthorized"},
		{"certificate of another authority", func(s *informertest.Server) *rest.Config {
			other := informertest.NewServer(informertest.Options{InMemory: true, Auth: &informertest.Auth{}})
			defer other.Close()
			config, foreign := s.Config(), other.ConfigFor(userNamed("alice", "system:masters"))
			config.CertData, config.KeyData = foreign.CertData, foreign.KeyData
			return config
		}, list, "401 Unauthorized"},
		{"impersonation", as("carol", rest.ImpersonationConfig{UserName: "alice", Groups: []string{"g"}}), list, ""},
		{"impersonation of who may do more", as("carol", rest.ImpersonationConfig{UserName: "root"}), list,
			`403 users "root" is forbidden: User "carol" cannot impersonate resource "users" in API group "" at the cluster scope`},
		{"impersonation of a service account", as("carol", rest.ImpersonationConfig{UserName: "system:serviceaccount:n:a"}), list,
			`403 serviceaccounts "a" is forbidden: User "carol" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "n"`},
		{"impersonation with extra", as("carol", rest.ImpersonationConfig{UserName: "alice", Extra: map[string][]string{"k": {"v"}}}), list,
			`403 userextras.authentication.k8s.io "v" is forbidden: User "carol" cannot impersonate resource "userextras/k" in API group "authentication.k8s.io" at the cluster scope`},
		{"impersonation with a UID", as("carol", rest.ImpersonationConfig{UserName: "alice", UID: "7"}), list,
			`403 uids.authentication.k8s.io "7" is forbidden: User "carol" cannot impersonate resource "uids" in API group "authentication.k8s.io" at the cluster scope`},
	} {
		t.Run(c.name, func(t *testing.T) {
			authBubble(t, func(t *testing.T, server *informertest.Server) {
				_, err := clientsetFor(t, server.Config()).CoreV1().Pods("default").Create(t.Context(), newPod("default", "a"),
					metav1.CreateOptions{})
				must(t, err)
				err = c.do(t.Context(), clientsetFor(t, c.config(server)))
				got := ""
				if status := apierrors.APIStatus(nil); errors.As(err, &status) {
					got = fmt.Sprint(status.Status().Code, " ", status.Status().Message)
				} else if err != nil {
					got = err.Error()
				}
				if got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
			})
		})
	}
}

func TestAuth_WithoutAuthorizeUsersMayDoEverything(t *testing.T) {
	bubble(t, informertest.Options{Auth: &informertest.Auth{}},
		func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
			list := func(config *rest.Config) error {
				_, err := clientsetFor(t, config).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
				return err
			}
			must(t, list(server.ConfigFor(userNamed("alice"))))
			if err := list(rest.AnonymousClientConfig(server.Config())); !apierrors.IsForbidden(err) {
				t.Errorf("system:anonymous got %v, want 403", err)
			}
		})
}

func TestAuth_TheRequestLogHasTheUser(t *testing.T) {
	authBubble(t, func(t *testing.T, server *informertest.Server) {
		config := server.ConfigFor(authenticationv1.UserInfo{Username: "alice", UID: "7", Groups: []string{"a", "b"},
			Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}})
		_, err := clientsetFor(t, config).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		must(t, err)
		config = server.Config()
		config.Impersonate.UserName = "system:serviceaccount:n:a"
		_, err = clientsetFor(t, config).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("got %v, want 403", err)
		}
		var got []string
		for _, req := range server.Requests() {
			got = append(got, fmt.Sprint(req.User.Username, req.User.UID, req.User.Groups, req.User.Extra))
		}
		want := []string{
			"alice7[a b system:authenticated] map[k:[v]]",
			"system:serviceaccount:n:a[system:serviceaccounts system:serviceaccounts:n system:authenticated] map[]",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

// A watch over TLS breaks off at once, without waiting for the client.
func TestAuth_ConnectionsBreakAndTheServerReturns(t *testing.T) {
	authBubble(t, func(t *testing.T, server *informertest.Server) {
		clients := clientsetFor(t, server.ConfigFor(userNamed("alice")))
		events, err := clients.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{})
		must(t, err)
		began := time.Now()
		server.Stop()
		for range events.ResultChan() {
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("the connection broke after %v", waited)
		}
		server.Start()
		_, err = clients.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		must(t, err)
		synctest.Wait()
	})
}

func TestKubeconfig(t *testing.T) {
	server := informertest.NewServer(informertest.Options{Auth: &informertest.Auth{Authorize: readers}})
	defer server.Close()
	informertest.Register[*corev1.Pod](server, informertest.Resource{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")})
	if !strings.HasPrefix(server.URL, "https://") {
		t.Errorf("the address is %s", server.URL)
	}
	impersonating := server.Config()
	impersonating.Impersonate.UserName = "alice"
	for name, config := range map[string]*rest.Config{
		"certificate":   server.ConfigFor(userNamed("alice")),
		"token":         server.ConfigFor(authenticationv1.UserInfo{Username: "alice", UID: "7"}),
		"impersonation": impersonating,
	} {
		t.Run(name, func(t *testing.T) {
			content, err := informertest.Kubeconfig(config)
			must(t, err)
			file := filepath.Join(t.TempDir(), "kubeconfig")
			must(t, os.WriteFile(file, content, 0o600))
			loaded, err := clientcmd.BuildConfigFromFlags("", file)
			must(t, err)
			clients := clientsetFor(t, loaded)
			_, err = clients.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
			must(t, err)
			if err := clients.CoreV1().Pods("default").Delete(t.Context(), "a", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
				t.Errorf("got %v, want the 403 of alice", err)
			}
		})
	}
}

func TestKubeconfig_OfAServerInMemory(t *testing.T) {
	server := informertest.NewServer(informertest.Options{InMemory: true})
	defer server.Close()
	if content, err := informertest.Kubeconfig(server.Config()); err == nil {
		t.Errorf("got %s, want an error", content)
	}
}

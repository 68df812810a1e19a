package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// manifests are the objects in deploy/.
type manifests struct {
	templates map[string]corev1.PodTemplateSpec // by component
	services  []*corev1.Service
	role      *rbacv1.ClusterRole
	policy    *networkingv1.NetworkPolicy
	budgets   []*policyv1.PodDisruptionBudget
}

// readManifests reads each object into the type of its kind, and accepts no unknown field.
func readManifests(t *testing.T) (m manifests) {
	t.Helper()
	m.templates = map[string]corev1.PodTemplateSpec{}
	files, err := filepath.Glob("deploy/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
			var kind metav1.TypeMeta
			if err := yaml.Unmarshal(document, &kind); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			into := func(obj metav1.Object, apiVersion string) {
				t.Helper()
				if err := yaml.UnmarshalStrict(document, obj); err != nil || kind.APIVersion != apiVersion {
					t.Fatalf("%s: %v: %v", file, kind, err)
				}
				if ns := obj.GetNamespace(); ns != "fanout" && !strings.HasPrefix(kind.Kind, "ClusterRole") && kind.Kind != "Namespace" {
					t.Errorf("%s: %s %s is in the namespace %q", file, kind.Kind, obj.GetName(), ns)
				}
			}
			switch kind.Kind {
			case "Namespace":
				into(&corev1.Namespace{}, "v1")
			case "ServiceAccount":
				into(&corev1.ServiceAccount{}, "v1")
			case "ClusterRole":
				m.role = &rbacv1.ClusterRole{}
				into(m.role, "rbac.authorization.k8s.io/v1")
			case "ClusterRoleBinding":
				var binding rbacv1.ClusterRoleBinding
				into(&binding, "rbac.authorization.k8s.io/v1")
				if s := binding.Subjects; binding.RoleRef.Name != "fanout" || len(s) != 1 || s[0].Name != "fanout" || s[0].Namespace != "fanout" {
					t.Errorf("the binding is %+v", binding)
				}
			case "NetworkPolicy":
				m.policy = &networkingv1.NetworkPolicy{}
				into(m.policy, "networking.k8s.io/v1")
			case "DaemonSet":
				var set appsv1.DaemonSet
				into(&set, "apps/v1")
				m.add(t, set.Spec.Selector, set.Spec.Template)
			case "Deployment":
				var deployment appsv1.Deployment
				into(&deployment, "apps/v1")
				m.add(t, deployment.Spec.Selector, deployment.Spec.Template)
			case "Service":
				service := &corev1.Service{}
				into(service, "v1")
				m.services = append(m.services, service)
			case "PodDisruptionBudget":
				budget := &policyv1.PodDisruptionBudget{}
				into(budget, "policy/v1")
				m.budgets = append(m.budgets, budget)
			default:
				t.Errorf("%s: %v", file, kind)
			}
		}
	}
	return m
}

func (m *manifests) add(t *testing.T, selector *metav1.LabelSelector, template corev1.PodTemplateSpec) {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || !s.Matches(labels.Set(template.Labels)) {
		t.Errorf("selector %v, labels %v, %v", selector, template.Labels, err)
	}
	m.templates[template.Labels["app.kubernetes.io/component"]] = template
}

func TestManifests(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1") // as in a pod
	m := readManifests(t)
	if len(m.templates) != 2 || len(m.services) != 2 || len(m.budgets) != 1 {
		t.Fatalf("%d pods, %d services, %d budgets", len(m.templates), len(m.services), len(m.budgets))
	}
	for component, template := range m.templates {
		pod := template.Spec
		container := pod.Containers[0]
		o, err := parseOptions(container.Args, io.Discard)
		if err != nil {
			t.Fatalf("%s: flags: %v", component, err)
		}
		ports := map[string]int32{}
		for _, p := range container.Ports {
			ports[p.Name] = p.ContainerPort
		}
		if fmt.Sprint(":", ports["https"]) != o.listen || fmt.Sprint(":", ports["probes"]) != o.probes {
			t.Errorf("%s: ports %v, but it listens on %s and %s", component, ports, o.listen, o.probes)
		}
		for _, probe := range []*corev1.Probe{container.ReadinessProbe, container.LivenessProbe} {
			if probe.HTTPGet.Port != intstr.FromString("probes") || probe.HTTPGet.Scheme != "" {
				t.Errorf("%s: probe %v", component, probe.HTTPGet)
			}
		}
		for _, file := range []string{o.certFile, o.keyFile} {
			if dir := path.Dir(file); !slices.ContainsFunc(container.VolumeMounts, func(v corev1.VolumeMount) bool { return v.MountPath == dir && v.ReadOnly }) {
				t.Errorf("%s: %s is in no volume", component, file)
			}
		}
		s, c := pod.SecurityContext, container.SecurityContext
		if !*s.RunAsNonRoot || *c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem || s.SeccompProfile == nil || pod.HostNetwork || len(container.Resources.Limits) == 0 {
			t.Errorf("%s: %+v, %+v", component, s, c)
		}
		if grace := *pod.TerminationGracePeriodSeconds; grace < container.Lifecycle.PreStop.Sleep.Seconds+int64(shutdownTimeout.Seconds())+5 {
			t.Errorf("%s: a grace period of %d s is too short", component, grace)
		}
		for _, rule := range m.policy.Spec.Ingress {
			for _, p := range rule.Ports {
				if port := p.Port.IntVal; port != ports["https"] && port != ports["probes"] {
					t.Errorf("the network policy has port %d", port)
				}
			}
		}
		served := false
		for _, service := range m.services {
			if labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(template.Labels)) {
				served = service.Spec.Ports[0].TargetPort == intstr.FromString("https")
				if local := service.Spec.InternalTrafficPolicy != nil && *service.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal; local != (component == "node") {
					t.Errorf("%s: traffic policy %v", component, service.Spec.InternalTrafficPolicy)
				}
			}
		}
		if !served {
			t.Errorf("%s: no service", component)
		}
	}
}

// By the formula of the README, the memory limits suffice for the pods and clients that the manifests name, with a
// quarter to spare. The memory requests suffice without the spare quarter.
func TestManifestsHaveMemoryForTheirPods(t *testing.T) {
	numbers := func(file, pattern string) (found []int64) {
		t.Helper()
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		match := regexp.MustCompile(pattern).FindStringSubmatch(string(content))
		if match == nil {
			t.Fatalf("%s does not say %s", file, pattern)
		}
		for _, text := range match[1:] {
			n, err := strconv.ParseInt(strings.ReplaceAll(text, ",", ""), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, n)
		}
		return found
	}
	formula := numbers("README.md", `peak = (\d+) MB \+ (\d+) kB x pods \+ (\d+) kB x clients`)
	m := readManifests(t)
	for component, file := range map[string]string{"node": "deploy/daemonset.yaml", "central": "deploy/deployment.yaml"} {
		sized := numbers(file, `resources: # for ([\d,]+) pods and ([\d,]+) clients`)
		peak := formula[0]*1e6 + formula[1]*1e3*sized[0] + formula[2]*1e3*sized[1]
		resources := m.templates[component].Spec.Containers[0].Resources
		if limit := resources.Limits.Memory().Value(); limit < peak*5/4 {
			t.Errorf("%s: the limit is %d bytes; %d pods and %d clients need %d", file, limit, sized[0], sized[1], peak*5/4)
		}
		if request := resources.Requests.Memory().Value(); request < peak {
			t.Errorf("%s: the request is %d bytes; %d pods and %d clients need %d", file, request, sized[0], sized[1], peak)
		}
	}
}

// The program runs with the flags of the manifests. It serves the paths of the probes, and its role allows exactly what it asks for.
func TestManifestsRun(t *testing.T) {
	m := readManifests(t)
	container := m.templates["node"].Spec.Containers[0]
	_, certPEM, keyPEM := certificate(t, "server", nil)
	probes := net.JoinHostPort("127.0.0.1", strconv.Itoa(testkit.FreePort(t)))
	args := slices.DeleteFunc(slices.Clone(container.Args), func(arg string) bool {
		name, _, _ := strings.Cut(arg, "=")
		return slices.Contains([]string{"-listen", "-probes", "-tls-cert", "-tls-key", "-report"}, name)
	})
	url, _, upstream := program(t, options{certFile: write(t, "cert", certPEM), keyFile: write(t, "key", keyPEM), names: append(args, "-probes", probes)},
		func(server *informertest.Server) {
			informertest.Register[*corev1.Node](server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("nodes"), ClusterScoped: true})
			informertest.Register[*corev1.Service](server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("services")})
		})
	client := insecure(t)
	for _, resource := range []string{"pods", "nodes", "services"} {
		request, err := http.NewRequest(http.MethodGet, url+"/api/v1/"+resource+"?resourceVersion=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer of-reader")
		response, err := client.Do(request) // waits for the first list, if it is allowed
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if want := map[bool]int{true: 200, false: 403}[resource == "pods"]; response.StatusCode != want {
			t.Errorf("%s: %d, want %d", resource, response.StatusCode, want)
		}
	}
	for _, path := range []string{"/metrics", container.LivenessProbe.HTTPGet.Path} {
		response, err := http.Get("http://" + probes + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", path, response.StatusCode)
		}
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) { // until it has asked for all that it follows
		response, err := http.Get("http://" + probes + container.ReadinessProbe.HTTPGet.Path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("%s: %d", container.ReadinessProbe.HTTPGet.Path, response.StatusCode)
		}
	}
	allowed := map[string]bool{} // and whether it is used
	for _, rule := range m.role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					allowed[verb+" "+resource+"."+group] = false
				}
			}
		}
	}
	for _, r := range upstream.Requests() {
		verb, resource, group := r.Verb, r.Resource.Resource, r.Resource.Group
		if resource == "" {
			continue // discovery, which every user may do
		}
		key := verb + " " + resource + "." + group
		if _, ok := allowed[key]; !ok {
			t.Errorf("%s %s: the role does not allow %q", r.Verb, r.Path, key)
		}
		allowed[key] = true
	}
	for key, used := range allowed {
		// A list is needed if the server refuses streaming lists, and for the newest version.
		if !used && !strings.HasPrefix(key, "list ") {
			t.Errorf("the role allows %q, which is not used", key)
		}
	}
}

// The command of the container file builds the program. The image itself needs a container engine.
func TestContainerFile(t *testing.T) {
	if !testkit.Whole() {
		t.Skip("builds everything without cgo")
	}
	content, err := os.ReadFile("Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	command := ""
	for line := range strings.Lines(string(content)) {
		if run, ok := strings.CutPrefix(line, "RUN "); ok {
			command = strings.TrimSpace(run)
		}
	}
	binary := filepath.Join(t.TempDir(), "fanout")
	command = strings.Replace(command, "-o /fanout ", "-o "+binary+" ", 1)
	build := exec.CommandContext(t.Context(), "sh", "-c", command)
	build.Env = append(os.Environ(), "TARGETOS=linux", "TARGETARCH=amd64")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, output)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Fatal(err)
	}
	if base := strings.Count(string(content), "\nFROM gcr.io/distroless/static-debian12:nonroot\n"); base != 1 || !strings.Contains(string(content), `ENTRYPOINT ["/fanout"]`) {
		t.Error("the image has another base or entry point")
	}
}

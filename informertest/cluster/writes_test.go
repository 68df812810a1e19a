package cluster_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/informertest"
)

// written is a write of a client. It creates an object, or changes one that was created as before, and that got the status
// of before. The objects are JSON without their metadata; <pod> stands for a valid pod spec without its braces.
type written struct {
	name, path, subresource string
	before, body            string
	want                    string // the fields in the error; empty means that the server accepts the object
}

// complete returns an object with its name and <pod>.
func complete(object string) string {
	object = strings.ReplaceAll(object, "<pod>", `"containers":[{"name":"c","image":"i"}]`)
	return strings.Replace(object, "{", `{"metadata":{"name":"o"},`, 1)
}

// testWrites makes each write, and deletes the object.
func testWrites(t *testing.T, writes []written) {
	inBubble(t, func(t *testing.T, server *informertest.Server, clients *kubernetes.Clientset) {
		client := clients.CoreV1().RESTClient()
		send := func(request *rest.Request, body string) error {
			return request.SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error()
		}
		for _, w := range writes {
			path := strings.Replace(w.path, "/v1/", "/v1/namespaces/default/", 1)
			if w.path == clusterRoles || w.path == allBindings {
				path = w.path
			}
			before, body := complete(w.before), complete(w.body)
			request := client.Post().AbsPath(path)
			if before != "" {
				if err := send(request, before); err != nil {
					t.Errorf("%s: before: %v", w.name, err)
					continue
				}
				if strings.Contains(before, `"status":`) {
					if err := send(client.Put().AbsPath(path, "o", "status"), before); err != nil {
						t.Errorf("%s: the status before: %v", w.name, err)
					}
				}
				request = client.Put().AbsPath(path, "o", w.subresource)
			}
			err := send(request, body)
			if got := wrongFields(err); got != w.want {
				t.Errorf("%s: wrong fields: %q, want %q: %.1000v", w.name, got, w.want, err)
			}
			if err == nil || before != "" {
				if err := client.Delete().AbsPath(path, "o").Param("propagationPolicy", "Background").Do(t.Context()).Error(); err != nil {
					t.Errorf("%s: delete: %v", w.name, err)
				}
			}
		}
	})
}

// wrongFields returns the fields that a server refuses.
func wrongFields(err error) string {
	if err == nil {
		return ""
	}
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return "not a validation error"
	}
	var fields []string
	for _, cause := range status.Status().Details.Causes {
		fields = append(fields, cause.Field)
	}
	return strings.Join(fields, " ")
}

const (
	pods         = "/api/v1/pods"
	services     = "/api/v1/services"
	claims       = "/api/v1/persistentvolumeclaims"
	configMaps   = "/api/v1/configmaps"
	secrets      = "/api/v1/secrets"
	daemonSets   = "/apis/apps/v1/daemonsets"
	statefulSets = "/apis/apps/v1/statefulsets"
	jobs         = "/apis/batch/v1/jobs"
	cronJobs     = "/apis/batch/v1/cronjobs"
	budgets      = "/apis/policy/v1/poddisruptionbudgets"
	roles        = "/apis/rbac.authorization.k8s.io/v1/roles"
	clusterRoles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	bindings     = "/apis/rbac.authorization.k8s.io/v1/rolebindings"
	allBindings  = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
)

func TestServicesAreValidated(t *testing.T) {
	testWrites(t, []written{
		{"no ports", services, "", ``, `{"spec":{}}`, "spec.ports"},
		{"no ports, headless", services, "", ``, `{"spec":{"clusterIP":"None"}}`, ""},
		{"no ports, headless before", services, "", `{"spec":{"clusterIP":"None"}}`, `{"spec":{}}`, ""},
		{"no ports, not headless before", services, "", `{"spec":{"ports":[{"port":1}]}}`, `{"spec":{}}`, "spec.ports"},
		{"no ports, external before", services, "", `{"spec":{"type":"ExternalName","externalName":"a","clusterIP":"None"}}`, `{"spec":{}}`, "spec.ports"},
		{"external", services, "", ``, `{"spec":{"type":"ExternalName","externalName":"a"}}`, ""},
		{"external without a name", services, "", ``, `{"spec":{"type":"ExternalName"}}`, "spec.externalName"},
		{"an unknown type", services, "", ``, `{"spec":{"type":"X","ports":[{"port":1}]}}`, "spec.type"},
		{"no targetPort", services, "", ``, `{"spec":{"ports":[{"port":1}]}}`, ""},
		{"the targetPort 0", services, "", ``, `{"spec":{"ports":[{"port":1,"targetPort":0}]}}`, ""},
		{"an empty targetPort", services, "", ``, `{"spec":{"ports":[{"port":1,"targetPort":""}]}}`, ""},
		{"a named targetPort", services, "", ``, `{"spec":{"ports":[{"port":1,"targetPort":"http"}]}}`, ""},
		{"a bad targetPort", services, "", ``, `{"spec":{"ports":[{"port":1,"targetPort":"a b"}]}}`, "spec.ports[0].targetPort"},
		{"a large targetPort", services, "", ``, `{"spec":{"ports":[{"port":1,"targetPort":70000}]}}`, "spec.ports[0].targetPort"},
		{"a bad port", services, "", ``, `{"spec":{"ports":[{"port":70000,"targetPort":1}]}}`, "spec.ports[0].port"},
		{"a bad protocol", services, "", ``, `{"spec":{"ports":[{"port":1,"protocol":"X"}]}}`, "spec.ports[0].protocol"},
		{"a port for two protocols", services, "", ``, `{"spec":{"ports":[{"name":"a","port":1},{"name":"b","port":1,"protocol":"UDP"}]}}`, ""},
		{"a port twice", services, "", ``, `{"spec":{"ports":[{"name":"a","port":1},{"name":"b","port":1,"protocol":"TCP"}]}}`, "spec.ports[1]"},
		{"two nameless ports", services, "", ``, `{"spec":{"ports":[{"port":1},{"port":2}]}}`, "spec.ports[0].name spec.ports[1].name"},
		{"two ports of a name", services, "", ``, `{"spec":{"ports":[{"name":"a","port":1},{"name":"a","port":2}]}}`, "spec.ports[1].name"},
		{"a bad name of a port", services, "", ``, `{"spec":{"ports":[{"name":"A","port":1}]}}`, "spec.ports[0].name"},
	})
}

func TestClaimsAreValidated(t *testing.T) {
	const (
		valid   = `{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"2Gi"}}}}`
		bound   = `{"spec":{"volumeName":"v","storageClassName":"s","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"2Gi"}}},"status":{"phase":"Bound","capacity":{"storage":"1Gi"}}}`
		refused = "spec"
	)
	change := strings.NewReplacer("2Gi", "3Gi").Replace
	testWrites(t, []written{
		{"valid", claims, "", ``, valid, ""},
		{"empty", claims, "", ``, `{"spec":{}}`, "spec.accessModes spec.resources[storage]"},
		{"an unknown access mode", claims, "", ``, strings.Replace(valid, "ReadWriteOnce", "X", 1), "spec.accessModes"},
		{"no space", claims, "", ``, strings.Replace(valid, "2Gi", "0", 1), "spec.resources[storage]"},
		{"the same", claims, "", valid, valid, ""},
		{"the size in other words", claims, "", valid, strings.Replace(valid, "2Gi", "2048Mi", 1), ""},
		{"defaults", claims, "", valid, strings.Replace(valid, `{"spec":{`, `{"spec":{"volumeMode":"Filesystem","storageClassName":"s",`, 1), ""},
		{"a volume", claims, "", valid, strings.Replace(valid, `{"spec":{`, `{"spec":{"volumeName":"v",`, 1), ""},
		{"another volume", claims, "", bound, strings.Replace(bound, `"v"`, `"w"`, 1), refused},
		{"another class", claims, "", bound, strings.Replace(bound, `"s"`, `"t"`, 1), refused},
		{"another access mode", claims, "", valid, strings.Replace(valid, "ReadWriteOnce", "ReadOnlyMany", 1), refused},
		{"one more access mode", claims, "", valid, strings.Replace(valid, `["ReadWriteOnce"`, `["ReadWriteOnce","ReadOnlyMany"`, 1), refused},
		{"another size of an unbound one", claims, "", valid, change(valid), refused},
		{"a larger size of a bound one", claims, "", bound, change(bound), ""},
		{"a smaller size of a bound one", claims, "", bound, strings.Replace(bound, `"2Gi"`, `"1536Mi"`, 1), ""},
		{"a size below the capacity of a bound one", claims, "", bound, strings.Replace(bound, `"2Gi"`, `"512Mi"`, 1), "spec.resources.requests.storage"},
		{"another volumeAttributesClassName of a bound one", claims, "",
			strings.Replace(bound, `{"spec":{`, `{"spec":{"volumeAttributesClassName":"x",`, 1),
			strings.Replace(bound, `{"spec":{`, `{"spec":{"volumeAttributesClassName":"y",`, 1), ""},
		{"the normal form of a dataSource", claims, "",
			strings.Replace(valid, `{"spec":{`, `{"spec":{"dataSource":{"kind":"PersistentVolumeClaim","name":"a"},`, 1),
			strings.Replace(valid, `{"spec":{`, `{"spec":{"dataSource":{"kind":"PersistentVolumeClaim","name":"a"},"dataSourceRef":{"kind":"PersistentVolumeClaim","name":"a"},`, 1), ""},
		{"another dataSource", claims, "",
			strings.Replace(valid, `{"spec":{`, `{"spec":{"dataSource":{"kind":"PersistentVolumeClaim","name":"a"},`, 1),
			strings.Replace(valid, `{"spec":{`, `{"spec":{"dataSource":{"kind":"PersistentVolumeClaim","name":"b"},`, 1), refused},
	})
}

func TestDataAreValidated(t *testing.T) {
	large := strings.Repeat("a", 1<<20+1)
	testWrites(t, []written{
		{"a config map", configMaps, "", ``, `{"data":{"k":"v"},"binaryData":{"b":"YQ=="}}`, ""},
		{"a bad key of a config map", configMaps, "", ``, `{"data":{"a b":"v"}}`, "data[a b]"},
		{"a bad binary key", configMaps, "", ``, `{"binaryData":{"a b":"YQ=="}}`, "binaryData[a b]"},
		{"a key twice", configMaps, "", ``, `{"data":{"k":"v"},"binaryData":{"k":"YQ=="}}`, "data[k]"},
		{"a large config map", configMaps, "", ``, `{"data":{"k":"` + large + `"}}`, "[]"},
		{"a secret", secrets, "", ``, `{"data":{"k":"YQ=="}}`, ""},
		{"a bad key of a secret", secrets, "", ``, `{"stringData":{"a b":"v"}}`, "data[a b]"},
		{"a large secret", secrets, "", ``, `{"stringData":{"k":"` + large + `"}}`, "data"},
		{"no account", secrets, "", ``, `{"type":"kubernetes.io/service-account-token"}`, "metadata.annotations[kubernetes.io/service-account.name]"},
		{"a dockercfg", secrets, "", ``, `{"type":"kubernetes.io/dockercfg","stringData":{".dockercfg":"{}"}}`, ""},
		{"no dockercfg", secrets, "", ``, `{"type":"kubernetes.io/dockercfg"}`, "data[.dockercfg]"},
		{"a bad dockerconfigjson", secrets, "", ``, `{"type":"kubernetes.io/dockerconfigjson","stringData":{".dockerconfigjson":"x"}}`, "data[.dockerconfigjson]"},
		{"only a password", secrets, "", ``, `{"type":"kubernetes.io/basic-auth","stringData":{"password":"x"}}`, ""},
		{"neither name nor password", secrets, "", ``, `{"type":"kubernetes.io/basic-auth"}`, "data[username] data[password]"},
		{"no SSH key", secrets, "", ``, `{"type":"kubernetes.io/ssh-auth"}`, "data[ssh-privatekey]"},
		{"no TLS key", secrets, "", ``, `{"type":"kubernetes.io/tls","stringData":{"tls.crt":"x"}}`, "data[tls.key]"},
		{"empty TLS", secrets, "", ``, `{"type":"kubernetes.io/tls","stringData":{"tls.crt":"","tls.key":""}}`, ""},
		{"the type as by default", secrets, "", `{"data":{}}`, `{"type":"Opaque"}`, ""},
		{"no type any more", secrets, "", `{"type":"Opaque"}`, `{"data":{}}`, ""},
		{"another type", secrets, "", `{"type":"a/b"}`, `{"type":"a/c"}`, "type"},
	})
}

func TestRolesAreValidated(t *testing.T) {
	const (
		role  = `"roleRef":{"kind":"ClusterRole","name":"r"}`
		group = `"apiGroup":"rbac.authorization.k8s.io",`
	)
	testWrites(t, []written{
		{"a rule", roles, "", ``, `{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`, ""},
		{"no rules", roles, "", ``, `{"rules":[]}`, ""},
		{"an empty rule", roles, "", ``, `{"rules":[{}]}`, "rules[0].verbs rules[0].apiGroups rules[0].resources"},
		{"a URL in a namespace", roles, "", ``, `{"rules":[{"nonResourceURLs":["/x"],"verbs":["get"]}]}`, "rules[0].nonResourceURLs"},
		{"a URL", clusterRoles, "", ``, `{"rules":[{"nonResourceURLs":["/x"],"verbs":["get"]}]}`, ""},
		{"a URL and a resource", clusterRoles, "", ``, `{"rules":[{"apiGroups":[""],"resources":["pods"],"nonResourceURLs":["/x"],"verbs":["get"]}]}`, "rules[0].nonResourceURLs"},
		{"a binding", bindings, "", ``, `{` + role + `,"subjects":[{"kind":"User","name":"u"},{"kind":"Group","name":"g"},{"kind":"ServiceAccount","name":"a"}]}`, ""},
		{"a binding in full", bindings, "", ``, `{"roleRef":{` + group + `"kind":"Role","name":"r"},"subjects":[{` + group + `"kind":"User","name":"u"},{` + group + `"kind":"Group","name":"g"}]}`, ""},
		{"no role", bindings, "", ``, `{"subjects":[]}`, "roleRef.kind roleRef.name"},
		{"a bad role", bindings, "", ``, `{"roleRef":{"apiGroup":"foo","kind":"Role","name":"a/b"}}`, "roleRef.apiGroup roleRef.name"},
		{"a binding of a Role to the cluster", allBindings, "", ``, `{"roleRef":{"kind":"Role","name":"r"}}`, "roleRef.kind"},
		{"bad subjects", bindings, "", ``, `{` + role + `,"subjects":[{"kind":"X","name":"x"},{"kind":"User"},{"apiGroup":"foo","kind":"Group","name":"g"},{"apiGroup":"foo","kind":"ServiceAccount","name":"A"}]}`,
			"subjects[0].kind subjects[1].name subjects[2].apiGroup subjects[3].name subjects[3].apiGroup"},
		{"an account without a namespace", allBindings, "", ``, `{` + role + `,"subjects":[{"kind":"ServiceAccount","name":"a"}]}`, "subjects[0].namespace"},
		{"an account with a namespace", allBindings, "", ``, `{` + role + `,"subjects":[{"kind":"ServiceAccount","namespace":"n","name":"a"}]}`, ""},
		{"the group of the role as by default", bindings, "", `{` + role + `}`, `{"roleRef":{` + group + `"kind":"ClusterRole","name":"r"}}`, ""},
		{"no group of the role any more", bindings, "", `{"roleRef":{` + group + `"kind":"ClusterRole","name":"r"}}`, `{` + role + `}`, ""},
		{"other subjects", allBindings, "", `{` + role + `}`, `{` + role + `,"subjects":[{"kind":"User","name":"u"}]}`, ""},
		{"another role", allBindings, "", `{` + role + `}`, `{"roleRef":{"kind":"ClusterRole","name":"s"}}`, "roleRef"},
		{"a budget", budgets, "", ``, `{"spec":{"minAvailable":1}}`, ""},
		{"a budget with both bounds", budgets, "", ``, `{"spec":{"minAvailable":1,"maxUnavailable":"10%"}}`, "spec"},
	})
}

func TestPodsOfWorkloadsAreValidated(t *testing.T) {
	const (
		template = `"template":{"metadata":{"labels":{"a":"b"}},"spec":{<pod>}}`
		never    = `"template":{"spec":{"restartPolicy":"Never",<pod>}}`
		set      = `"selector":{"matchLabels":{"a":"b"}},` + template
		index    = `"completionMode":"Indexed","completions":2,"parallelism":2,`
		claim    = `"volumeClaimTemplates":[{"metadata":{"name":"v"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}],`
	)
	cronJob := func(job string) string {
		return `{"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{` + job + `}}}}`
	}
	testWrites(t, []written{
		{"a daemon set without a selector", daemonSets, "", ``, `{"spec":{` + template + `}}`, "spec.template.metadata.labels"},
		{"a daemon set with an empty selector", daemonSets, "", ``, `{"spec":{"selector":{},` + template + `}}`, "spec.selector"},
		{"a stateful set without a selector", statefulSets, "", ``, `{"spec":{` + template + `}}`, "spec.selector spec.template.metadata.labels"},
		{"another selector", daemonSets, "", `{"spec":{` + set + `}}`, strings.ReplaceAll(`{"spec":{`+set+`}}`, `"b"`, `"c"`), "spec.selector"},
		{"a job", jobs, "", ``, `{"spec":{` + never + `}}`, ""},
		{"a job that is restarted on failure", jobs, "", ``, `{"spec":{` + strings.Replace(never, "Never", "OnFailure", 1) + `}}`, ""},
		{"a job without a restartPolicy", jobs, "", ``, `{"spec":{` + template + `}}`, "spec.template.spec.restartPolicy"},
		{"a job that is always restarted", jobs, "", ``, `{"spec":{` + strings.Replace(never, "Never", "Always", 1) + `}}`, "spec.template.spec.restartPolicy"},
		{"negative numbers", jobs, "", ``, `{"spec":{"completions":-1,"parallelism":-1,` + never + `}}`, "spec.completions spec.parallelism"},
		{"a cron job", cronJobs, "", ``, cronJob(never), ""},
		{"a cron job without a schedule", cronJobs, "", ``, strings.Replace(cronJob(never), "* * * * *", "", 1), "spec.schedule"},
		{"a cron job without containers", cronJobs, "", ``, cronJob(`"template":{"spec":{"restartPolicy":"Never"}}`), "spec.jobTemplate.spec.template.spec.containers"},
		{"a cron job without a restartPolicy", cronJobs, "", ``, cronJob(template), "spec.jobTemplate.spec.template.spec.restartPolicy"},
		{"a cron job with negative completions", cronJobs, "", ``, cronJob(`"completions":-1,` + never), "spec.jobTemplate.spec.completions"},
		{"defaults of a job", jobs, "", `{"spec":{` + never + `}}`,
			`{"spec":{"completions":1,"parallelism":1,"completionMode":"NonIndexed","selector":{"matchLabels":{"a":"b"}},` +
				strings.Replace(never, "<pod>", `"containers":[{"name":"c","image":"i","imagePullPolicy":"Always"}]`, 1) + `}}`, ""},
		{"no defaults of a job any more", jobs, "", `{"spec":{"completions":1,"parallelism":1,"completionMode":"NonIndexed",` + never + `}}`, `{"spec":{` + never + `}}`, ""},
		{"another completionMode", jobs, "", `{"spec":{` + index + never + `}}`, strings.Replace(`{"spec":{`+index+never+`}}`, "Indexed", "NonIndexed", 1), "spec.completionMode"},
		{"another completionMode than the default", jobs, "", `{"spec":{"completions":2,` + never + `}}`, `{"spec":{` + index + never + `}}`, "spec.completionMode"},
		{"more completions of an indexed job", jobs, "", `{"spec":{` + index + never + `}}`, strings.ReplaceAll(`{"spec":{`+index+never+`}}`, "2", "3"), ""},
		{"more completions", jobs, "", `{"spec":{"completions":1,` + never + `}}`, `{"spec":{"completions":2,` + never + `}}`, "spec.completions"},
		{"completions in place of none", jobs, "", `{"spec":{"completions":0,` + never + `}}`, `{"spec":{"completions":2,` + never + `}}`, "spec.completions"},
		{"another template", jobs, "", `{"spec":{` + never + `}}`, `{"spec":{` + strings.Replace(never, "<pod>", `"containers":[{"name":"c","image":"j"}]`, 1) + `}}`, "spec.template"},
		{"the default of a podFailurePolicy", jobs, "",
			`{"spec":{"podFailurePolicy":{"rules":[{"action":"Ignore","onPodConditions":[{"type":"X"}]}]},` + never + `}}`,
			`{"spec":{"podFailurePolicy":{"rules":[{"action":"Ignore","onPodConditions":[{"type":"X","status":"True"}]}]},` + never + `}}`, ""},
		{"another podFailurePolicy", jobs, "",
			`{"spec":{"podFailurePolicy":{"rules":[{"action":"Ignore","onPodConditions":[{"type":"X"}]}]},` + never + `}}`,
			`{"spec":{"podFailurePolicy":{"rules":[{"action":"FailJob","onPodConditions":[{"type":"X"}]}]},` + never + `}}`, "spec.podFailurePolicy"},
		{"defaults of a stateful set", statefulSets, "", `{"spec":{` + claim + set + `}}`,
			`{"spec":{"podManagementPolicy":"OrderedReady",` + strings.Replace(claim, `{"accessModes"`, `{"volumeMode":"Filesystem","accessModes"`, 1) + set + `}}`, ""},
		{"no defaults of a stateful set any more", statefulSets, "", `{"spec":{"podManagementPolicy":"OrderedReady",` + set + `}}`, `{"spec":{` + set + `}}`, ""},
		{"another podManagementPolicy", statefulSets, "", `{"spec":{"podManagementPolicy":"OrderedReady",` + set + `}}`, `{"spec":{"podManagementPolicy":"Parallel",` + set + `}}`, "spec.podManagementPolicy"},
		{"larger claims", statefulSets, "", `{"spec":{` + claim + set + `}}`, strings.Replace(`{"spec":{`+claim+set+`}}`, "1Gi", "2Gi", 1), "spec.volumeClaimTemplates"},
		{"one more label in the selector", statefulSets, "", `{"spec":{` + set + `}}`, strings.ReplaceAll(`{"spec":{`+set+`}}`, `"a":"b"`, `"a":"b","c":"d"`), "spec.selector"},
		{"a service", statefulSets, "", `{"spec":{` + set + `}}`, `{"spec":{"serviceName":"s",` + set + `}}`, "spec.serviceName"},
		{"no service any more", statefulSets, "", `{"spec":{"serviceName":"s",` + set + `}}`, `{"spec":{` + set + `}}`, "spec.serviceName"},
	})
}

func TestPodUpdatesAreValidated(t *testing.T) {
	const probe = `{"spec":{"containers":[{"name":"c","image":"i","readinessProbe":{"httpGet":{"port":80}}}]}}`
	spec := func(fields string) string { return `{"spec":{` + fields + `}}` }
	container := func(fields string) string { return spec(`"containers":[{"name":"c","image":"i",` + fields + `}]`) }
	var (
		full = strings.Replace(probe, `"httpGet":{"port":80}`,
			`"periodSeconds":10,"timeoutSeconds":1,"successThreshold":1,"failureThreshold":3,"httpGet":{"port":80,"path":"/","scheme":"HTTP"}`, 1)
		volumes = spec(`"volumes":[{"name":"s","secret":{"secretName":"s"}},{"name":"h","hostPath":{"path":"/"}},` +
			`{"name":"d","downwardAPI":{"items":[{"path":"p","fieldRef":{"fieldPath":"metadata.name"}}]}}],<pod>`)
		fullVolumes = strings.NewReplacer(`"secretName"`, `"defaultMode":420,"secretName"`, `"path":"/"`, `"path":"/","type":""`,
			`"items"`, `"defaultMode":420,"items"`, `"fieldPath"`, `"apiVersion":"v1","fieldPath"`).Replace(volumes)
		seconds = `"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],`
	)
	testWrites(t, []written{
		{"defaults of a probe", pods, "", probe, full, ""},
		{"no defaults of a probe any more", pods, "", full, probe, ""},
		{"another period of a probe", pods, "", full, strings.Replace(full, ":10", ":20", 1), "spec"},
		{"another port of a probe", pods, "", probe, strings.Replace(probe, "80", "81", 1), "spec"},
		{"defaults of volumes", pods, "", volumes, fullVolumes, ""},
		{"no defaults of volumes any more", pods, "", fullVolumes, volumes, ""},
		{"another mode of a volume", pods, "", fullVolumes, strings.Replace(fullVolumes, "420", "384", 1), "spec"},
		{"another secret", pods, "", volumes, strings.Replace(volumes, `"secretName":"s"`, `"secretName":"t"`, 1), "spec"},
		{"requests from limits", pods, "", container(`"resources":{"limits":{"cpu":"1"}}`), container(`"resources":{"limits":{"cpu":"1000m"},"requests":{"cpu":"1"}}`), ""},
		{"other limits", pods, "", container(`"resources":{"limits":{"cpu":"1"}}`), container(`"resources":{"limits":{"cpu":"2"}}`), "spec"},
		{"a hostPort of the host's network", pods, "", spec(`"hostNetwork":true,"containers":[{"name":"c","image":"i","ports":[{"containerPort":80}]}]`),
			spec(`"hostNetwork":true,"containers":[{"name":"c","image":"i","ports":[{"containerPort":80,"hostPort":80,"protocol":"TCP"}]}]`), ""},
		{"one more port", pods, "", container(`"ports":[{"containerPort":80}]`), container(`"ports":[{"containerPort":80},{"containerPort":81}]`), "spec"},
		{"the host's network", pods, "", spec(`<pod>`), spec(`"hostNetwork":true,<pod>`), "spec"},
		{"the serviceAccount", pods, "", spec(`"serviceAccountName":"a",<pod>`), spec(`"serviceAccountName":"a","serviceAccount":"a",<pod>`), ""},
		{"another serviceAccount, which does not count", pods, "", spec(`"serviceAccountName":"a","serviceAccount":"a",<pod>`), spec(`"serviceAccountName":"a","serviceAccount":"b",<pod>`), ""},
		{"another serviceAccountName", pods, "", spec(`"serviceAccountName":"a",<pod>`), spec(`"serviceAccountName":"b",<pod>`), "spec"},
		{"defaults of the pod", pods, "", spec(`<pod>`),
			spec(`"restartPolicy":"Always","dnsPolicy":"ClusterFirst","terminationGracePeriodSeconds":30,"securityContext":{},"schedulerName":"default-scheduler","priority":0,"enableServiceLinks":true,` +
				`"containers":[{"name":"c","image":"i","imagePullPolicy":"Always","terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","resources":{}}]`), ""},
		{"another restartPolicy", pods, "", spec(`"restartPolicy":"Never",<pod>`), spec(`"restartPolicy":"Always",<pod>`), "spec"},
		{"another grace period", pods, "", spec(`"terminationGracePeriodSeconds":0,<pod>`), spec(`"terminationGracePeriodSeconds":30,<pod>`), "spec"},
		{"a grace period that was negative", pods, "", spec(`"terminationGracePeriodSeconds":-1,<pod>`), spec(`"terminationGracePeriodSeconds":1,<pod>`), ""},
		{"a node", pods, "", spec(`<pod>`), spec(`"nodeName":"n",<pod>`), "spec"},
		{"no node any more", pods, "", spec(`"nodeName":"n",<pod>`), spec(`<pod>`), "spec"},
		{"a command", pods, "", spec(`<pod>`), container(`"command":["x"]`), "spec"},
		{"other arguments", pods, "", container(`"args":["x",""]`), container(`"args":["x","y"]`), "spec"},
		{"without the tolerations of every pod", pods, "", spec(seconds + `<pod>`), spec(`<pod>`), ""},
		{"without a toleration", pods, "", spec(`"tolerations":[{"key":"a","operator":"Exists"}],<pod>`), spec(`<pod>`), "spec.tolerations"},
		{"placement while it has gates", pods, "", spec(`"schedulingGates":[{"name":"g"}],<pod>`), spec(`"nodeSelector":{"a":"b"},<pod>`), ""},
		{"a new gate", pods, "", spec(`<pod>`), spec(`"schedulingGates":[{"name":"g"}],<pod>`), "spec.schedulingGates[0].name"},
		{"an ephemeral container", pods, "ephemeralcontainers", spec(`<pod>`), spec(`<pod>,"ephemeralContainers":[{"name":"e","image":"i"}]`), ""},
		{"ephemeral containers with names of others", pods, "ephemeralcontainers", spec(`<pod>,"initContainers":[{"name":"i","image":"i"}]`),
			spec(`<pod>,"initContainers":[{"name":"i","image":"i"}],"ephemeralContainers":[{"name":"c","image":"i"},{"name":"i","image":"i"},{"name":"e","image":"i"},{"name":"e","image":"i"}]`),
			"spec.ephemeralContainers[0].name spec.ephemeralContainers[1].name spec.ephemeralContainers[3].name"},
		{"an ephemeral container without name and image", pods, "ephemeralcontainers", spec(`<pod>`), spec(`<pod>,"ephemeralContainers":[{}]`),
			"spec.ephemeralContainers[0].name spec.ephemeralContainers[0].image"},
	})
}

func TestSecretWithoutTypeIsOpaque(t *testing.T) {
	inBubble(t, func(t *testing.T, server *informertest.Server, clients *kubernetes.Clientset) {
		add(t, server, corev1.SchemeGroupVersion.WithResource("secrets"),
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
		_, err := clients.CoreV1().Secrets("default").Patch(t.Context(), "a", types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{})
		wantError(t, "patch", err, "")
	})
}

package informertest_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	autoscalingv1apply "k8s.io/client-go/applyconfigurations/autoscaling/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// answerOf returns the code, message and causes of an error of the API, or nothing.
func answerOf(err error) string {
	if err == nil {
		return ""
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err.Error()
	}
	s := status.Status()
	text := fmt.Sprint(s.Code, " ", s.Message)
	if s.Details != nil && s.Reason == metav1.StatusReasonTooManyRequests {
		for _, cause := range s.Details.Causes {
			text += fmt.Sprintf(" [%s: %s]", cause.Type, cause.Message)
		}
		text += fmt.Sprint(" retry ", s.Details.RetryAfterSeconds)
	}
	return text
}

func wantAnswer(t *testing.T, what string, err error, want string) {
	t.Helper()
	if got := answerOf(err); got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func TestScale(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, clients *kubernetes.Clientset, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		deployments := informertest.Register[*appsv1.Deployment](server, informertest.Resource{
			GroupVersionResource: appsv1.SchemeGroupVersion.WithResource("deployments")})
		replicas := int32(2)
		created, err := deployments.Create(&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{
				MatchLabels: map[string]string{"app": "web"}}},
			Status: appsv1.DeploymentStatus{Replicas: 1},
		})
		must(t, err)
		api := clients.AppsV1().Deployments("default")
		scale, err := api.GetScale(t.Context(), "web", metav1.GetOptions{})
		must(t, err)
		if got := fmt.Sprint(scale.UID == created.UID, scale.ResourceVersion == created.ResourceVersion, scale.Spec.Replicas, scale.Status); got != "true true 2 {1 app=web}" {
			t.Errorf("got %s", got)
		}
		scale.Spec.Replicas = 5
		scale, err = api.UpdateScale(t.Context(), "web", scale, metav1.UpdateOptions{})
		must(t, err)
		stored, _ := deployments.Get(informer.Key{Namespace: "default", Name: "web"})
		if *stored.Spec.Replicas != 5 || stored.Generation != 2 || stored.Status.Replicas != 1 || scale.ResourceVersion != stored.ResourceVersion {
			t.Errorf("stored %+v, scale %+v", stored, scale)
		}
		old := scale.DeepCopy()
		old.ResourceVersion = created.ResourceVersion
		_, err = api.UpdateScale(t.Context(), "web", old, metav1.UpdateOptions{})
		wantAnswer(t, "an old version", err, `409 Operation cannot be fulfilled on deployments.apps "web": the object has been modified; please apply your changes to the latest version and try again`)
		scale.Spec.Replicas = -1
		_, err = api.UpdateScale(t.Context(), "web", scale, metav1.UpdateOptions{})
		wantAnswer(t, "negative", err, `422 Scale.autoscaling "web" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0`)
		_, err = api.GetScale(t.Context(), "none", metav1.GetOptions{})
		wantAnswer(t, "missing", err, `404 deployments.apps "none" not found`)
		scale = &autoscalingv1.Scale{}
		must(t, clients.AppsV1().RESTClient().Patch(types.MergePatchType).Namespace("default").Resource("deployments").Name("web").
			SubResource("scale").Body([]byte(`{"spec":{"replicas":7}}`)).Do(t.Context()).Into(scale))
		stored, _ = deployments.Get(informer.Key{Namespace: "default", Name: "web"})
		if *stored.Spec.Replicas != 7 || scale.Spec.Replicas != 7 {
			t.Errorf("patched to %d, scale %d", *stored.Spec.Replicas, scale.Spec.Replicas)
		}
	})
}

// A field manager owns the replicas that it has applied to the scale, in the managedFields of the object.
func TestScale_Apply(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, clients *kubernetes.Clientset, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		deployments := informertest.Register[*appsv1.Deployment](server, informertest.Resource{
			GroupVersionResource: appsv1.SchemeGroupVersion.WithResource("deployments")})
		_, err := deployments.Create(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})
		must(t, err)
		apply := func(manager string, replicas int32, force bool) error {
			scale := autoscalingv1apply.Scale().WithSpec(autoscalingv1apply.ScaleSpec().WithReplicas(replicas))
			_, err := clients.AppsV1().Deployments("default").ApplyScale(t.Context(), "web", scale,
				metav1.ApplyOptions{FieldManager: manager, Force: force})
			return err
		}
		must(t, apply("one", 3, false))
		must(t, apply("two", 3, false))
		wantAnswer(t, "another value", apply("two", 4, false), `409 Apply failed with 1 conflict: conflict with "one" with subresource "scale": .spec.replicas`)
		must(t, apply("two", 4, true))
		stored, _ := deployments.Get(informer.Key{Namespace: "default", Name: "web"})
		if len(stored.ManagedFields) != 1 || *stored.Spec.Replicas != 4 {
			t.Fatalf("got %d replicas, managed by %v", *stored.Spec.Replicas, stored.ManagedFields)
		}
		entry := stored.ManagedFields[0]
		got := fmt.Sprint(entry.Manager, " ", entry.Operation, " ", entry.APIVersion, " ", entry.Subresource, " ", entry.FieldsV1)
		if want := `two Apply apps/v1 scale {"f:spec":{"f:replicas":{}}}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		_, err = clients.AppsV1().Deployments("default").ApplyScale(t.Context(), "web", autoscalingv1apply.Scale().
			WithKind("Other"), metav1.ApplyOptions{FieldManager: "one"})
		wantAnswer(t, "another kind", err, "400 invalid object type: autoscaling/v1, Kind=Other")
	})
}

func TestEviction(t *testing.T) {
	budget := func(status policyv1.PodDisruptionBudgetStatus) []*policyv1.PodDisruptionBudget {
		return []*policyv1.PodDisruptionBudget{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}},
			Status:     status,
		}}
	}
	other := budget(policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1})
	other[0].Spec.Selector.MatchLabels["app"] = "other"
	always := policyv1.AlwaysAllow
	unhealthy := budget(policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1})
	unhealthy[0].Spec.UnhealthyPodEvictionPolicy = &always
	two := append(budget(policyv1.PodDisruptionBudgetStatus{}), budget(policyv1.PodDisruptionBudgetStatus{})...)
	two[1].Name = "c"
	const refused = "429 Cannot evict pod as it would violate the pod's disruption budget. "
	for _, c := range []struct {
		name    string
		budgets []*policyv1.PodDisruptionBudget
		ready   bool
		phase   corev1.PodPhase
		want    string
	}{
		{"no budget", nil, true, corev1.PodRunning, ""},
		{"budget of others", other, true, corev1.PodRunning, ""},
		{"allowed", budget(policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: 1}), true, corev1.PodRunning, ""},
		{"exhausted", budget(policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DesiredHealthy: 2, CurrentHealthy: 2}), true, corev1.PodRunning,
			refused + "[DisruptionBudget: The disruption budget b needs 2 healthy pods and has 2 currently] retry 0"},
		{"not yet observed", budget(policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1}), true, corev1.PodRunning,
			refused + "[DisruptionBudget: The disruption budget b is still being processed by the server.] retry 10"},
		{"negative", budget(policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: -1}), true, corev1.PodRunning,
			`403 poddisruptionbudget.policy "b" is forbidden: pdb disruptions allowed is negative`},
		{"two budgets", two, true, corev1.PodRunning,
			"500 This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."},
		{"pending", budget(policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1}), false, corev1.PodPending, ""},
		{"unhealthy, budget met", budget(policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DesiredHealthy: 2, CurrentHealthy: 2}), false, corev1.PodRunning, ""},
		{"unhealthy, budget not met", budget(policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DesiredHealthy: 2, CurrentHealthy: 1}), false, corev1.PodRunning,
			refused + "[DisruptionBudget: The disruption budget b needs 2 healthy pods and has 1 currently] retry 0"},
		{"unhealthy, always allowed", unhealthy, false, corev1.PodRunning, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
				budgets := informertest.Register[*policyv1.PodDisruptionBudget](server, informertest.Resource{
					GroupVersionResource: policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")})
				for _, b := range c.budgets {
					_, err := budgets.Create(b)
					must(t, err)
				}
				pod := newPod("default", "a")
				pod.Status.Phase = c.phase
				if c.ready {
					pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
				}
				_, err := pods.Create(pod)
				must(t, err)
				clients := clientsetFor(t, server.Config())
				evict := func(name string, dryRun ...string) error {
					return clients.CoreV1().Pods("default").EvictV1(t.Context(), &policyv1.Eviction{
						ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, DeleteOptions: &metav1.DeleteOptions{DryRun: dryRun}})
				}
				wantAnswer(t, "a dry run", evict("a", metav1.DryRunAll), c.want)
				wantAnswer(t, "an eviction", evict("a"), c.want)
				if _, exists := pods.Get(informer.Key{Namespace: "default", Name: "a"}); exists == (c.want == "") {
					t.Errorf("the pod exists: %v", exists)
				}
				if c.name == "allowed" {
					b, _ := budgets.Get(informer.Key{Namespace: "default", Name: "b"})
					if _, told := b.Status.DisruptedPods["a"]; b.Status.DisruptionsAllowed != 0 || !told {
						t.Errorf("the budget has %+v", b.Status)
					}
				}
				wantAnswer(t, "a missing pod", evict("none"), `404 pods "none" not found`)
			})
		})
	}
}

func TestEviction_AFinalizerKeepsThePod(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		pod := newPod("default", "a")
		pod.Finalizers = []string{"example.com/wait"}
		_, err := pods.Create(pod)
		must(t, err)
		must(t, clientsetFor(t, server.Config()).CoreV1().Pods("default").EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}))
		pod, _ = pods.Get(informer.Key{Namespace: "default", Name: "a"})
		if pod.DeletionTimestamp == nil || len(pod.Status.Conditions) != 1 || pod.Status.Conditions[0].Reason != "EvictionByEvictionAPI" {
			t.Errorf("got %+v", pod)
		}
	})
}

func TestBinding(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, clients *kubernetes.Clientset, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		pod := newPod("default", "a")
		pod.Spec.NodeName = ""
		_, err := pods.Create(pod)
		must(t, err)
		bind := func(name, node string) error {
			return clients.CoreV1().Pods("default").Bind(t.Context(), &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{"by": "test"}},
				Target:     corev1.ObjectReference{Kind: "Node", Name: node}}, metav1.CreateOptions{})
		}
		must(t, bind("a", "n7"))
		pod, _ = pods.Get(informer.Key{Namespace: "default", Name: "a"})
		if pod.Spec.NodeName != "n7" || pod.Annotations["by"] != "test" || len(pod.Status.Conditions) != 1 || pod.Status.Conditions[0].Type != corev1.PodScheduled {
			t.Errorf("got %+v", pod)
		}
		wantAnswer(t, "again", bind("a", "n8"), `409 Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n7"`)
		wantAnswer(t, "missing", bind("none", "n8"), `404 pods "none" not found`)
		wantAnswer(t, "without a node", bind("a", ""), "500 target.name: Required value")
	})
}

func TestEphemeralContainers(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		_, err := pods.Create(newPod("default", "a"))
		must(t, err)
		api := clientsetFor(t, server.Config()).CoreV1().Pods("default")
		pod, err := api.Get(t.Context(), "a", metav1.GetOptions{})
		must(t, err)
		pod.Labels, pod.Spec.NodeName = nil, "other" // neither is written
		pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "i"}}}
		pod, err = api.UpdateEphemeralContainers(t.Context(), "a", pod, metav1.UpdateOptions{})
		must(t, err)
		if len(pod.Spec.EphemeralContainers) != 1 || pod.Spec.NodeName != "n1" || pod.Labels["app"] != "a" || pod.Generation != 2 || pod.Status.Phase != corev1.PodRunning {
			t.Errorf("got %+v", pod)
		}
		_, err = api.Patch(t.Context(), "a", types.StrategicMergePatchType,
			[]byte(`{"spec":{"ephemeralContainers":[{"name":"debug","image":"j"}]}}`), metav1.PatchOptions{}, "ephemeralcontainers")
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `existing ephemeral containers "debug" may not be changed`) {
			t.Errorf("got %v", err)
		}
		pod.Spec.EphemeralContainers = nil
		_, err = api.UpdateEphemeralContainers(t.Context(), "a", pod, metav1.UpdateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `existing ephemeral containers "debug" may not be removed`) {
			t.Errorf("got %v", err)
		}
	})
}

func TestCertificateApproval(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, clients *kubernetes.Clientset, server *informertest.Server, _ *informertest.Collection[*corev1.Pod]) {
		requests := informertest.Register[*certificatesv1.CertificateSigningRequest](server, informertest.Resource{
			GroupVersionResource: certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests"), ClusterScoped: true})
		created, err := requests.Create(&certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "a"},
			Spec:   certificatesv1.CertificateSigningRequestSpec{SignerName: "example.com/s"},
			Status: certificatesv1.CertificateSigningRequestStatus{Certificate: []byte("c")}})
		must(t, err)
		api := clients.CertificatesV1().CertificateSigningRequests()
		approve := func(types ...certificatesv1.RequestConditionType) (*certificatesv1.CertificateSigningRequest, error) {
			csr := created.DeepCopy()
			csr.ResourceVersion, csr.Spec.SignerName, csr.Status.Certificate = "", "example.com/other", nil
			for _, t := range types {
				csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: t, Status: corev1.ConditionTrue})
			}
			return api.UpdateApproval(t.Context(), "a", csr, metav1.UpdateOptions{})
		}
		csr, err := approve(certificatesv1.CertificateApproved)
		must(t, err)
		if csr.Spec.SignerName != "example.com/s" || string(csr.Status.Certificate) != "c" || len(csr.Status.Conditions) != 1 || csr.Status.Conditions[0].LastUpdateTime.IsZero() {
			t.Errorf("got %+v", csr)
		}
		_, err = approve(certificatesv1.CertificateApproved, certificatesv1.CertificateDenied)
		wantAnswer(t, "both", err, `422 CertificateSigningRequest.certificates.k8s.io "a" is invalid: status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive`)
		_, err = approve()
		wantAnswer(t, "none", err, `422 CertificateSigningRequest.certificates.k8s.io "a" is invalid: status.conditions: Forbidden: updates may not remove a condition of type "Approved"`)
	})
}

func TestServiceAccountToken(t *testing.T) {
	bubble(t, informertest.Options{Auth: &informertest.Auth{}}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		accounts := informertest.Register[*corev1.ServiceAccount](server, informertest.Resource{
			GroupVersionResource: corev1.SchemeGroupVersion.WithResource("serviceaccounts")})
		account, err := accounts.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}})
		must(t, err)
		pod := newPod("n", "p")
		pod, err = pods.Create(pod)
		must(t, err)
		informertest.RegisterReviews(server)
		api := clientsetFor(t, server.Config()).CoreV1().ServiceAccounts("n")
		request := func(spec authenticationv1.TokenRequestSpec) (*authenticationv1.TokenRequest, error) {
			return api.CreateToken(t.Context(), "a", &authenticationv1.TokenRequest{Spec: spec}, metav1.CreateOptions{})
		}
		seconds, short := int64(1200), int64(60)
		token, err := request(authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds,
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "p"}})
		must(t, err)
		if wait := time.Until(token.Status.ExpirationTimestamp.Time); wait != 20*time.Minute {
			t.Errorf("it expires in %v", wait)
		}
		parts := strings.Split(token.Status.Token, ".")
		payload, err := base64.RawURLEncoding.DecodeString(parts[1])
		must(t, err)
		var claims struct {
			Sub        string   `json:"sub"`
			Aud        []string `json:"aud"`
			Kubernetes struct {
				Namespace string            `json:"namespace"`
				Account   map[string]string `json:"serviceaccount"`
				Pod       map[string]string `json:"pod"`
			} `json:"kubernetes.io"`
		}
		must(t, json.Unmarshal(payload, &claims))
		if got, want := fmt.Sprint(claims), fmt.Sprintf("{system:serviceaccount:n:a [https://kubernetes.default.svc] {n map[name:a uid:%s] map[name:p uid:%s]}}", account.UID, pod.UID); got != want {
			t.Errorf("claims\n got %s\nwant %s", got, want)
		}
		config := rest.AnonymousClientConfig(server.Config())
		config.BearerToken = token.Status.Token
		self, err := clientsetFor(t, config).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		must(t, err)
		user := self.Status.UserInfo
		secrets := informertest.Register[*corev1.Secret](server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets")})
		_, err = secrets.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"}})
		must(t, err)
		token, err = request(authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: "s"}})
		must(t, err)
		ofSecret := rest.AnonymousClientConfig(server.Config())
		ofSecret.BearerToken = token.Status.Token
		self, err = clientsetFor(t, ofSecret).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		must(t, err)
		if extra := self.Status.UserInfo.Extra; len(extra["authentication.kubernetes.io/pod-name"]) > 0 {
			t.Errorf("a token for a Secret has %v", extra)
		}
		if got, want := fmt.Sprint(user.Username, " ", user.UID == string(account.UID), " ", user.Groups, " ", user.Extra["authentication.kubernetes.io/pod-name"]),
			"system:serviceaccount:n:a true [system:serviceaccounts system:serviceaccounts:n system:authenticated] [p]"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		time.Sleep(20*time.Minute + time.Second)
		_, err = clientsetFor(t, config).CoreV1().Pods("n").List(t.Context(), metav1.ListOptions{})
		wantAnswer(t, "an expired token", err, "401 Unauthorized")
		elsewhere, err := request(authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}})
		must(t, err)
		config.BearerToken = elsewhere.Status.Token
		_, err = clientsetFor(t, config).CoreV1().Pods("n").List(t.Context(), metav1.ListOptions{})
		wantAnswer(t, "a token for others", err, "401 Unauthorized")
		_, err = request(authenticationv1.TokenRequestSpec{ExpirationSeconds: &short})
		wantAnswer(t, "short", err, `422 TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes`)
		_, err = request(authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "none"}})
		wantAnswer(t, "bound to nothing", err, `404 pods "none" not found`)
	})
}

func TestReviews(t *testing.T) {
	authBubble(t, func(t *testing.T, server *informertest.Server) {
		informertest.RegisterReviews(server)
		pods := func(verb string) *authorizationv1.ResourceAttributes {
			return &authorizationv1.ResourceAttributes{Namespace: "default", Verb: verb, Version: "v1", Resource: "pods"}
		}
		alice := clientsetFor(t, server.ConfigFor(userNamed("alice"))).AuthorizationV1()
		for verb, want := range map[string]bool{"list": true, "delete": false} {
			review, err := alice.SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: pods(verb)}}, metav1.CreateOptions{})
			must(t, err)
			if review.Status.Allowed != want {
				t.Errorf("may alice %s pods? %+v", verb, review.Status)
			}
		}
		_, err := alice.SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("alice may ask about others: %v", err)
		}
		_, err = alice.SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{}, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "exactly one of nonResourceAttributes or resourceAttributes must be specified") {
			t.Errorf("got %v", err)
		}
		admin := clientsetFor(t, server.Config())
		review, err := admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: "bob", ResourceAttributes: pods("list")}}, metav1.CreateOptions{})
		must(t, err)
		if review.Status.Allowed || review.Status.Reason != "bob is on leave" {
			t.Errorf("got %+v", review.Status)
		}
		local, err := admin.AuthorizationV1().LocalSubjectAccessReviews("default").Create(t.Context(), &authorizationv1.LocalSubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: "alice", ResourceAttributes: pods("list")}}, metav1.CreateOptions{})
		must(t, err)
		if !local.Status.Allowed {
			t.Errorf("got %+v", local.Status)
		}
		for token, want := range map[string]string{server.TokenFor(userNamed("alice")): "true alice ", "x": "false  invalid bearer token"} {
			review, err := admin.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
				Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
			must(t, err)
			if got := fmt.Sprint(review.Status.Authenticated, " ", review.Status.User.Username, " ", review.Status.Error); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		_, err = admin.Discovery().ServerResourcesForGroupVersion("authorization.k8s.io/v1")
		must(t, err)
	})
}

func TestReviews_WithoutUsersEverythingIsAllowed(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, _ *informertest.Collection[*corev1.Pod]) {
		informertest.RegisterReviews(server)
		clients := clientsetFor(t, server.Config())
		review, err := clients.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/x", Verb: "get"}}}, metav1.CreateOptions{})
		must(t, err)
		self, err := clients.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		must(t, err)
		if !review.Status.Allowed || self.Status.UserInfo.Username != "system:anonymous" {
			t.Errorf("got %+v and %+v", review.Status, self.Status)
		}
	})
}

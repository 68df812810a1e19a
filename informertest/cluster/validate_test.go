package cluster_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/typedinformer/informer/informertest"
)

// wantError checks the text of an error, or that there is none.
func wantError(t *testing.T, what string, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func TestPodsNeedContainers(t *testing.T) {
	inBubble(t, func(t *testing.T, server *informertest.Server, clients *kubernetes.Clientset) {
		create := func(name string, containers ...corev1.Container) error {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: containers}}
			_, err := clients.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
			return err
		}
		wantError(t, "none", create("a"), `Pod "a" is invalid: spec.containers: Required value`)
		wantError(t, "without name and image", create("a", corev1.Container{}),
			`Pod "a" is invalid: [spec.containers[0].name: Required value, spec.containers[0].image: Required value]`)
		c := corev1.Container{Name: "c", Image: "i"}
		wantError(t, "twice", create("a", c, c), `Pod "a" is invalid: spec.containers[1].name: Duplicate value: "c"`)
		wantError(t, "valid", create("a", c), "")
		wantError(t, "name", create("A b", c), `Pod "A b" is invalid: metadata.name: Invalid value: "A b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`)
	})
}

func TestWorkloadsSelectTheirPods(t *testing.T) {
	inBubble(t, func(t *testing.T, server *informertest.Server, clients *kubernetes.Clientset) {
		api := clients.AppsV1().Deployments("default")
		template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: appsv1.DeploymentSpec{Template: template}}
		_, err := api.Create(t.Context(), deployment, metav1.CreateOptions{})
		wantError(t, "no selector", err, `Deployment.apps "a" is invalid: spec.selector: Required value`)
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "b"}}
		_, err = api.Create(t.Context(), deployment, metav1.CreateOptions{})
		wantError(t, "another selector", err, "Deployment.apps \"a\" is invalid: spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`")
		deployment.Spec.Selector.MatchLabels["app"] = "a"
		deployment, err = api.Create(t.Context(), deployment, metav1.CreateOptions{})
		wantError(t, "valid", err, "")
		deployment.Spec.Selector.MatchLabels["app"] = "b"
		deployment.Spec.Template.Labels["app"] = "b"
		_, err = api.Update(t.Context(), deployment, metav1.UpdateOptions{})
		wantError(t, "a changed selector", err, `Deployment.apps "a" is invalid: spec.selector: Invalid value: {"matchLabels":{"app":"b"}}: field is immutable`)
		deployment.Spec.Selector.MatchLabels["app"] = "a"
		deployment.Spec.Template.Labels["app"] = "a"
		deployment.Spec.Template.Spec.Containers = nil
		_, err = api.Update(t.Context(), deployment, metav1.UpdateOptions{})
		wantError(t, "no containers", err, `Deployment.apps "a" is invalid: spec.template.spec.containers: Required value`)
		deployment.Status.Replicas = 1
		_, err = api.UpdateStatus(t.Context(), deployment, metav1.UpdateOptions{})
		wantError(t, "the status only", err, "")
	})
}

func TestFieldsThatMayNotChange(t *testing.T) {
	inBubble(t, func(t *testing.T, server *informertest.Server, clients *kubernetes.Clientset) {
		yes := true
		secrets := clients.CoreV1().Secrets("default")
		secret, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"},
			StringData: map[string]string{"x": "1"}, Immutable: &yes}, metav1.CreateOptions{})
		wantError(t, "create", err, "")
		if string(secret.Data["x"]) != "1" || secret.StringData != nil || secret.Type != corev1.SecretTypeOpaque {
			t.Errorf("got %+v", secret)
		}
		secret.Type, secret.Data, secret.Immutable = corev1.SecretTypeDockercfg, nil, nil
		_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
		wantError(t, "a secret", err, "Secret \"a\" is invalid: [type: Invalid value: \"kubernetes.io/dockercfg\": field is immutable, immutable: Forbidden: field is immutable when `immutable` is set, data: Forbidden: field is immutable when `immutable` is set]")
		maps := clients.CoreV1().ConfigMaps("default")
		config, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Immutable: &yes}, metav1.CreateOptions{})
		wantError(t, "create", err, "")
		config.Data, config.BinaryData = map[string]string{"x": "1"}, map[string][]byte{"y": {1}}
		_, err = maps.Update(t.Context(), config, metav1.UpdateOptions{})
		wantError(t, "a config map", err, "ConfigMap \"a\" is invalid: [data: Forbidden: field is immutable when `immutable` is set, binaryData: Forbidden: field is immutable when `immutable` is set]")
		config.Data, config.BinaryData, config.Labels = nil, nil, map[string]string{"x": "1"}
		_, err = maps.Update(t.Context(), config, metav1.UpdateOptions{})
		wantError(t, "only labels", err, "")
	})
}

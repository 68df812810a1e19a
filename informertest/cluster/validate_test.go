package cluster_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/typedinformer/informer/informertest"
)

// wantError checks the text of an error. Empty means no error.
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
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: appsv1.DeploymentSpec{Template: podTemplate()}}
		_, err := api.Create(t.Context(), deployment, metav1.CreateOptions{})
		wantError(t, "no selector", err, "Deployment.apps \"a\" is invalid: [spec.selector: Required value, spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`]")
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

func TestStatefulSetsKeepPartsOfTheirSpec(t *testing.T) {
	inBubble(t, func(t *testing.T, server *informertest.Server, clients *kubernetes.Clientset) {
		api := clients.AppsV1().StatefulSets("default")
		set, err := api.Create(t.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}, Template: podTemplate()}}, metav1.CreateOptions{})
		wantError(t, "create", err, "")
		set.Spec.Replicas, set.Spec.Template.Spec.Containers[0].Image = new(int32(3)), "j"
		set, err = api.Update(t.Context(), set, metav1.UpdateOptions{})
		wantError(t, "replicas and template", err, "")
		set.Spec.Selector.MatchLabels["app"], set.Spec.Template.Labels["app"] = "b", "b"
		_, err = api.Update(t.Context(), set, metav1.UpdateOptions{})
		const refused = `StatefulSet.apps "a" is invalid: spec.`
		wantError(t, "the selector", err, refused+`selector: Invalid value: {"matchLabels":{"app":"b"}}: field is immutable`)
		set.Spec.Selector.MatchLabels["app"], set.Spec.Template.Labels["app"], set.Spec.ServiceName = "a", "a", "other"
		_, err = api.Update(t.Context(), set, metav1.UpdateOptions{})
		wantError(t, "the service", err, refused+`serviceName: Invalid value: "other": field is immutable`)
		set.Spec.ServiceName, set.Spec.PodManagementPolicy = "", appsv1.OrderedReadyPodManagement
		set, err = api.Update(t.Context(), set, metav1.UpdateOptions{})
		wantError(t, "the default of the policy", err, "")
		set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
		_, err = api.Update(t.Context(), set, metav1.UpdateOptions{})
		wantError(t, "the policy", err, refused+`podManagementPolicy: Invalid value: "Parallel": field is immutable`)
	})
}

func TestJobsKeepMostOfTheirSpec(t *testing.T) {
	inBubble(t, func(t *testing.T, server *informertest.Server, clients *kubernetes.Clientset) {
		api := clients.BatchV1().Jobs("default")
		template := podTemplate()
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
		template.Spec.NodeSelector = map[string]string{"disk": "hdd"}
		template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("2")}
		job, err := api.Create(t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: batchv1.JobSpec{
			Completions: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}},
			Template: template}}, metav1.CreateOptions{})
		wantError(t, "create", err, "")
		update := func(change func(spec *batchv1.JobSpec)) error {
			changed := job.DeepCopy()
			change(&changed.Spec)
			changed, err := api.Update(t.Context(), changed, metav1.UpdateOptions{})
			if err == nil {
				job = changed
			}
			return err
		}
		wantError(t, "parallelism", update(func(spec *batchv1.JobSpec) { spec.Parallelism = new(int32(2)) }), "")
		wantError(t, "completions and selector", update(func(spec *batchv1.JobSpec) {
			spec.Completions, spec.Selector = new(int32(2)), &metav1.LabelSelector{MatchLabels: map[string]string{"app": "b"}}
		}), `Job.batch "a" is invalid: [spec.completions: Invalid value: 2: field is immutable, spec.selector: Invalid value: {"matchLabels":{"app":"b"}}: field is immutable]`)
		resources := func(spec *batchv1.JobSpec) {
			spec.Template.Spec.NodeSelector = map[string]string{"disk": "ssd"}
			spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1")}
		}
		if err := update(resources); err == nil || !strings.Contains(err.Error(), "spec.template: Invalid value: ") ||
			!strings.HasSuffix(err.Error(), "field is immutable") {
			t.Errorf("the template: %v", err)
		}
		wantError(t, "suspend", update(func(spec *batchv1.JobSpec) { spec.Suspend = new(true) }), "")
		wantError(t, "the template while it is suspended", update(resources), "")
		if err := update(func(spec *batchv1.JobSpec) { spec.Template.Spec.Containers[0].Image = "j" }); err == nil ||
			!strings.Contains(err.Error(), "spec.template.spec: Invalid value: ") {
			t.Errorf("the image while it is suspended: %v", err)
		}
	})
}

// podTemplate returns a template of pods that have the label app=a.
func podTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
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
		wantError(t, "a secret", err, "Secret \"a\" is invalid: [type: Invalid value: \"kubernetes.io/dockercfg\": field is immutable, immutable: Forbidden: field is immutable when `immutable` is set, data: Forbidden: field is immutable when `immutable` is set, data[.dockercfg]: Required value]")
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

func TestPodsKeepMostOfTheirSpec(t *testing.T) {
	inBubble(t, func(t *testing.T, server *informertest.Server, clients *kubernetes.Clientset) {
		api := clients.CoreV1().Pods("default")
		pod, err := api.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: podTemplate().Spec}, metav1.CreateOptions{})
		wantError(t, "create", err, "")
		update := func(change func(spec *corev1.PodSpec)) error {
			changed := pod.DeepCopy()
			change(&changed.Spec)
			changed, err := api.Update(t.Context(), changed, metav1.UpdateOptions{})
			if err == nil {
				pod = changed
			}
			return err
		}
		wantError(t, "image, deadline and toleration", update(func(spec *corev1.PodSpec) {
			spec.Containers[0].Image, spec.ActiveDeadlineSeconds = "j", new(int64(10))
			spec.Tolerations = []corev1.Toleration{{Key: "a"}}
		}), "")
		wantError(t, "defaults", update(func(spec *corev1.PodSpec) { spec.RestartPolicy = corev1.RestartPolicyAlways }), "")
		wantError(t, "without the defaults", update(func(spec *corev1.PodSpec) { spec.RestartPolicy = "" }), "")
		for what, change := range map[string]func(spec *corev1.PodSpec){
			"the node":    func(spec *corev1.PodSpec) { spec.NodeName = "n" },
			"the command": func(spec *corev1.PodSpec) { spec.Containers[0].Command = []string{"x"} },
		} {
			if err := update(change); err == nil || !strings.Contains(err.Error(), "spec: Forbidden: pod updates may not change fields other than") {
				t.Errorf("%s: %v", what, err)
			}
		}
		wantError(t, "a container", update(func(spec *corev1.PodSpec) {
			spec.Containers = append(spec.Containers, corev1.Container{Name: "d", Image: "i"})
		}), `Pod "a" is invalid: spec.containers: Forbidden: pod updates may not add or remove containers`)
		wantError(t, "a later deadline", update(func(spec *corev1.PodSpec) { spec.ActiveDeadlineSeconds = new(int64(20)) }),
			`Pod "a" is invalid: spec.activeDeadlineSeconds: Invalid value: 20: must be less than or equal to previous value`)
	})
}

func TestAutoscalersHaveBoundsAndATarget(t *testing.T) {
	inBubble(t, func(t *testing.T, server *informertest.Server, clients *kubernetes.Clientset) {
		api := clients.AutoscalingV2().HorizontalPodAutoscalers("default")
		obj := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		_, err := api.Create(t.Context(), obj, metav1.CreateOptions{})
		wantError(t, "empty", err, "HorizontalPodAutoscaler.autoscaling \"a\" is invalid: [spec.maxReplicas: Required value: must be set and greater than 0, spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`, spec.scaleTargetRef.kind: Required value, spec.scaleTargetRef.name: Required value, spec.scaleTargetRef.apiVersion: Invalid value: \"\": apiVersion must specify API group]")
		obj.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 2,
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "ReplicationController", Name: "r"}}
		_, err = api.Create(t.Context(), obj, metav1.CreateOptions{})
		wantError(t, "a ReplicationController", err, "")
		obj.Spec.ScaleTargetRef.Kind = "Deployment"
		_, err = api.Update(t.Context(), obj, metav1.UpdateOptions{})
		wantError(t, "a Deployment", err, `HorizontalPodAutoscaler.autoscaling "a" is invalid: spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group`)
	})
}

// The server looks at the syntax of a patch before it looks for the object. The texts are those of kube-apiserver 1.37.
// Guarantees: W10
func TestMalformedPatchesAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, server *informertest.Server, clients *kubernetes.Clientset) {
		const noJSON = "invalid JSON patch"
		for _, subresource := range []string{"", "scale"} {
			for _, test := range []struct {
				patchType types.PatchType
				patch     string
				want      string
			}{
				{types.MergePatchType, `{"data"`, noJSON},
				{types.JSONPatchType, `[`, noJSON},
				{types.StrategicMergePatchType, ``, noJSON},
				{types.ApplyYAMLPatchType, "a: b: c", "error encoding patch: yaml: mapping values are not allowed in this context"},
			} {
				_, err := clients.AppsV1().Deployments("default").Patch(t.Context(), "none", test.patchType, []byte(test.patch),
					metav1.PatchOptions{FieldManager: "m"}, strings.Fields(subresource)...)
				wantError(t, fmt.Sprintf("%s %q %s", test.patchType, test.patch, subresource), err, test.want)
			}
		}
	})
}

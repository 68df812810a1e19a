package condition

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// has returns a function that returns true for an object with that condition.
func has(conditionType string) func(obj any) bool {
	return func(obj any) bool { return Has(obj, conditionType, "True") }
}

func TestHas(t *testing.T) {
	pod := func(conditionType, status string) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: "Initialized", Status: "True"}, {Type: corev1.PodConditionType(conditionType), Status: corev1.ConditionStatus(status)},
		}}}
	}
	ready := has("Ready")
	if ready(&corev1.Pod{}) || ready(pod("Ready", "False")) || ready(pod("Other", "True")) || !ready(pod("Ready", "True")) {
		t.Error("Pod")
	}
	available := has("Available")
	d := &appsv1.Deployment{Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{Type: "Available", Status: "True"}}}}
	d.Generation, d.Status.ObservedGeneration = 2, 1
	if available(d) {
		t.Error("Deployment: the status is of an older generation")
	}
	if d.Status.ObservedGeneration = 2; !available(d) {
		t.Error("Deployment")
	}
	d.Status.ObservedGeneration = 0 // a type whose controller does not set it
	if !available(d) {
		t.Error("Deployment: the status says nothing about the generation")
	}
	conditions := has("Ready")
	for _, c := range []struct {
		condition, status, generation int64
		want                          bool
	}{{2, 0, 2, true}, {1, 2, 2, false}, {2, 1, 2, true}, {0, 2, 2, true}, {0, 1, 2, false}, {0, 0, 2, true}} {
		obj := &withConditions{}
		obj.Generation, obj.Status.ObservedGeneration = c.generation, c.status
		obj.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", ObservedGeneration: c.condition}}
		if got := conditions(obj); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	dynamic := has("Ready")
	u := &unstructured.Unstructured{}
	for text, want := range map[string]bool{
		`{}`:                            false,
		`{"status":{"conditions":"x"}}`: false,
		`{"status":{"conditions":["x",{"type":"Ready","status":"True"}]}}`:                                                true,
		`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`:                                                   false,
		`{"metadata":{"generation":2},"status":{"conditions":[{"type":"Ready","status":"True","observedGeneration":2}]}}`: true,
		`{"metadata":{"generation":2},"status":{"conditions":[{"type":"Ready","status":"True","observedGeneration":1}]}}`: false,
		`{"metadata":{"generation":2},"status":{"observedGeneration":1,"conditions":[{"type":"Ready","status":"True"}]}}`: false,
	} {
		u.Object = map[string]interface{}{}
		if err := u.UnmarshalJSON([]byte(strings.Replace(text, "{", `{"apiVersion":"v1","kind":"X",`, 1))); err != nil && text != "{}" {
			t.Fatal(err)
		}
		if got := dynamic(u); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// withConditions is a custom resource whose conditions and status have generations.
type withConditions struct {
	metav1.ObjectMeta
	Status struct {
		ObservedGeneration int64
		Conditions         []metav1.Condition
	}
}

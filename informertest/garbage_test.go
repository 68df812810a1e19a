package informertest_test

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/informertest"
)

// garbageCollected runs test with a server that has a garbage collector.
func garbageCollected(t *testing.T, test func(m managed)) {
	withControllers(t, informertest.Controllers{GarbageCollection: true}, test)
}

// hold gives a ConfigMap a finalizer.
func (m managed) hold(name string) {
	m.Helper()
	m.update(name, func(obj *corev1.ConfigMap) { obj.Finalizers = []string{"example.com/hold"} })
}

// update changes a ConfigMap.
func (m managed) update(name string, change func(obj *corev1.ConfigMap)) {
	m.Helper()
	api := m.clients.CoreV1().ConfigMaps("ns")
	obj, err := api.Get(m.Context(), name, metav1.GetOptions{})
	must(m.T, err)
	change(obj)
	_, err = api.Update(m.Context(), obj, metav1.UpdateOptions{})
	must(m.T, err)
}

// configMaps returns the collection of the ConfigMaps.
func (m managed) configMaps() *informertest.Collection[*corev1.ConfigMap] {
	m.Helper()
	all, ok := informertest.CollectionOf[*corev1.ConfigMap](m.server, corev1.SchemeGroupVersion.WithResource("configmaps"))
	if !ok {
		m.Fatal("there are no ConfigMaps")
	}
	return all
}

// A dependent that keeps another owner does not block the deletion of the first one any more.
func TestGarbage_ForegroundEndsWhenADependentIsDisowned(t *testing.T) {
	garbageCollected(t, func(m managed) {
		a, b := m.configMap("a"), m.configMap("b")
		m.configMap("child", blocking(owner(a)), blocking(owner(b)))
		m.deleteConfigMap("a", metav1.DeletePropagationForeground)
		m.wantConfigMaps("b", "child <b")
	})
}

// Nor does one whose references a client changes.
func TestGarbage_ForegroundEndsWhenADependentStopsBlocking(t *testing.T) {
	garbageCollected(t, func(m managed) {
		a := m.configMap("a")
		for _, name := range []string{"child1", "child2"} {
			m.configMap(name, blocking(owner(a)))
			m.hold(name)
		}
		m.deleteConfigMap("a", metav1.DeletePropagationForeground)
		m.wantConfigMaps("a(foregroundDeletion)", "child1(example.com/hold) <a", "child2(example.com/hold) <a")
		m.update("child1", func(obj *corev1.ConfigMap) { obj.OwnerReferences = nil })
		m.wantConfigMaps("a(foregroundDeletion)", "child1(example.com/hold)", "child2(example.com/hold) <a")
		m.update("child2", func(obj *corev1.ConfigMap) { obj.OwnerReferences[0].BlockOwnerDeletion = nil })
		m.wantConfigMaps("child1(example.com/hold)", "child2(example.com/hold) <a")
	})
}

// Each of two objects owns the other one.
func TestGarbage_ForegroundEndsInACycle(t *testing.T) {
	garbageCollected(t, func(m managed) {
		a := m.configMap("a")
		b := m.configMap("b", blocking(owner(a)))
		m.update("a", func(obj *corev1.ConfigMap) { obj.OwnerReferences = []metav1.OwnerReference{blocking(owner(b))} })
		m.wantConfigMaps("a <b", "b <a")
		m.deleteConfigMap("a", metav1.DeletePropagationForeground)
		m.wantConfigMaps()
	})
}

// A Collection stores invalid objects too. The garbage collector works with them like a controller whose patch does not
// touch what is invalid.
func TestGarbage_OfObjectsThatAreInvalid(t *testing.T) {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground} {
		t.Run(string(policy), func(t *testing.T) {
			garbageCollected(t, func(m managed) {
				invalid := func(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
					obj, err := m.configMaps().Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
						Labels: map[string]string{"not a label": "!"}, OwnerReferences: owners}})
					must(m.T, err)
					return obj
				}
				a, b := invalid("a"), m.configMap("b")
				invalid("child", blocking(owner(a)))
				invalid("shared", blocking(owner(a)), owner(b))
				m.deleteConfigMap("a", policy)
				if policy == metav1.DeletePropagationOrphan {
					m.wantConfigMaps("b", "child", "shared <b")
				} else {
					m.wantConfigMaps("b", "shared <b")
				}
			})
		})
	}
}

// A restore starts the controllers on the restored objects. They do not delete the dependents of an owner that is back.
func TestRestore_TellsTheControllers(t *testing.T) {
	controllers := informertest.Controllers{GarbageCollection: true, GracefulPods: true, StopPods: true}
	withControllers(t, controllers, func(m managed) {
		a := m.configMap("a")
		m.configMap("child", owner(a))
		_, err := m.pods.Create(newPod("ns", "p"))
		must(t, err)
		must(t, m.deletePod(-1))
		backup := m.server.Snapshot()
		m.deleteConfigMap("a", "")
		m.wantConfigMaps()
		settlePods := func() {
			t.Helper()
			synctest.Wait()
			if n := m.pods.Len(); n != 0 {
				t.Errorf("%d pods are left", n)
			}
		}
		must(t, m.deletePod(0))
		settlePods()
		m.server.Restore(backup)
		must(m.T, m.server.Settle(m.Context(), func() bool { return m.pods.Len() == 0 })) // at the end of its grace period
		m.wantConfigMaps("a", "child <a")
		m.deleteConfigMap("a", "")
		m.wantConfigMaps()
	})
}

// A restored server gives the same version to another content.
func TestRestore_ReplacesObjectsOfTheSameVersion(t *testing.T) {
	garbageCollected(t, func(m managed) {
		m.configMap("a")
		before := m.server.Snapshot()
		set := func(value string) {
			m.update("a", func(obj *corev1.ConfigMap) { obj.Data = map[string]string{"x": value} })
		}
		set("first")
		first := m.server.Snapshot()
		m.server.Restore(before)
		set("second")
		m.server.Restore(first)
		obj, err := m.clients.CoreV1().ConfigMaps("ns").Get(m.Context(), "a", metav1.GetOptions{})
		must(t, err)
		if obj.Data["x"] != "first" {
			t.Errorf("got %v", obj.Data)
		}
	})
}

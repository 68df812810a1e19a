package informertest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// managed is a server with controllers in a bubble, and its client.
type managed struct {
	*testing.T
	server     *informertest.Server
	clients    *kubernetes.Clientset
	namespaces *informertest.Collection[*corev1.Namespace]
	pods       *informertest.Collection[*corev1.Pod]
}

// withControllers runs test with a server that has controllers and the namespace ns.
func withControllers(t *testing.T, controllers informertest.Controllers, test func(m managed)) {
	options := informertest.Options{Controllers: controllers}
	bubble(t, options, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		m := managed{t, server, clientset(t, server, runtime.ContentTypeJSON),
			informertest.Register[*corev1.Namespace](server, informertest.Resource{
				GroupVersionResource: corev1.SchemeGroupVersion.WithResource("namespaces"), ClusterScoped: true}), pods}
		informertest.Register[*corev1.ConfigMap](server, informertest.Resource{
			GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps")})
		informertest.Register[*appsv1.ReplicaSet](server, informertest.Resource{
			GroupVersionResource: appsv1.SchemeGroupVersion.WithResource("replicasets")})
		informertest.Register[*batchv1.Job](server, informertest.Resource{
			GroupVersionResource: batchv1.SchemeGroupVersion.WithResource("jobs")})
		m.namespace("ns")
		test(m)
	})
}

func (m managed) namespace(name string) *corev1.Namespace {
	m.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	namespace, err := m.clients.CoreV1().Namespaces().Create(m.Context(), namespace, metav1.CreateOptions{})
	must(m.T, err)
	return namespace
}

// configMap creates a ConfigMap with those owners.
func (m managed) configMap(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	m.Helper()
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}
	obj, err := m.clients.CoreV1().ConfigMaps("ns").Create(m.Context(), obj, metav1.CreateOptions{})
	must(m.T, err)
	return obj
}

// owner returns a reference to a ConfigMap.
func owner(obj *corev1.ConfigMap) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: obj.Name, UID: obj.UID}
}

// blocking returns a reference that blocks the deletion of its owner.
func blocking(ref metav1.OwnerReference) metav1.OwnerReference {
	ref.BlockOwnerDeletion = new(true)
	return ref
}

// deleteConfigMap deletes a ConfigMap with that propagation policy, or none.
func (m managed) deleteConfigMap(name string, policy metav1.DeletionPropagation) {
	m.Helper()
	options := metav1.DeleteOptions{}
	if policy != "" {
		options.PropagationPolicy = &policy
	}
	must(m.T, m.clients.CoreV1().ConfigMaps("ns").Delete(m.Context(), name, options))
	synctest.Wait()
}

// wantConfigMaps checks which ConfigMaps there are, as NAME or, while they are being deleted, NAME(FINALIZERS), each with
// the names of its owners.
func (m managed) wantConfigMaps(want ...string) {
	m.Helper()
	synctest.Wait()
	list, err := m.clients.CoreV1().ConfigMaps("ns").List(m.Context(), metav1.ListOptions{})
	must(m.T, err)
	var got []string
	for _, obj := range list.Items {
		text := obj.Name
		if obj.DeletionTimestamp != nil {
			text += "(" + strings.Join(obj.Finalizers, ",") + ")"
		}
		for _, ref := range obj.OwnerReferences {
			text += " <" + ref.Name
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		m.Errorf("the ConfigMaps are %q, want %q", got, want)
	}
}

// dropFinalizers removes the finalizers of a ConfigMap.
func (m managed) dropFinalizers(name string) {
	m.Helper()
	api := m.clients.CoreV1().ConfigMaps("ns")
	obj, err := api.Get(m.Context(), name, metav1.GetOptions{})
	must(m.T, err)
	obj.Finalizers = nil
	_, err = api.Update(m.Context(), obj, metav1.UpdateOptions{})
	must(m.T, err)
}

func TestNamespaces_GoWithWhatIsInThem(t *testing.T) {
	withControllers(t, informertest.Controllers{Namespaces: true}, func(m managed) {
		created := m.namespace("other")
		if created.Status.Phase != corev1.NamespaceActive || fmt.Sprint(created.Spec.Finalizers) != "[kubernetes]" ||
			created.Labels["kubernetes.io/metadata.name"] != "other" {
			m.Errorf("created %+v", created)
		}
		m.configMap("a")
		held := m.configMap("held")
		held.Finalizers = []string{"example.com/hold"}
		_, err := m.clients.CoreV1().ConfigMaps("ns").Update(m.Context(), held, metav1.UpdateOptions{})
		must(t, err)
		_, err = m.pods.Create(newPod("ns", "p"))
		must(t, err)
		_, err = m.pods.Create(newPod("other", "stays"))
		must(t, err)
		must(t, m.clients.CoreV1().Namespaces().Delete(m.Context(), "ns", metav1.DeleteOptions{}))
		synctest.Wait()
		m.wantConfigMaps("held(example.com/hold)")
		namespace, err := m.clients.CoreV1().Namespaces().Get(m.Context(), "ns", metav1.GetOptions{})
		must(t, err)
		if namespace.Status.Phase != corev1.NamespaceTerminating || namespace.DeletionTimestamp == nil {
			m.Errorf("the namespace is %+v", namespace)
		}
		var conditions []string
		for _, c := range namespace.Status.Conditions {
			conditions = append(conditions, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
		for _, want := range []string{
			"NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: " +
				"configmaps. has 1 resource instances",
			"NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: " +
				"example.com/hold in 1 resource instances",
		} {
			if !slices.Contains(conditions, want) {
				m.Errorf("the conditions are %q", conditions)
			}
		}
		m.dropFinalizers("held")
		synctest.Wait()
		if _, err := m.clients.CoreV1().Namespaces().Get(m.Context(), "ns", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			m.Errorf("the namespace: %v, want 404", err)
		}
		if _, ok := m.pods.Get(informer.Key{Namespace: "other", Name: "stays"}); !ok || m.pods.Len() != 1 {
			m.Errorf("%d pods are left", m.pods.Len())
		}
	})
}

func TestNamespaces_RefuseNewObjectsUnlessTheyAreActive(t *testing.T) {
	withControllers(t, informertest.Controllers{Namespaces: true}, func(m managed) {
		held := m.configMap("held")
		held.Finalizers = []string{"example.com/hold"}
		_, err := m.clients.CoreV1().ConfigMaps("ns").Update(m.Context(), held, metav1.UpdateOptions{})
		must(t, err)
		must(t, m.clients.CoreV1().Namespaces().Delete(m.Context(), "ns", metav1.DeleteOptions{}))
		create := func(namespace string) error {
			_, err := m.clients.CoreV1().Pods(namespace).Create(m.Context(), newPod(namespace, "p"), metav1.CreateOptions{})
			return err
		}
		wantAnswer(t, "a create in a namespace that is being deleted", create("ns"), `403 pods "p" is forbidden: `+
			`unable to create new content in namespace ns because it is being terminated`)
		if !apierrors.HasStatusCause(create("ns"), corev1.NamespaceTerminatingCause) {
			m.Error("the error has no cause")
		}
		wantAnswer(t, "a create in no namespace", create("nosuch"), `404 namespaces "nosuch" not found`)
		m.namespace("default")
		wantAnswer(t, "a deletion of default",
			m.clients.CoreV1().Namespaces().Delete(m.Context(), "default", metav1.DeleteOptions{}),
			`403 namespaces "default" is forbidden: this namespace may not be deleted`)
	})
}

// Whoever else has a finalizer in the spec removes it by the subresource finalize.
func TestNamespaces_WaitForOtherFinalizersOfTheSpec(t *testing.T) {
	withControllers(t, informertest.Controllers{Namespaces: true}, func(m managed) {
		api := m.clients.CoreV1().Namespaces()
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"},
			Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"example.com/mine"}}}
		_, err := api.Create(m.Context(), namespace, metav1.CreateOptions{})
		must(t, err)
		must(t, api.Delete(m.Context(), "a", metav1.DeleteOptions{}))
		synctest.Wait()
		namespace, err = api.Get(m.Context(), "a", metav1.GetOptions{})
		must(t, err)
		if fmt.Sprint(namespace.Spec.Finalizers) != "[example.com/mine]" {
			m.Errorf("the finalizers are %v", namespace.Spec.Finalizers)
		}
		namespace.Labels["still"], namespace.Spec.Finalizers = "there", nil // only finalize changes the finalizers
		namespace, err = api.Update(m.Context(), namespace, metav1.UpdateOptions{})
		must(t, err)
		if fmt.Sprint(namespace.Spec.Finalizers) != "[example.com/mine]" {
			m.Errorf("an update set the finalizers to %v", namespace.Spec.Finalizers)
		}
		namespace.Spec.Finalizers = nil
		_, err = api.Finalize(m.Context(), namespace, metav1.UpdateOptions{})
		must(t, err)
		synctest.Wait()
		if _, err := api.Get(m.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			m.Errorf("the namespace: %v, want 404", err)
		}
	})
}

func TestGarbage_Background(t *testing.T) {
	withControllers(t, informertest.Controllers{GarbageCollection: true}, func(m managed) {
		a, b := m.configMap("a"), m.configMap("b")
		child := m.configMap("child", owner(a))
		m.configMap("grandchild", owner(child))
		m.configMap("shared", owner(a), owner(b))
		thing := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Thing", Name: "t", UID: "u"}
		m.configMap("unknown", owner(a), thing)
		m.deleteConfigMap("a", "")
		m.wantConfigMaps("b", "shared <b", "unknown <a <t")
		m.deleteConfigMap("b", metav1.DeletePropagationBackground)
		m.wantConfigMaps("unknown <a <t")
	})
}

func TestGarbage_OfAnOwnerThatNeverWas(t *testing.T) {
	withControllers(t, informertest.Controllers{GarbageCollection: true}, func(m managed) {
		a := m.configMap("a")
		other := owner(a)
		other.UID = "another"
		m.configMap("wrong-uid", other)
		m.wantConfigMaps("a")
	})
}

func TestGarbage_Foreground(t *testing.T) {
	withControllers(t, informertest.Controllers{GarbageCollection: true}, func(m managed) {
		a := m.configMap("a")
		child := m.configMap("child", blocking(owner(a)))
		m.configMap("held", blocking(owner(child)))
		m.hold("held")
		m.configMap("free", owner(a))
		m.deleteConfigMap("a", metav1.DeletePropagationForeground)
		m.wantConfigMaps("a(foregroundDeletion)", "child(foregroundDeletion) <a", "held(example.com/hold) <child")
		m.dropFinalizers("held")
		m.wantConfigMaps()
	})
}

func TestGarbage_Orphan(t *testing.T) {
	withControllers(t, informertest.Controllers{GarbageCollection: true}, func(m managed) {
		a := m.configMap("a")
		m.configMap("child", owner(a))
		m.deleteConfigMap("a", metav1.DeletePropagationOrphan)
		m.wantConfigMaps("child")
	})
}

// A Job orphans its pods by default, as the API does; kubectl asks for another policy.
func TestGarbage_AJobOrphansItsPodsByDefault(t *testing.T) {
	withControllers(t, informertest.Controllers{GarbageCollection: true}, func(m managed) {
		for _, policy := range []metav1.DeletionPropagation{"", metav1.DeletePropagationBackground} {
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}}
			job, err := m.clients.BatchV1().Jobs("ns").Create(m.Context(), job, metav1.CreateOptions{})
			must(t, err)
			pod := newPod("ns", "p"+strings.ToLower(string(policy)))
			kind := batchv1.SchemeGroupVersion.WithKind("Job")
			pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, kind)}
			_, err = m.clients.CoreV1().Pods("ns").Create(m.Context(), pod, metav1.CreateOptions{})
			must(t, err)
			options := metav1.DeleteOptions{}
			if policy != "" {
				options.PropagationPolicy = &policy
			}
			must(t, m.clients.BatchV1().Jobs("ns").Delete(m.Context(), "j", options))
			synctest.Wait()
		}
		pod, ok := m.pods.Get(informer.Key{Namespace: "ns", Name: "p"})
		if !ok || len(pod.OwnerReferences) > 0 || m.pods.Len() != 1 {
			m.Errorf("%d pods are left", m.pods.Len())
		}
	})
}

// deletePod deletes pod p, with that grace period unless it is negative.
func (m managed) deletePod(seconds int64) error {
	options := metav1.DeleteOptions{}
	if seconds >= 0 {
		options.GracePeriodSeconds = &seconds
	}
	return m.clients.CoreV1().Pods("ns").Delete(m.Context(), "p", options)
}

func TestGracefulPods(t *testing.T) {
	withControllers(t, informertest.Controllers{GracefulPods: true}, func(m managed) {
		running := newPod("ns", "p")
		ten := newPod("ns", "p")
		ten.Spec.TerminationGracePeriodSeconds = new(int64(10))
		pending, done := newPod("ns", "p"), newPod("ns", "p")
		pending.Spec.NodeName, done.Status.Phase = "", corev1.PodSucceeded
		for _, c := range []struct {
			name    string
			pod     *corev1.Pod
			deletes []int64 // the grace periods of deletions, negative for none
			want    int64   // the grace period of the pod; negative if it is gone
		}{
			{"default", running, []int64{-1}, 30},
			{"of the pod", ten, []int64{-1}, 10},
			{"of the client", ten, []int64{20}, 20},
			{"shortened", running, []int64{-1, 5}, 5},
			{"not prolonged", running, []int64{5, 20}, 5},
			{"as before", running, []int64{5, -1}, 5},
			{"zero", running, []int64{0}, -1},
			{"then zero", running, []int64{-1, 0}, -1},
			{"on no node", pending, []int64{-1}, -1},
			{"finished", done, []int64{-1}, -1},
		} {
			_, err := m.pods.Create(c.pod)
			must(t, err)
			began := time.Now()
			for _, seconds := range c.deletes {
				time.Sleep(time.Second)
				must(t, m.deletePod(seconds))
			}
			pod, ok := m.pods.Get(informer.Key{Namespace: "ns", Name: "p"})
			if got := int64(-1); !ok || pod.DeletionGracePeriodSeconds == nil {
				if ok || c.want != got {
					m.Errorf("%s: the pod is there %v", c.name, ok)
				}
			} else if got = *pod.DeletionGracePeriodSeconds; got != c.want || pod.Generation != 2 ||
				pod.DeletionTimestamp.Sub(began.Add(time.Second)) != time.Duration(got)*time.Second {
				m.Errorf("%s: grace period %d until %v, begun at %v", c.name, got, pod.DeletionTimestamp, began)
			}
			if ok {
				// its kubelet still writes its status, and then deletes it
				pod = pod.DeepCopy()
				pod.Status.Phase = corev1.PodFailed
				_, err := m.clients.CoreV1().Pods("ns").UpdateStatus(m.Context(), pod, metav1.UpdateOptions{})
				must(t, err)
				must(t, m.deletePod(0))
			}
			if m.pods.Len() != 0 {
				m.Errorf("%s: the pod is still there", c.name)
			}
		}
	})
}

func TestStopPods_DeletesThemAfterTheirGracePeriod(t *testing.T) {
	withControllers(t, informertest.Controllers{GracefulPods: true, StopPods: true}, func(m managed) {
		_, err := m.pods.Create(newPod("ns", "p"))
		must(t, err)
		must(t, m.deletePod(-1))
		time.Sleep(29 * time.Second)
		if m.pods.Len() != 1 {
			m.Error("the pod is gone before its time")
		}
		must(t, m.deletePod(29))
		time.Sleep(1100 * time.Millisecond)
		if m.pods.Len() != 0 {
			m.Error("the pod is there after its time")
		}
	})
}

// All of them together: a namespace waits for its pods, which wait for their kubelet.
func TestControllers_Together(t *testing.T) {
	all := informertest.Controllers{Namespaces: true, GarbageCollection: true, GracefulPods: true, StopPods: true}
	withControllers(t, all, func(m managed) {
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "rs"}}
		set, err := m.clients.AppsV1().ReplicaSets("ns").Create(m.Context(), set, metav1.CreateOptions{})
		must(t, err)
		pod := newPod("ns", "p")
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set,
			appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
		_, err = m.pods.Create(pod)
		must(t, err)
		must(t, m.clients.CoreV1().Namespaces().Delete(m.Context(), "ns", metav1.DeleteOptions{}))
		time.Sleep(29 * time.Second)
		if m.namespaces.Len() != 1 || m.pods.Len() != 1 {
			m.Errorf("%d namespaces and %d pods before the grace period is over", m.namespaces.Len(), m.pods.Len())
		}
		time.Sleep(2 * time.Second)
		if m.namespaces.Len() != 0 || m.pods.Len() != 0 {
			m.Errorf("%d namespaces and %d pods after the grace period", m.namespaces.Len(), m.pods.Len())
		}
		must(t, m.server.Settle(m.Context()))
	})
}

func TestControllers_AreOffByDefault(t *testing.T) {
	withControllers(t, informertest.Controllers{}, func(m managed) {
		a := m.configMap("a")
		m.configMap("child", owner(a))
		_, err := m.clients.CoreV1().Pods("nosuch").Create(m.Context(), newPod("nosuch", "p"), metav1.CreateOptions{})
		must(t, err)
		must(t, m.clients.CoreV1().Pods("nosuch").Delete(m.Context(), "p", metav1.DeleteOptions{}))
		m.deleteConfigMap("a", metav1.DeletePropagationForeground)
		must(t, m.clients.CoreV1().Namespaces().Delete(m.Context(), "ns", metav1.DeleteOptions{}))
		m.wantConfigMaps("a(foregroundDeletion)", "child <a") // nobody removes the finalizer
		m.deleteConfigMap("a", metav1.DeletePropagationBackground)
		m.wantConfigMaps("child <a")
		if m.namespaces.Len()+m.pods.Len() != 0 {
			m.Error("a deletion was not at once")
		}
	})
}

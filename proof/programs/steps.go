package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/typedinformer/informer/e2e/cluster"
)

// script has the steps that kube-controller-manager and kube-scheduler are proven by.
type script struct {
	client  clientset.Interface
	cluster *cluster.Cluster
}

// ns is the namespace of all objects of the script.
const ns = "script"

func (s *script) steps() []step {
	apps, core, batch := s.client.AppsV1(), s.client.CoreV1(), s.client.BatchV1()
	return []step{
		{"a namespace gets its service account", func(ctx context.Context) error {
			_, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: meta(ns)}, metav1.CreateOptions{})
			return err
		}, func(ctx context.Context) error {
			_, err := core.ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{})
			return err
		}},
		{"a Deployment of 10", func(ctx context.Context) error {
			_, err := apps.Deployments(ns).Create(ctx, &appsv1.Deployment{ObjectMeta: meta("web"), Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(10)), Selector: selector("web"), Template: template("web")}}, metav1.CreateOptions{})
			return err
		}, s.deployed(10)},
		{"its pods are on all nodes", nothing, s.onNodes("web", 4)},
		{"a Service has its endpoints", func(ctx context.Context) error {
			_, err := core.Services(ns).Create(ctx, &corev1.Service{ObjectMeta: meta("web"), Spec: corev1.ServiceSpec{
				Selector: selector("web").MatchLabels, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
			return err
		}, s.endpoints(10)},
		{"scale up to 40", s.scale(40), all(s.deployed(40), s.endpoints(40))},
		{"scale down to 8", s.scale(8), all(s.deployed(8), s.endpoints(8))},
		{"roll out a new template", func(ctx context.Context) error {
			patch := `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"example.invalid/main:2"}]}}}}`
			_, err := apps.Deployments(ns).Patch(ctx, "web", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		}, all(s.deployed(8), s.replicaSets(8, 0), s.endpoints(8))},
		{"a deleted pod is replaced", func(ctx context.Context) error {
			pods, err := s.pods(ctx, "web")
			if err != nil || len(pods) == 0 {
				return fmt.Errorf("%d pods: %w", len(pods), err)
			}
			return core.Pods(ns).Delete(ctx, pods[0].Name, metav1.DeleteOptions{})
		}, all(s.deployed(8), s.running("web", 8))},
		{"a StatefulSet of 3", func(ctx context.Context) error {
			_, err := apps.StatefulSets(ns).Create(ctx, &appsv1.StatefulSet{ObjectMeta: meta("db"), Spec: appsv1.StatefulSetSpec{
				Replicas: new(int32(3)), Selector: selector("db"), Template: template("db")}}, metav1.CreateOptions{})
			return err
		}, s.running("db", 3)},
		{"it scales down to 1", func(ctx context.Context) error {
			_, err := apps.StatefulSets(ns).Patch(ctx, "db", types.MergePatchType, []byte(`{"spec":{"replicas":1}}`),
				metav1.PatchOptions{})
			return err
		}, s.running("db", 1)},
		{"a DaemonSet on each node", func(ctx context.Context) error {
			_, err := apps.DaemonSets(ns).Create(ctx, &appsv1.DaemonSet{ObjectMeta: meta("agent"), Spec: appsv1.DaemonSetSpec{
				Selector: selector("agent"), Template: template("agent")}}, metav1.CreateOptions{})
			return err
		}, all(s.running("agent", 4), s.onNodes("agent", 4))},
		{"a new node gets its pod", func(ctx context.Context) error {
			return createNode(ctx, s.client, "node-new")
		}, all(s.running("agent", 5), s.onNodes("agent", 5))},
		{"a taint evicts pods", func(ctx context.Context) error {
			_, err := core.Nodes().Patch(ctx, "node-0", types.MergePatchType,
				[]byte(`{"spec":{"taints":[{"key":"broken","effect":"NoExecute"}]}}`), metav1.PatchOptions{})
			return err
		}, all(s.running("agent", 4), s.running("web", 8), s.withoutPods("node-0"))},
		{"a Job of 6 completes", func(ctx context.Context) error {
			work := template("work")
			work.Labels, work.Spec.RestartPolicy = nil, corev1.RestartPolicyNever
			_, err := batch.Jobs(ns).Create(ctx, &batchv1.Job{ObjectMeta: meta("work"), Spec: batchv1.JobSpec{
				Completions: new(int32(6)), Parallelism: new(int32(2)), Template: work}}, metav1.CreateOptions{})
			return err
		}, func(ctx context.Context) error {
			job, err := batch.Jobs(ns).Get(ctx, "work", metav1.GetOptions{})
			if err == nil && (job.Status.Succeeded != 6 || job.Status.CompletionTime == nil) {
				err = notYet("%d succeeded", job.Status.Succeeded)
			}
			return err
		}},
		{"a quota counts pods", func(ctx context.Context) error {
			_, err := core.ResourceQuotas(ns).Create(ctx, &corev1.ResourceQuota{ObjectMeta: meta("pods"),
				Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("100")}}},
				metav1.CreateOptions{})
			return err
		}, func(ctx context.Context) error {
			quota, err := core.ResourceQuotas(ns).Get(ctx, "pods", metav1.GetOptions{})
			if used := quota.Status.Used.Pods().Value(); err == nil && used != 8+1+4 {
				err = notYet("%d pods are used", used)
			}
			return err
		}},
		{"a budget allows disruptions", func(ctx context.Context) error {
			_, err := s.client.PolicyV1().PodDisruptionBudgets(ns).Create(ctx, &policyv1.PodDisruptionBudget{
				ObjectMeta: meta("web"), Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector("web"),
					MinAvailable: new(intstr.FromInt32(6))}}, metav1.CreateOptions{})
			return err
		}, func(ctx context.Context) error {
			budget, err := s.client.PolicyV1().PodDisruptionBudgets(ns).Get(ctx, "web", metav1.GetOptions{})
			if err == nil && budget.Status.DisruptionsAllowed != 2 {
				err = notYet("%d disruptions are allowed", budget.Status.DisruptionsAllowed)
			}
			return err
		}},
		{"scale after a crash of kube-apiserver", func(ctx context.Context) error {
			if err := s.cluster.KillAPIServer(); err != nil {
				return err
			}
			if err := s.cluster.StartAPIServer(ctx); err != nil {
				return err
			}
			return s.scale(12)(ctx)
		}, all(s.deployed(12), s.endpoints(12), s.running("web", 12))},
		{"an owner takes its dependents along", func(ctx context.Context) error {
			return apps.Deployments(ns).Delete(ctx, "web", propagation(metav1.DeletePropagationBackground))
		}, all(s.running("web", 0), s.replicaSets())},
		{"an owner waits for its dependents", func(ctx context.Context) error {
			return batch.Jobs(ns).Delete(ctx, "work", propagation(metav1.DeletePropagationForeground))
		}, func(ctx context.Context) error {
			_, err := batch.Jobs(ns).Get(ctx, "work", metav1.GetOptions{})
			return gone(err)
		}},
		{"an owner leaves orphans", func(ctx context.Context) error {
			return apps.StatefulSets(ns).Delete(ctx, "db", propagation(metav1.DeletePropagationOrphan))
		}, func(ctx context.Context) error {
			pod, err := core.Pods(ns).Get(ctx, "db-0", metav1.GetOptions{})
			if err == nil && len(pod.OwnerReferences) > 0 {
				err = notYet("the pod has its owner")
			}
			return err
		}},
		{"a namespace ends with all in it", func(ctx context.Context) error {
			return core.Namespaces().Delete(ctx, ns, metav1.DeleteOptions{})
		}, func(ctx context.Context) error {
			_, err := core.Namespaces().Get(ctx, ns, metav1.GetOptions{})
			return gone(err)
		}},
	}
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func template(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: selector(app).MatchLabels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.invalid/main:1"}}},
	}
}

func propagation(p metav1.DeletionPropagation) metav1.DeleteOptions {
	return metav1.DeleteOptions{PropagationPolicy: &p}
}

func nothing(context.Context) error { return nil }

// all is the condition that all conditions hold.
func all(conditions ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, condition := range conditions {
			if err := condition(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// gone returns nil if a Get has returned that there is no such object.
func gone(err error) error {
	switch {
	case err == nil:
		return notYet("it is there")
	case apierrors.IsNotFound(err):
		return nil
	}
	return err
}

func (s *script) scale(n int) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := s.client.AppsV1().Deployments(ns).Patch(ctx, "web", types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n), metav1.PatchOptions{})
		return err
	}
}

// deployed is the condition that the Deployment has n pods, all available and with the newest template.
func (s *script) deployed(n int32) func(context.Context) error {
	return func(ctx context.Context) error {
		d, err := s.client.AppsV1().Deployments(ns).Get(ctx, "web", metav1.GetOptions{})
		if status := d.Status; err == nil && (status.ObservedGeneration != d.Generation || status.Replicas != n ||
			status.UpdatedReplicas != n || status.AvailableReplicas != n) {
			err = notYet("of %d replicas %d are updated and %d available", status.Replicas, status.UpdatedReplicas, status.AvailableReplicas)
		}
		return err
	}
}

// replicaSets is the condition that there are ReplicaSets with these numbers of replicas, in any order.
func (s *script) replicaSets(want ...int32) func(context.Context) error {
	return func(ctx context.Context) error {
		sets, err := s.client.AppsV1().ReplicaSets(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		left := map[int32]int{}
		for _, n := range want {
			left[n]++
		}
		for _, set := range sets.Items {
			left[set.Status.Replicas]--
		}
		for n, more := range left {
			if more != 0 {
				return notYet("%d ReplicaSets with %d replicas are missing", more, n)
			}
		}
		return nil
	}
}

// endpoints is the condition that the Service has n endpoints, and all are ready.
func (s *script) endpoints(n int) func(context.Context) error {
	return func(ctx context.Context) error {
		slices, err := s.client.DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{
			LabelSelector: discoveryv1.LabelServiceName + "=web"})
		if err != nil {
			return err
		}
		ready, found := 0, 0
		for _, slice := range slices.Items {
			for _, e := range slice.Endpoints {
				if found++; e.Conditions.Ready != nil && *e.Conditions.Ready {
					ready++
				}
			}
		}
		if ready != n || found != n {
			return notYet("%d of %d endpoints are ready", ready, found)
		}
		return nil
	}
}

// pods returns the pods of an app, also those that are being deleted.
func (s *script) pods(ctx context.Context, app string) ([]corev1.Pod, error) {
	pods, err := s.client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, err
	}
	return pods.Items, nil
}

// running is the condition that an app has n pods, and all run.
func (s *script) running(app string, n int) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := s.pods(ctx, app)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
				return notYet("pod %s does not run", pod.Name)
			}
		}
		if len(pods) != n {
			return notYet("%d pods", len(pods))
		}
		return nil
	}
}

// onNodes is the condition that the pods of an app are on n nodes.
func (s *script) onNodes(app string, n int) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := s.pods(ctx, app)
		if err != nil {
			return err
		}
		nodes := map[string]bool{}
		for _, pod := range pods {
			nodes[pod.Spec.NodeName] = true
		}
		if len(nodes) != n || nodes[""] {
			return notYet("pods are on %d nodes", len(nodes))
		}
		return nil
	}
}

// withoutPods is the condition that a node has no pods.
func (s *script) withoutPods(node string) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := s.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if err == nil && len(pods.Items) > 0 {
			err = notYet("%d pods are on %s", len(pods.Items), node)
		}
		return err
	}
}

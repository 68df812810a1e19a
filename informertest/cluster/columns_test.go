package cluster_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/informertest"
)

// printed returns the Table at a path as lines: the names of the columns, those of wide ones in parentheses, and the rows,
// with the conditions of each.
func printed(t *testing.T, server *informertest.Server, path string) string {
	t.Helper()
	client, err := rest.HTTPClientFor(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var table metav1.Table
	if err := json.NewDecoder(response.Body).Decode(&table); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range table.ColumnDefinitions {
		if c.Priority > 0 {
			c.Name = "(" + c.Name + ")"
		}
		names = append(names, c.Name)
		if c.Description == "" {
			t.Errorf("%s: the column %s has no description", path, c.Name)
		}
	}
	lines := []string{strings.Join(names, "|")}
	for _, row := range table.Rows {
		var cells []string
		for _, cell := range row.Cells {
			cells = append(cells, fmt.Sprint(cell))
		}
		for _, c := range row.Conditions {
			cells = append(cells, fmt.Sprintf("%s=%s, %s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
		lines = append(lines, strings.Join(cells, "|"))
	}
	return strings.Join(lines, "\n")
}

// add creates an object in the namespace default as the cluster itself.
func add[T interface {
	metav1.Object
}](t *testing.T, server *informertest.Server, resource schema.GroupVersionResource, obj T) {
	t.Helper()
	all, ok := informertest.CollectionOf[T](server, resource)
	if !ok {
		t.Fatalf("there are no %s", resource.Resource)
	}
	if _, err := all.Create(obj); err != nil {
		t.Fatal(err)
	}
}

func TestColumnsAreThoseOfKubeAPIServer(t *testing.T) {
	inBubble(t, func(t *testing.T, server *informertest.Server, clients *kubernetes.Clientset) {
		named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
		template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		core, apps := corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion
		add(t, server, core.WithResource("configmaps"), &corev1.ConfigMap{ObjectMeta: named("a"),
			Data: map[string]string{"x": ""}, BinaryData: map[string][]byte{"y": nil}})
		add(t, server, core.WithResource("secrets"), &corev1.Secret{ObjectMeta: named("a"), Type: "Opaque"})
		add(t, server, core.WithResource("nodes"), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}},
			Spec:       corev1.NodeSpec{Unschedulable: true},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
				Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.9"}}}})
		add(t, server, apps.WithResource("deployments"), &appsv1.Deployment{ObjectMeta: named("a"),
			Spec:   appsv1.DeploymentSpec{Replicas: new(int32(3)), Selector: selector, Template: template},
			Status: appsv1.DeploymentStatus{ReadyReplicas: 1, UpdatedReplicas: 2, AvailableReplicas: 1}})
		add(t, server, apps.WithResource("replicasets"), &appsv1.ReplicaSet{ObjectMeta: named("a"),
			Spec:   appsv1.ReplicaSetSpec{Replicas: new(int32(3)), Selector: selector, Template: template},
			Status: appsv1.ReplicaSetStatus{Replicas: 2, ReadyReplicas: 1}})
		add(t, server, apps.WithResource("statefulsets"), &appsv1.StatefulSet{ObjectMeta: named("a"),
			Spec: appsv1.StatefulSetSpec{Template: template}})
		add(t, server, batchv1.SchemeGroupVersion.WithResource("jobs"), &batchv1.Job{ObjectMeta: named("a"),
			Spec:   batchv1.JobSpec{Completions: new(int32(2)), Template: template, Selector: selector},
			Status: batchv1.JobStatus{Succeeded: 1, StartTime: &metav1.Time{Time: time.Now().Add(-time.Minute)}}})
		for path, want := range map[string]string{
			"/api/v1/namespaces/default/configmaps":      "Name|Data|Age\na|2|0s",
			"/api/v1/namespaces/default/secrets":         "Name|Type|Data|Age\na|Opaque|0|0s",
			"/api/v1/namespaces/default":                 "Name|Status|Age\ndefault|Active|0s",
			"/api/v1/namespaces/default/serviceaccounts": "Name|Age",
			"/api/v1/namespaces/default/services": "Name|Type|Cluster-IP|External-IP|Port(s)|Age|(Selector)\n" +
				"kubernetes|ClusterIP|10.0.0.1|<none>|443/TCP|0s|<none>",
			"/api/v1/nodes": "Name|Status|Roles|Age|Version|(Internal-IP)|(External-IP)|(OS-Image)|(Kernel-Version)|" +
				"(Container-Runtime)\na|Ready,SchedulingDisabled|control-plane|0s||10.0.0.9|<none>|<unknown>|<unknown>|<unknown>",
			"/apis/apps/v1/namespaces/default/deployments": "Name|Ready|Up-to-date|Available|Age|(Containers)|(Images)|" +
				"(Selector)\na|1/3|2|1|0s|c|i|a=b",
			"/apis/apps/v1/namespaces/default/replicasets": "Name|Desired|Current|Ready|Age|(Containers)|(Images)|(Selector)\n" +
				"a|3|2|1|0s|c|i|a=b",
			"/apis/apps/v1/namespaces/default/statefulsets": "Name|Ready|Age|(Containers)|(Images)\na|0/1|0s|c|i",
			"/apis/batch/v1/namespaces/default/jobs": "Name|Status|Completions|Duration|Age|(Containers)|(Images)|(Selector)\n" +
				"a|Running|1/2|60s|0s|c|i|a=b",
			"/apis/coordination.k8s.io/v1/leases": "Name|Age", // the kinds without columns of their own
		} {
			if got := printed(t, server, path); got != want {
				t.Errorf("%s:\n got %s\nwant %s", path, got, want)
			}
		}
	})
}

func TestColumnsOfPods(t *testing.T) {
	inBubble(t, func(t *testing.T, server *informertest.Server, clients *kubernetes.Clientset) {
		always := corev1.ContainerRestartPolicyAlways
		spec := corev1.PodSpec{NodeName: "n", InitContainers: []corev1.Container{{Name: "i"}, {Name: "s", RestartPolicy: &always}},
			Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}}
		state := func(name string, state corev1.ContainerState) corev1.ContainerStatus {
			return corev1.ContainerStatus{Name: name, State: state, Ready: state.Running != nil, Started: new(state.Running != nil)}
		}
		running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		ended := func(code int32, reason string) corev1.ContainerState {
			return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}}
		}
		waiting := func(reason string) corev1.ContainerState {
			return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
		}
		ready := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		restarted := state("a", running)
		restarted.RestartCount = 2
		restarted.LastTerminationState = ended(1, "Error")
		restarted.LastTerminationState.Terminated.FinishedAt = metav1.NewTime(time.Now().Add(-time.Hour))
		done := []corev1.ContainerStatus{state("i", ended(0, "Completed")), state("s", running)}
		for _, c := range []struct {
			status corev1.PodStatus
			want   string // ready, status and restarts
			row    string // the condition of the row
		}{
			{status: corev1.PodStatus{Phase: corev1.PodPending}, want: "0/3|Pending|0"},
			{corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}, "0/3|Evicted|0",
				"|Completed=True, Failed: The pod failed."},
			{corev1.PodStatus{Phase: corev1.PodSucceeded}, "0/3|Succeeded|0",
				"|Completed=True, Succeeded: The pod has completed successfully."},
			{status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{
				state("i", running)}}, want: "0/3|Init:0/2|0"},
			{status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{
				state("i", waiting("ImagePullBackOff"))}}, want: "0/3|Init:ImagePullBackOff|0"},
			{status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{
				state("i", ended(3, ""))}}, want: "0/3|Init:ExitCode:3|0"},
			{status: corev1.PodStatus{Phase: corev1.PodRunning, InitContainerStatuses: done, Conditions: ready,
				ContainerStatuses: []corev1.ContainerStatus{restarted, state("b", running)}}, want: "3/3|Running|2 (60m ago)"},
			{status: corev1.PodStatus{Phase: corev1.PodRunning, InitContainerStatuses: done, ContainerStatuses: []corev1.ContainerStatus{
				state("a", running), state("b", waiting("CrashLoopBackOff"))}}, want: "2/3|CrashLoopBackOff|0"},
			{status: corev1.PodStatus{Phase: corev1.PodRunning, InitContainerStatuses: done, ContainerStatuses: []corev1.ContainerStatus{
				state("a", ended(0, "Completed")), state("b", running)}}, want: "2/3|NotReady|0"},
			{status: corev1.PodStatus{Phase: corev1.PodRunning, InitContainerStatuses: done, ContainerStatuses: []corev1.ContainerStatus{
				state("a", ended(0, "Completed")), state("b", ended(1, "Error"))}}, want: "1/3|Error|0"},
			{status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Reason: corev1.PodReasonSchedulingGated}}}, want: "0/3|SchedulingGated|0"},
		} {
			pods := corev1.SchemeGroupVersion.WithResource("pods")
			add(t, server, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: spec, Status: c.status})
			want := "Name|Ready|Status|Restarts|Age|(IP)|(Node)|(Nominated Node)|(Readiness Gates)\n" +
				"p|" + c.want + "|0s|<none>|n|<none>|<none>" + c.row
			if got := printed(t, server, "/api/v1/namespaces/default/pods"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if err := clients.CoreV1().Pods("default").Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

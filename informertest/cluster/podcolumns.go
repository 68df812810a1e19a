package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/watchcache"
)

var podColumns = []column[*corev1.Pod]{
	{name: "Ready", description: "The aggregate readiness state of this pod for accepting traffic.",
		cell: func(p *corev1.Pod) any { return summarize(p).ready }},
	{name: "Status", description: "The aggregate status of the containers in this pod.",
		cell: func(p *corev1.Pod) any { return summarize(p).status }},
	{name: "Restarts", description: "The number of times the containers in this pod have been restarted and when the " +
		"last container in this pod has restarted.", cell: func(p *corev1.Pod) any { return summarize(p).restarts }},
	age[*corev1.Pod](),
	{name: "IP", wide: true, description: corev1.PodStatus{}.SwaggerDoc()["podIP"], cell: func(p *corev1.Pod) any {
		if len(p.Status.PodIPs) == 0 {
			return none
		}
		return cmp.Or(p.Status.PodIPs[0].IP, none)
	}},
	{name: "Node", wide: true, description: corev1.PodSpec{}.SwaggerDoc()["nodeName"],
		cell: func(p *corev1.Pod) any { return cmp.Or(p.Spec.NodeName, none) }},
	{name: "Nominated Node", wide: true, description: corev1.PodStatus{}.SwaggerDoc()["nominatedNodeName"],
		cell: func(p *corev1.Pod) any { return cmp.Or(p.Status.NominatedNodeName, none) }},
	{name: "Readiness Gates", wide: true, description: corev1.PodSpec{}.SwaggerDoc()["readinessGates"],
		cell: func(p *corev1.Pod) any { return readinessGates(p) }},
}

// podTable returns the Table of pods. As in kube-apiserver, the row of a finished pod has the condition Completed.
func podTable() *watchcache.Table {
	table := tableOf(podColumns...)
	table.Conditions = func(obj metav1.Object) []metav1.TableRowCondition {
		completed := metav1.TableRowCondition{Type: metav1.RowCompleted, Status: metav1.ConditionTrue}
		phase := obj.(*corev1.Pod).Status.Phase
		switch phase {
		case corev1.PodSucceeded:
			completed.Message = "The pod has completed successfully."
		case corev1.PodFailed:
			completed.Message = "The pod failed."
		default:
			return nil
		}
		completed.Reason = string(phase)
		return []metav1.TableRowCondition{completed}
	}
	return table
}

const none = "<none>"

// summary is the state of a pod for people.
type summary struct{ ready, status, restarts string }

// summarize returns the state of a pod.
func summarize(p *corev1.Pod) summary {
	s := podState{pod: p, containers: len(p.Spec.Containers), status: cmp.Or(p.Status.Reason, string(p.Status.Phase))}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			s.status = c.Reason
		}
	}
	for _, c := range p.Spec.InitContainers {
		if isSidecar(c) {
			s.containers++
		}
	}
	if initialized := s.initialize(); initialized || hasCondition(p, corev1.PodInitialized) {
		s.run()
	}
	finished := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	switch {
	case p.DeletionTimestamp != nil && p.Status.Reason == "NodeLost":
		s.status = "Unknown"
	case p.DeletionTimestamp != nil && !finished:
		s.status = "Terminating"
	}
	restarts := fmt.Sprint(s.restarts.count)
	if s.restarts.count > 0 && !s.restarts.last.IsZero() {
		restarts += " (" + metatable.ConvertToHumanReadableDateType(s.restarts.last) + " ago)"
	}
	return summary{fmt.Sprintf("%d/%d", s.ready, s.containers), s.status, restarts}
}

// podState collects the state of a pod, container by container.
type podState struct {
	pod               *corev1.Pod
	ready, containers int
	status            string
	restarts          restarts
	sidecars          restarts // of init containers that go on running
}

// restarts are the restarts of containers.
type restarts struct {
	count int
	last  metav1.Time
}

func (r *restarts) add(c corev1.ContainerStatus) {
	r.count += int(c.RestartCount)
	if ended := c.LastTerminationState.Terminated; ended != nil && r.last.Before(&ended.FinishedAt) {
		r.last = ended.FinishedAt
	}
}

// initialize looks at the init containers, up to the first one that is not done. It reports whether all are done.
func (s *podState) initialize() bool {
	for i, c := range s.pod.Status.InitContainerStatuses {
		sidecar := slices.ContainsFunc(s.pod.Spec.InitContainers, func(spec corev1.Container) bool {
			return spec.Name == c.Name && isSidecar(spec)
		})
		s.restarts.add(c)
		if sidecar {
			s.sidecars.add(c)
		}
		ended, waiting := c.State.Terminated, c.State.Waiting
		switch {
		case ended != nil && ended.ExitCode == 0:
			continue
		case sidecar && c.Started != nil && *c.Started:
			if c.Ready {
				s.ready++
			}
			continue
		case ended != nil:
			s.status = "Init:" + reasonOf(ended)
		case waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing":
			s.status = "Init:" + waiting.Reason
		default:
			s.status = fmt.Sprintf("Init:%d/%d", i, len(s.pod.Spec.InitContainers))
		}
		return false
	}
	return true
}

// run looks at the containers.
func (s *podState) run() {
	s.restarts = s.sidecars
	running, failure := false, ""
	for _, c := range slices.Backward(s.pod.Status.ContainerStatuses) {
		s.restarts.add(c)
		ended, waiting := c.State.Terminated, c.State.Waiting
		switch {
		case waiting != nil && waiting.Reason != "":
			s.status = waiting.Reason
		case ended != nil:
			s.status = reasonOf(ended)
			if ended.ExitCode != 0 {
				failure = s.status
			}
		case c.Ready && c.State.Running != nil:
			running = true
			s.ready++
		}
	}
	if s.status != "Completed" {
		return
	}
	switch { // some containers may be left
	case running && hasCondition(s.pod, corev1.PodReady):
		s.status = "Running"
	case failure != "":
		s.status = failure
	case running:
		s.status = "NotReady"
	}
}

// reasonOf says why a container ended.
func reasonOf(ended *corev1.ContainerStateTerminated) string {
	switch {
	case ended.Reason != "":
		return ended.Reason
	case ended.Signal != 0:
		return fmt.Sprint("Signal:", ended.Signal)
	}
	return fmt.Sprint("ExitCode:", ended.ExitCode)
}

func isSidecar(c corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func hasCondition(p *corev1.Pod, kind corev1.PodConditionType) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

// readinessGates returns how many readiness gates of a pod are met.
func readinessGates(p *corev1.Pod) string {
	if len(p.Spec.ReadinessGates) == 0 {
		return none
	}
	met := 0
	for _, gate := range p.Spec.ReadinessGates {
		if hasCondition(p, gate.ConditionType) {
			met++
		}
	}
	return fmt.Sprintf("%d/%d", met, len(p.Spec.ReadinessGates))
}

var nodeColumns = []column[*corev1.Node]{
	{name: "Status", description: "The status of the node", cell: func(n *corev1.Node) any { return nodeStatus(n) }},
	{name: "Roles", description: "The roles of the node", cell: func(n *corev1.Node) any { return nodeRoles(n) }},
	age[*corev1.Node](),
	{name: "Version", description: corev1.NodeSystemInfo{}.SwaggerDoc()["kubeletVersion"],
		cell: func(n *corev1.Node) any { return n.Status.NodeInfo.KubeletVersion }},
	{name: "Internal-IP", wide: true, description: corev1.NodeStatus{}.SwaggerDoc()["addresses"],
		cell: func(n *corev1.Node) any { return address(n, corev1.NodeInternalIP) }},
	{name: "External-IP", wide: true, description: corev1.NodeStatus{}.SwaggerDoc()["addresses"],
		cell: func(n *corev1.Node) any { return address(n, corev1.NodeExternalIP) }},
	{name: "OS-Image", wide: true, description: corev1.NodeSystemInfo{}.SwaggerDoc()["osImage"],
		cell: func(n *corev1.Node) any { return cmp.Or(n.Status.NodeInfo.OSImage, "<unknown>") }},
	{name: "Kernel-Version", wide: true, description: corev1.NodeSystemInfo{}.SwaggerDoc()["kernelVersion"],
		cell: func(n *corev1.Node) any {
			version := cmp.Or(n.Status.NodeInfo.KernelVersion, "<unknown>")
			if architecture := n.Status.NodeInfo.Architecture; architecture != "" {
				version += " (" + architecture + ")"
			}
			return version
		}},
	{name: "Container-Runtime", wide: true, description: corev1.NodeSystemInfo{}.SwaggerDoc()["containerRuntimeVersion"],
		cell: func(n *corev1.Node) any { return cmp.Or(n.Status.NodeInfo.ContainerRuntimeVersion, "<unknown>") }},
}

func nodeStatus(n *corev1.Node) string {
	status := "Unknown"
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			status = "NotReady"
			if c.Status == corev1.ConditionTrue {
				status = "Ready"
			}
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

// nodeRoles returns the roles of a node, by its labels.
func nodeRoles(n *corev1.Node) string {
	var roles []string
	for label, value := range n.Labels {
		if role, ok := strings.CutPrefix(label, "node-role.kubernetes.io/"); ok && role != "" {
			roles = append(roles, role)
		} else if label == "kubernetes.io/role" && value != "" {
			roles = append(roles, value)
		}
	}
	slices.Sort(roles)
	return cmp.Or(strings.Join(slices.Compact(roles), ","), none)
}

// address returns the first address of a type among those of a node.
func address(n *corev1.Node, kind corev1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return none
}

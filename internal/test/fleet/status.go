package fleet

import (
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// status returns the status of a pod in state s, as in Kubernetes 1.30. Newer versions repeat the containers' resources
// and mounts there, which would add a kilobyte to each pod.
func (f *Fleet) status(s *podState, pod *corev1.Pod, hostIP string) corev1.PodStatus {
	status := corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qosClass(&pod.Spec)}
	status.Conditions = conditions(s, &pod.Spec)
	if s.stage < starting {
		return status
	}
	status.HostIP, status.HostIPs = hostIP, []corev1.HostIP{{IP: hostIP}}
	status.StartTime = new(s.at(s.startedAt))
	if s.stage.started() {
		ip := f.podIP(s.id)
		status.PodIP, status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	}
	switch s.stage {
	case starting:
	case succeeded:
		status.Phase = corev1.PodSucceeded
	case failed, terminated:
		status.Phase = corev1.PodFailed
	default:
		status.Phase = corev1.PodRunning
	}
	for i := range pod.Spec.InitContainers {
		status.InitContainerStatuses = append(status.InitContainerStatuses, f.initStatus(s, pod, i))
	}
	status.ContainerStatuses = make([]corev1.ContainerStatus, 0, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, f.containerStatus(s, pod, i))
	}
	return status
}

// conditions returns the conditions sorted, as the kubelet writes them.
func conditions(s *podState, spec *corev1.PodSpec) []corev1.PodCondition {
	condition := func(typ corev1.PodConditionType, status corev1.ConditionStatus, since int32, reason,
		message string) corev1.PodCondition {
		return corev1.PodCondition{Type: typ, Status: status, LastTransitionTime: s.at(since), Reason: reason,
			Message: message}
	}
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	switch s.stage {
	case created:
		if s.placedAt == 0 {
			return nil // the scheduler has not tried yet
		}
		return []corev1.PodCondition{condition(corev1.PodScheduled, no, s.placedAt, corev1.PodReasonUnschedulable,
			"0/12 nodes are available: 3 node(s) had untolerated taint {dedicated: batch}, 9 Insufficient cpu. preemption: 0/12 nodes are available: 12 No preemption victims found for incoming pod.")}
	case scheduled:
		return []corev1.PodCondition{condition(corev1.PodScheduled, yes, s.placedAt, "", "")}
	}
	sandbox, initialized, served := yes, yes, yes
	sandboxSince, initializedSince, since := s.startedAt+1, s.runningAt, s.changedAt
	var reason, message string
	switch s.stage {
	case starting:
		sandbox, initialized, served = no, no, no
		sandboxSince, initializedSince, since = s.startedAt, s.startedAt, s.startedAt
		reason, message = "ContainersNotReady", notReady(s, spec)
	case running:
		served, since = no, s.startedAt
		reason, message = "ContainersNotReady", notReady(s, spec)
	case unready:
		served = no
		reason, message = "ContainersNotReady", notReady(s, spec)
	case succeeded:
		sandbox, sandboxSince, served, reason = no, s.changedAt, no, "PodCompleted"
	case failed, terminated:
		sandbox, sandboxSince, served, reason = no, s.changedAt, no, "PodFailed"
	}
	// Succeeded pods count as initialized because they completed.
	initializedReason := ""
	if s.stage == succeeded {
		initializedReason = "PodCompleted"
	}
	return []corev1.PodCondition{
		condition(corev1.PodReadyToStartContainers, sandbox, sandboxSince, "", ""),
		condition(corev1.PodInitialized, initialized, initializedSince, initializedReason, ""),
		condition(corev1.PodReady, served, since, reason, message),
		condition(corev1.ContainersReady, served, since, reason, message),
		condition(corev1.PodScheduled, yes, s.placedAt, "", ""),
	}
}

// notReady names the containers that are not ready: all that have not started, or otherwise the main one.
func notReady(s *podState, spec *corev1.PodSpec) string {
	names := spec.Containers[0].Name
	if s.stage == starting {
		for i := range spec.Containers[1:] {
			names += " " + spec.Containers[i+1].Name
		}
	}
	return "containers with unready status: [" + names + "]"
}

func (f *Fleet) containerStatus(s *podState, pod *corev1.Pod, i int) corev1.ContainerStatus {
	c := &pod.Spec.Containers[i]
	status := corev1.ContainerStatus{Name: c.Name, Image: c.Image, Started: new(false)}
	if s.stage == starting {
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
		if len(pod.Spec.InitContainers) > 0 {
			status.State.Waiting.Reason = "PodInitializing"
		}
		return status
	}
	// Of several containers, only the main one fails and restarts.
	var restarts int32
	startedAt := s.runningAt + int32(min(i, 1))
	if i == 0 && s.restarts > 0 {
		restarts, startedAt = s.restarts, s.restartAt
	}
	r := newRNG(f.seed, domainContainer, s.id<<24|uint64(i)<<20|uint64(restarts)&(1<<20-1))
	status.ContainerID = "containerd://" + r.hex(64)
	status.ImageID = imageID(c.Image)
	status.RestartCount = restarts
	if restarts > 0 {
		exit := corev1.ContainerStateTerminated{ExitCode: 1, Reason: failureKinds[r.n(len(failureKinds))]}
		if exit.Reason == "OOMKilled" {
			exit.ExitCode = 137
		}
		previous := newRNG(f.seed, domainContainer, s.id<<24|uint64(i)<<20|uint64(restarts-1)&(1<<20-1))
		exit.ContainerID = "containerd://" + previous.hex(64)
		exit.StartedAt, exit.FinishedAt = s.at(s.runningAt), s.at(s.restartAt-1)
		status.LastTerminationState.Terminated = &exit
	}
	if s.stage.finished() {
		end := &corev1.ContainerStateTerminated{Reason: "Completed", ContainerID: status.ContainerID,
			StartedAt: s.at(startedAt), FinishedAt: s.at(s.changedAt)}
		if s.stage != succeeded && i == 0 {
			end.ExitCode, end.Reason = 1, "Error"
			if s.stage == terminated {
				end.ExitCode = 143 // killed by SIGTERM
			}
		}
		status.State.Terminated = end
	} else {
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: s.at(startedAt)}
		status.Started = new(s.stage != running || i > 0)
		status.Ready = s.stage == ready || s.stage == terminating || i > 0
	}
	return status
}

func (f *Fleet) initStatus(s *podState, pod *corev1.Pod, i int) corev1.ContainerStatus {
	c := &pod.Spec.InitContainers[i]
	status := corev1.ContainerStatus{Name: c.Name, Image: c.Image, Started: new(false)}
	if s.stage == starting {
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
		return status
	}
	r := newRNG(f.seed, domainContainer, s.id<<24|uint64(8+i)<<20)
	status.ContainerID = "containerd://" + r.hex(64)
	status.ImageID = imageID(c.Image)
	status.Ready = true
	status.State.Terminated = &corev1.ContainerStateTerminated{
		Reason: "Completed", ContainerID: status.ContainerID, StartedAt: s.at(s.startedAt + 1), FinishedAt: s.at(s.runningAt),
	}
	return status
}

// imageID returns the ID to which the container runtime resolves image: the same digest everywhere.
func imageID(image string) string {
	h := fnv.New64a()
	h.Write([]byte(image))
	r := newRNG(h.Sum64(), domainImage, 0)
	repository := image[:strings.LastIndexByte(image, ':')]
	return repository + "@sha256:" + r.hex(64)
}

// qosClass follows the API documentation of PodQOSClass.
func qosClass(spec *corev1.PodSpec) corev1.PodQOSClass {
	any, guaranteed := false, true
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			any = any || len(r.Requests) > 0 || len(r.Limits) > 0
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				request, limit := r.Requests[name], r.Limits[name]
				if limit.IsZero() || request.Cmp(limit) != 0 {
					guaranteed = false
				}
			}
		}
	}
	switch {
	case !any:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

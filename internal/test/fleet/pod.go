package fleet

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// stage is a stage in the life of a pod:
//
//	created ──> scheduled ──> starting ──> running ──> ready <──> unready
//	                                          │          │           │
//	                                          │          ├───────────┼──> succeeded, failed (Jobs)
//	                                          └──────────┴───────────┴──> terminating ──> terminated ──> gone
//
// A pod whose containers have not started, or are finished (succeeded, failed), goes without being terminated.
type stage uint8

const (
	created     stage = iota // created by its controller, but not scheduled
	scheduled                // has a node
	starting                 // the kubelet pulls its images and runs its init containers
	running                  // its containers run, but are not ready
	ready                    // serves requests
	unready                  // was ready, but fails its probe
	succeeded                // its containers have succeeded
	failed                   // its containers have failed, or the pod was evicted
	terminating              // has a deletionTimestamp, and is still ready
	terminated               // its containers have ended, and its object is about to be deleted
)

// String returns the name of the stage.
func (s stage) String() string {
	names := [...]string{"created", "scheduled", "starting", "running", "ready", "unready", "succeeded", "failed",
		"terminating", "terminated"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("stage(%d)", uint8(s))
}

// placed reports whether the pod has a node.
func (s stage) placed() bool { return s != created }

// started reports whether the pod's containers have started.
func (s stage) started() bool { return s >= running }

// finished reports whether the pod's containers have ended and will not run again.
func (s stage) finished() bool { return s == succeeded || s == failed || s == terminated }

// podState is the data that distinguishes a pod from others of its workload, and from its earlier states. It is small,
// so that a stream of changes can keep all pods. Everything else is drawn again from id.
type podState struct {
	id      uint64 // unique; the initial pods have 0 to Pods-1
	rv      uint64
	created int64 // seconds since 1970

	// More times, in seconds after created. Each has a meaning only from the stage that it begins.
	placedAt   int32
	startedAt  int32 // startTime: the kubelet has seen the pod
	runningAt  int32 // its containers were started
	changedAt  int32 // became ready or unready, or finished
	restartAt  int32 // last restart of the main container
	deletionAt int32 // the deletion request; deletionTimestamp is later by the grace period
	updatedAt  int32 // last write of the kubelet

	name     int32 // number of the generated suffix, or the ordinal in a StatefulSet
	workload int32
	node     int32
	restarts int32 // of the main container
	stage    stage

	// How often the deletion cost and the image were updated, and when the last time. 0 is the state at the beginning.
	cost, costAt, image, imageAt int32
}

// epoch is the time at which a fleet is observed: 2026-01-15T09:00:00Z. All of its pods are older, all changes are
// newer.
const epoch = 1_768_467_600

// initialState returns the initial state of pod i.
func (f *Fleet) initialState(i int) podState {
	if i < 0 || i >= f.config.Pods {
		panic(fmt.Sprintf("fleet: no pod %d in a fleet of %d", i, f.config.Pods))
	}
	number := f.workloadOf(i)
	w := &f.workloads[number]
	ordinal := i - w.first
	r := newRNG(f.seed, domainInitial, uint64(i))
	s := podState{
		id:       uint64(i),
		rv:       f.firstRV + rvStride*uint64(i) + uint64(r.n(rvStride)),
		workload: int32(number),
		node:     int32(r.n(f.config.Nodes)),
	}
	switch w.kind {
	case statefulSet:
		s.name = int32(ordinal)
	case daemonSet:
		s.node = int32(ordinal)
		fallthrough
	default:
		// Each pod has its own range of the suffixes, so names are unique, and sorted like the pods. They are even; newName
		// returns the odd ones.
		share := suffixes / w.replicas &^ 1
		s.name = int32((ordinal*share + r.n(share)) &^ 1)
	}
	switch {
	case w.kind == job:
		s.stage = []stage{succeeded, ready, failed, starting}[r.weighted(72, 17, 8, 3)]
	case w.kind == deployment:
		s.stage = []stage{ready, unready, running, starting, scheduled, created, failed}[r.weighted(960, 12, 5, 6, 2, 8, 7)]
	default:
		s.stage = []stage{ready, unready, starting}[r.weighted(985, 10, 5)]
	}

	// Pods of a workload were created by its last rollout, within minutes, except for those replaced since.
	age := newRNG(w.seed, domainInitial, w.cluster)
	rollout := epoch - int64(age.between(3_600, 30*86_400))
	s.created = min(rollout+int64(r.n(20+4*w.replicas)), epoch-3_000)
	if r.chance(20) {
		s.created = epoch - 600 - int64(r.n(int(epoch-600-rollout)))
	}
	if s.stage < running {
		s.created = epoch - int64(r.between(30, 600)) // created recently
	}
	s.placedAt = int32(r.n(2))
	s.startedAt = s.placedAt + int32(r.n(2))
	s.runningAt = s.startedAt + int32(r.between(2, 25))
	s.changedAt = s.runningAt + int32(r.between(1, 40))
	s.updatedAt = s.changedAt
	life := int(epoch - s.created)
	if s.stage == unready || s.stage == failed || s.stage == succeeded {
		s.changedAt = min(s.changedAt+int32(r.n(life)), int32(life))
		s.updatedAt = s.changedAt
	}
	if s.stage.started() && !s.stage.finished() && r.chance(14) {
		s.restarts = int32(pick(&r, []int{1, 1, 1, 2, 2, 3, 5, 9, 27, 140}))
		s.restartAt = int32(min(int(s.runningAt)+r.n(life), life))
		s.changedAt = max(s.changedAt, s.restartAt+5)
		s.updatedAt = s.changedAt
	}
	return s
}

// newName returns the suffix number for the n-th pod created after the initial ones: an odd number, in a pseudorandom
// order. The factor has no common divisor with their count.
func newName(n uint64) int32 {
	const odd = suffixes / 2
	return int32(n*4_021_691%odd*2 + 1)
}

// podName returns the name of the pod in state s.
func (f *Fleet) podName(s *podState) string {
	w := &f.workloads[s.workload]
	if w.kind == statefulSet {
		return w.prefix + strconv.Itoa(int(s.name))
	}
	return w.prefix + suffix(uint32(s.name))
}

// at returns the time this many seconds after the pod was created.
func (s *podState) at(seconds int32) metav1.Time {
	return metav1.Time{Time: time.Unix(s.created+int64(seconds), 0)}
}

// build makes the pod with state s.
func (f *Fleet) build(s *podState) *corev1.Pod {
	w := &f.workloads[s.workload]
	r := newRNG(f.seed, domainPod, s.id)
	nodeName, hostIP := f.node(int(s.node))

	shape := newShaper(w)
	shape.template()
	pod := shape.pod
	pod.Name = f.podName(s)
	pod.UID = types.UID(r.uuid())
	pod.ResourceVersion = strconv.FormatUint(s.rv, 10)
	pod.CreationTimestamp = s.at(0)
	switch w.kind {
	case statefulSet:
		pod.Labels["statefulset.kubernetes.io/pod-name"] = pod.Name
		pod.Labels["apps.kubernetes.io/pod-index"] = strconv.Itoa(int(s.name))
		pod.Spec.Hostname = pod.Name
		for i := range pod.Spec.Volumes {
			if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
				claim.ClaimName = "data-" + pod.Name
			}
		}
	case daemonSet:
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn,
					Values: []string{nodeName}}},
			}}},
		}}
	case job:
		pod.Finalizers = []string{"batch.kubernetes.io/job-tracking"}
	}
	controller := managedByController(pod)
	if w.kind == job && s.stage.finished() {
		pod.Finalizers = nil // the controller has removed its finalizer
	}
	shape.admit(f.volumeSuffix(s.id))
	if s.stage.placed() {
		pod.Spec.NodeName = nodeName
	}
	if s.stage == terminating || s.stage == terminated {
		grace := *pod.Spec.TerminationGracePeriodSeconds
		pod.DeletionTimestamp = new(s.at(s.deletionAt + int32(grace)))
		pod.DeletionGracePeriodSeconds = new(grace)
	}
	pod.Status = f.status(s, pod, hostIP)

	pod.ManagedFields = make([]metav1.ManagedFieldsEntry, 0, 2)
	pod.ManagedFields = append(pod.ManagedFields, metav1.ManagedFieldsEntry{
		Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
		Time: new(s.at(0)), FieldsType: "FieldsV1", FieldsV1: controller,
	})
	if s.stage >= starting {
		pod.ManagedFields = append(pod.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
			Time: new(s.at(s.updatedAt)), FieldsType: "FieldsV1", FieldsV1: managedByKubelet(pod), Subresource: "status",
		})
	}
	s.update(pod)
	return pod
}

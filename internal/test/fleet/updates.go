package fleet

import (
	"iter"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// The share of [Fleet.Updates] that changes each part of a pod, in percent.
const (
	StatusUpdates   = 70
	MetadataUpdates = 20
	SpecUpdates     = 10
)

// Updates returns an endless stream of modifications of random pods. Equal seeds give equal streams, and each iteration
// starts from the beginning. Unlike [Fleet.Changes], it adds and deletes nothing, so it measures what an update costs.
//
// Each update changes one part of the pod, besides resourceVersion and managedFields:
//
//   - 70% change the status: a probe fails or recovers, a container restarts. The kubelet writes these.
//   - 20% change the metadata: the annotation controller.kubernetes.io/pod-deletion-cost.
//   - 10% change the spec: the image of the first container, one of the few fields of a pod that may change.
//
// Resource versions increase strictly, with gaps, from [Fleet.ResourceVersion] on.
func (f *Fleet) Updates(seed uint64) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		s := newStream(f, seed)
		for {
			place := s.rng.n(len(s.pods))
			p := &s.pods[place]
			for tried := 0; (p.stage != ready && p.stage != unready) && tried < len(s.pods); tried++ {
				place = (place + 1) % len(s.pods)
				p = &s.pods[place]
			}
			switch now := s.now(p); s.rng.weighted(StatusUpdates, MetadataUpdates, SpecUpdates) {
			case 0:
				s.updateStatus(p, now)
			case 1:
				p.cost, p.costAt = p.cost+1, now
			default:
				p.image, p.imageAt = p.image+1, now
			}
			s.tick(p)
			if !yield(Change{Type: watch.Modified, Object: f.build(p)}) {
				return
			}
		}
	}
}

// updateStatus lets the probe of a pod fail or recover, or its first container restart.
func (s *stream) updateStatus(p *podState, now int32) {
	if p.stage == unready {
		p.stage = ready
	} else {
		p.stage = unready
		if s.rng.chance(30) {
			p.restartAt = now
			p.restarts++
		}
	}
	p.changedAt, p.updatedAt = now, now
}

// update makes the changes that [Fleet.Updates] made to the metadata and the spec.
func (s *podState) update(pod *corev1.Pod) {
	manage := func(manager string, second int32, fields string) {
		pod.ManagedFields = append(pod.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
			Time: new(s.at(second)), FieldsType: "FieldsV1", FieldsV1: fieldsV1([]byte(fields)),
		})
	}
	if s.cost > 0 {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[corev1.PodDeletionCost] = strconv.Itoa(int(s.cost))
		manage("cost-controller", s.costAt, `{"f:metadata":{"f:annotations":{"f:`+corev1.PodDeletionCost+`":{}}}}`)
	}
	if s.image > 0 {
		c := &pod.Spec.Containers[0]
		c.Image += "-" + strconv.Itoa(int(s.image))
		manage("image-updater", s.imageAt, `{"f:spec":{"f:containers":{"k:{\"name\":\"`+c.Name+`\"}":{"f:image":{}}}}}`)
	}
}

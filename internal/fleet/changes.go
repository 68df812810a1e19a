package fleet

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Change is one change of a fleet, as a watch tells it.
type Change struct {
	// Type is watch.Added, watch.Modified or watch.Deleted.
	Type watch.EventType
	// Object is the new state; for watch.Deleted the last one, with the resourceVersion of the deletion. The receiver
	// owns it.
	Object *corev1.Pod
}

// Changes returns an endless stream of what happens to the fleet after its beginning. Equal seeds give equal streams,
// and each iteration over the result starts from the beginning again. Iterations are independent of each other.
//
// The stream is consistent: only pods that are there are modified or deleted, only keys that are not there are added,
// and resourceVersions increase strictly, with gaps, from [Fleet.ResourceVersion] on. Of all changes 80% are
// modifications, 10% additions and 10% deletions, so that the number of pods stays about the same: within 1/20, or one
// pod in small fleets.
//
// Most changes are rollouts: a pod is terminated in steps, and another of the same workload is created, gets its node,
// starts and becomes ready, in steps as well. Pods of StatefulSets are created with their old name, but only when that
// is free; others get a new name. Several rollouts go on at a time, each in a workload of its own. The other changes
// happen to pods everywhere: probes fail and recover, containers restart, Jobs finish.
//
// A stream remembers about 80 bytes for a pod. It takes about as long to make a change as to build a pod.
func (f *Fleet) Changes(seed uint64) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		s := newStream(f, seed)
		for s.next(yield) {
		}
	}
}

// stream is the state of the fleet as it changes.
type stream struct {
	f       *Fleet
	rng     rng
	pods    []podState // a pod's place is its workload's for ever: a replacement takes the place of the old one
	busy    []bool     // by place: a lane works on the pod
	lanes   []lane
	rv      uint64
	nowMS   int64 // milliseconds since 1970
	created uint64
}

// lane replaces pods, one after the other. There are several, and chance decides which one goes on next.
type lane struct {
	place  int
	script []step
	next   podState // the replacement, from its creation until it takes its place
}

// step is a part of a replacement; each makes one change.
type step uint8

const (
	stepTerminate step = iota // deletionTimestamp
	stepEnd                   // the containers have ended
	stepDelete
	stepCreate
	stepSchedule
	stepStart
	stepRun
	stepReady
	stepElsewhere // something happens to another pod
)

// Each script has ten steps, of which one is an addition and one a deletion: that makes the shares that are promised.
var (
	// surge is how Deployments replace a pod.
	surge = []step{stepElsewhere, stepCreate, stepSchedule, stepStart, stepRun, stepReady, stepTerminate, stepElsewhere, stepEnd, stepDelete}
	// inPlace is for where the old pod has to go first: because of its name, or because of its node.
	inPlace = []step{stepTerminate, stepEnd, stepElsewhere, stepDelete, stepCreate, stepSchedule, stepElsewhere, stepStart, stepRun, stepReady}
)

const (
	maxLanes = 64
	// placesTried bounds the search for a pod that something can happen to.
	placesTried = 20
)

func newStream(f *Fleet, seed uint64) *stream {
	s := &stream{
		f:     f,
		rng:   newRNG(f.config.Seed, domainChanges, seed),
		pods:  make([]podState, f.Len()),
		busy:  make([]bool, f.Len()),
		rv:    f.listRV(),
		nowMS: epoch * 1000,
		lanes: make([]lane, min(max(f.Len()/20, 1), maxLanes)),
	}
	for i := range s.pods {
		s.pods[i] = f.initialState(i)
	}
	for i := range s.lanes {
		s.lanes[i].place = -1
	}
	return s
}

// next makes changes until one has been told. It returns what yield has returned.
func (s *stream) next(yield func(Change) bool) bool {
	for {
		l := &s.lanes[s.rng.n(len(s.lanes))]
		if len(l.script) == 0 {
			s.assign(l)
		}
		at := l.script[0]
		l.script = l.script[1:]
		typ, pod := s.do(l, at)
		if pod == nil {
			continue
		}
		s.tick(pod)
		change := Change{Type: typ, Object: s.f.build(pod)}
		if len(l.script) == 0 {
			s.finish(l)
		}
		return yield(change)
	}
}

// tick lets time pass until the next change, which is of pod.
func (s *stream) tick(pod *podState) {
	s.rv += uint64(s.rng.between(1, 9))
	s.nowMS += int64(s.rng.between(5, 50))
	pod.rv = s.rv
}

// assign gives the lane a pod to replace: usually the next one of the workload that it is at.
func (s *stream) assign(l *lane) {
	place := l.place + 1
	if l.place < 0 || place == len(s.pods) || s.pods[place].workload != s.pods[l.place].workload || s.busy[place] || s.rng.chance(10) {
		// There are many times more places than lanes, or just one lane.
		for place = s.rng.n(len(s.pods)); s.busy[place]; {
			place = s.rng.n(len(s.pods))
		}
	}
	l.place = place
	s.busy[place] = true
	l.script = inPlace
	if s.f.workloads[s.pods[place].workload].kind == deployment {
		l.script = surge
	}
}

// finish puts the replacement in its place.
func (s *stream) finish(l *lane) {
	s.pods[l.place] = l.next
	s.busy[l.place] = false
}

// do takes a step. It returns what has changed, or nil when the step does not apply.
func (s *stream) do(l *lane, at step) (watch.EventType, *podState) {
	old := &s.pods[l.place]
	switch at {
	case stepTerminate, stepEnd:
		if old.stage < running || old.stage == succeeded || old.stage == failed {
			// Such a pod is deleted at once. Something happens elsewhere instead, for the shares' sake.
			return s.elsewhere()
		}
		now := s.now(old)
		if at == stepTerminate {
			if old.stage != ready {
				old.changedAt, old.updatedAt = now, now // recovers with its last breath: terminating pods are ready
			}
			old.stage, old.deletionAt = terminating, now
			return watch.Modified, old
		}
		old.stage, old.changedAt, old.updatedAt = terminated, now, now
		return watch.Modified, old
	case stepDelete:
		return watch.Deleted, old
	case stepCreate:
		s.create(l, old)
		return watch.Added, &l.next
	case stepSchedule, stepStart, stepRun, stepReady:
		s.advance(&l.next)
		return watch.Modified, &l.next
	}
	return s.elsewhere()
}

// now returns the time in the life of pod p.
func (s *stream) now(p *podState) int32 { return int32(s.nowMS/1000 - p.created) }

// create makes the replacement of old.
func (s *stream) create(l *lane, old *podState) {
	l.next = podState{
		id:       uint64(len(s.pods)) + s.created,
		created:  s.nowMS / 1000,
		workload: old.workload,
		name:     old.name,
		node:     old.node,
	}
	switch s.f.workloads[old.workload].kind {
	case statefulSet: // keeps the name; its volume keeps it in the zone, though not on the node
		l.next.node = int32(s.rng.n(s.f.config.Nodes))
	case daemonSet: // keeps the node
		l.next.name = newName(s.created)
	default:
		l.next.name, l.next.node = newName(s.created), int32(s.rng.n(s.f.config.Nodes))
	}
	s.created++
}

// advance brings a pod that is not ready yet one stage further.
func (s *stream) advance(p *podState) {
	now := s.now(p)
	switch p.stage {
	case created:
		p.stage, p.placedAt = scheduled, now
	case scheduled:
		p.stage, p.startedAt, p.updatedAt = starting, now, now
	case starting:
		p.stage, p.runningAt, p.changedAt, p.updatedAt = running, now, now, now
	case running, unready:
		p.stage, p.changedAt, p.updatedAt = ready, now, now
	}
}

// elsewhere lets something happen to a pod that no lane works on. It returns nil when it finds none.
func (s *stream) elsewhere() (watch.EventType, *podState) {
	for range placesTried {
		place := s.rng.n(len(s.pods))
		p := &s.pods[place]
		if s.busy[place] || p.stage == succeeded || p.stage == failed {
			continue
		}
		now := s.now(p)
		switch {
		case p.stage != ready:
			s.advance(p)
		case s.f.workloads[p.workload].kind == job:
			p.stage, p.changedAt, p.updatedAt = succeeded, now, now
			if s.rng.chance(15) {
				p.stage = failed
			}
		case s.rng.chance(60):
			p.stage, p.changedAt, p.updatedAt = unready, now, now
		default: // the main container was killed, and is back, but its probe has not succeeded yet
			p.stage, p.restartAt, p.changedAt, p.updatedAt = unready, now, now, now
			p.restarts++
		}
		return watch.Modified, p
	}
	return "", nil
}

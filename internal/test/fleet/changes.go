package fleet

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Change is one change of a fleet, like an event of a watch.
type Change struct {
	// Type is watch.Added, watch.Modified or watch.Deleted.
	Type watch.EventType
	// Object is the new state, or for watch.Deleted the last one, with the resourceVersion of the deletion. The receiver
	// owns it.
	Object *corev1.Pod
}

// Changes returns an endless stream of changes to the fleet, from its initial state on. Equal seeds give equal streams.
// Each iteration over the result starts from the beginning, and is independent of others.
//
// The stream is consistent: it modifies and deletes only existing pods, adds only keys that do not exist, and its
// resourceVersions increase strictly, with gaps, from [Fleet.ResourceVersion] on. Of all changes 80% are modifications,
// 10% additions and 10% deletions. So the number of pods stays about the same: within 1/20, or one pod in small fleets.
//
// Most changes are rollouts: a pod is terminated in steps, and another of the same workload is created, scheduled,
// started and becomes ready, in steps as well. Pods of StatefulSets are created with their old name, but only when that
// is free; others get a new name. Several rollouts run at a time, each in its own workload. The other changes affect
// pods everywhere: probes fail and recover, containers restart, Jobs finish.
//
// A stream keeps about 80 bytes per pod. Making a change takes about as long as building a pod.
func (f *Fleet) Changes(seed uint64) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		s := newStream(f, seed)
		for s.next(yield) {
		}
	}
}

// stream is the changing state of the fleet.
type stream struct {
	f       *Fleet
	rng     rng
	pods    []podState // each place belongs to one workload; a replacement takes the old pod's place
	busy    []bool     // by place: whether a lane works on the pod
	lanes   []lane
	rv      uint64
	nowMS   int64 // milliseconds since 1970
	created uint64
}

// lane replaces pods, one after the other. There are several lanes; a random one continues next.
type lane struct {
	place  int
	script []step
	next   podState // the replacement, until it takes the old pod's place
}

// step is a part of a replacement. Each step makes one change.
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
	stepElsewhere // another pod changes
)

// Each script has ten steps, with one addition and one deletion. This gives the documented shares.
var (
	// surge is how Deployments replace a pod.
	surge = []step{stepElsewhere, stepCreate, stepSchedule, stepStart, stepRun, stepReady, stepTerminate, stepElsewhere,
		stepEnd, stepDelete}
	// inPlace is for pods that must go first, because the new pod reuses their name or their node.
	inPlace = []step{stepTerminate, stepEnd, stepElsewhere, stepDelete, stepCreate, stepSchedule, stepElsewhere, stepStart,
		stepRun, stepReady}
)

const (
	maxLanes = 64
	// placesTried bounds the search for a pod that can change.
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

// next makes steps until one yields a change. It returns the result of yield.
func (s *stream) next(yield func(Change) bool) bool {
	for {
		l := &s.lanes[s.rng.n(len(s.lanes))]
		if len(l.script) == 0 {
			s.assign(l)
		}
		todo := l.script[0]
		l.script = l.script[1:]
		typ, pod := s.do(l, todo)
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

// assign gives the lane a pod to replace: usually the next one of its present workload.
func (s *stream) assign(l *lane) {
	place := l.place + 1
	if l.place < 0 || place == len(s.pods) || s.pods[place].workload != s.pods[l.place].workload || s.busy[place] ||
		s.rng.chance(10) {
		// There are many more places than lanes, or just one lane.
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

// do takes a step. It returns the change, or nil if the step does not apply.
func (s *stream) do(l *lane, todo step) (watch.EventType, *podState) {
	old := &s.pods[l.place]
	switch todo {
	case stepTerminate, stepEnd:
		if old.stage < running || old.stage == succeeded || old.stage == failed {
			// Such a pod is deleted at once. Another pod changes instead, to keep the shares.
			return s.elsewhere()
		}
		now := s.now(old)
		if todo == stepTerminate {
			if old.stage != ready {
				old.changedAt, old.updatedAt = now, now // terminating pods are ready
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

// now returns the present time, in seconds since p was created.
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
	case statefulSet: // keeps the name; its volume ties it to the zone, but not to the node
		l.next.node = int32(s.rng.n(s.f.config.Nodes))
	case daemonSet: // keeps the node
		l.next.name = newName(s.created)
	default:
		l.next.name, l.next.node = newName(s.created), int32(s.rng.n(s.f.config.Nodes))
	}
	s.created++
}

// advance brings a pod that is not ready one stage further.
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

// elsewhere changes a pod that no lane works on. It returns nil if it finds none.
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
		default: // the main container restarted, but its probe has not succeeded yet
			p.stage, p.restartAt, p.changedAt, p.updatedAt = unready, now, now, now
			p.restarts++
		}
		return watch.Modified, p
	}
	return "", nil
}

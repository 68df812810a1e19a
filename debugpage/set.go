package debugpage

import (
	"fmt"
	"slices"
	"time"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/status"
)

// How much the page shows of a set of informers.
const (
	maxMembers        = 100 // whose informers it shows
	maxMemberProblems = 10  // of members, without those of the set
)

// shownMember is what the page may show of a member.
type shownMember struct {
	informer Informer
	problems []Problem
}

// set returns the summary of a set, and the informers of its members that the page shows.
func (b *builder) set(name string, members []informer.MemberStatus) (Set, []Informer) {
	s := Set{Name: name, Members: len(members), States: map[string]int{}}
	all := make([]shownMember, len(members))
	for i, m := range members {
		all[i] = b.member(name, m)
		s.States[m.State.String()]++
		s.sum(m.Informer)
		s.Severity = worse(s.Severity, all[i].informer.Severity)
		if all[i].informer.Severity != "" {
			s.Bad++
		}
	}
	slices.SortStableFunc(all, func(x, y shownMember) int {
		return rank(y.informer.Severity) - rank(x.informer.Severity)
	})
	if s.Bad > 0 {
		b.add("set", name, []finding{{s.Severity, fmt.Sprintf("%s of %s with problems", number(s.Bad),
			count(s.Members, "member")), ""}})
	}
	var shown []Informer
	problems := 0
	for _, m := range all[:min(len(all), maxMembers)] {
		if problems < maxMemberProblems {
			b.problems = append(b.problems, m.problems...)
			problems += len(m.problems)
		}
		shown = append(shown, m.informer)
	}
	return s, shown
}

// sum adds the figures of a member.
func (s *Set) sum(i informer.InformerStatus) {
	s.Objects += i.Objects
	s.MemoryBytes += i.Memory
	s.Backlog += i.Queued
	s.Watches += len(i.Reflectors)
	for _, r := range i.Reflectors {
		s.Events += r.Traffic.Events
		if r.WatchOpen {
			s.Open++
		}
	}
	for _, h := range i.Handlers {
		s.Backlog += h.Backlog
		s.LagSeconds = max(s.LagSeconds, h.Oldest.Seconds())
	}
}

// member returns what the page shows of a member.
func (b *builder) member(set string, m informer.MemberStatus) shownMember {
	own := builder{now: b.now, authorized: b.authorized, hidden: b.hidden}
	title := set + ": " + m.Name
	i := own.informer(m.Informer, title+", ")
	i.Set, i.Member = set, shorten(m.Name)
	if m.State == status.MemberWaiting { // its watch has not started, which is right
		i.Severity, own.problems = "", nil
	}
	i.Severity = worse(i.Severity, own.add("informer", title, memberProblems(m, b.now)))
	return shownMember{i, own.problems}
}

// memberProblems returns the problems of a member that its informer does not have.
func memberProblems(m informer.MemberStatus, now time.Time) (found []finding) {
	detail := ""
	if m.Err != nil {
		detail = m.Err.Error()
	}
	switch {
	case m.State == status.MemberEnded && m.Err != nil:
		return []finding{{SeverityError, "it has ended: " + class(m.Err), detail}}
	case m.Err != nil:
		return []finding{{SeverityError, "it cannot start: " + class(m.Err), detail}}
	case m.State == status.MemberUnsynced:
		return []finding{{SeverityWarning, "it is not synced, and others start without it" +
			lastOf(m.Informer.Reflectors, now), ""}}
	}
	return nil
}

// lastOf says what kind of error came last to the first reflector without a watch that had one.
func lastOf(all []status.Reflector, now time.Time) string {
	for _, r := range all {
		if !r.WatchOpen && r.LastError != nil {
			return lastError(r.LastError, r.LastErrorTime, now)
		}
	}
	return ""
}

package shard

import (
	"testing"
	"time"

	"github.com/typedinformer/informer/informertest"
)

// lists returns how often the informer of a listed.
func (a *actor) lists() (n int) {
	for _, r := range a.pods.Status().Reflectors {
		n += r.Lists
	}
	return n
}

// Slots that move away and come back within keepPeriod cost no list. Those that stay away are dropped after it.
func TestObjectsAreKeptForAWhile(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 100)
		keep := func(a *actor, _ *Config) { a.keeps = keepPeriod }
		a := s.join("a", keep)
		<-time.After(settle)
		for _, name := range []string{"b", "c"} {
			b := s.join(name, keep)
			<-time.After(settle)
			if st := a.Status(); st.Owned != st.Planned || st.Held != 16 || b.Status().Owned != 16-st.Owned {
				t.Errorf("the status is %+v", st)
			}
			b.leave()
			<-time.After(settle)
			s.wantSettled(a)
		}
		if n := a.lists(); n != 1 {
			t.Errorf("a listed %d times", n)
		}
		b := s.join("d", keep)
		<-time.After(keepPeriod + settle)
		s.wantSettled(a, b)
		if n := a.lists(); n != 2 {
			t.Errorf("a listed %d times", n)
		}
	})
}

// A replica whose lists are slow comes to own slots while the group changes all the time.
func TestListsEndWhileTheGroupChanges(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 100)
		var all []*actor
		join := func(name string) *actor {
			a := s.join(name)
			all = append(all, a)
			return a
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			join(name)
		}
		<-time.After(settle)
		s.server.Inject(informertest.Fault{Delay: 7 * time.Second, Match: func(r informertest.Request) bool {
			return r.Header.Get("User-Agent") == "slow" && r.Resource == podsResource
		}})
		slow := join("slow")
		for _, name := range []string{"e", "f", "g", "h"} {
			<-time.After(3 * time.Second)
			join(name)
		}
		if st := slow.Status(); st.Owned == 0 {
			t.Errorf("the status is %+v", st)
		}
		<-time.After(3 * settle)
		s.wantSettled(all...)
	})
}

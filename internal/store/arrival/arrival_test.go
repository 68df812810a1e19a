package arrival

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// state is the state of a store: the version of each namespace, and an object named key.
type state struct {
	versions map[string]int
	uid      types.UID
	version  string
}

func (s state) Version(namespace string) string {
	if s.versions[namespace] == 0 {
		return ""
	}
	return strconv.Itoa(s.versions[namespace])
}

func (s state) Object(name types.NamespacedName) (types.UID, string) {
	if name != key {
		return "", ""
	}
	return s.uid, s.version
}

var key = types.NamespacedName{Namespace: "a", Name: "x"}

// Each kind of want ends with the state that has it, and not before.
// Guarantees: Q12
func TestWantEndsWithItsState(t *testing.T) {
	have := func(version int, uid types.UID, objectVersion ...int) state {
		s := state{versions: map[string]int{"a": version, "b": 100}, uid: uid}
		if len(objectVersion) > 0 {
			s.version = strconv.Itoa(objectVersion[0])
		}
		return s
	}
	for name, c := range map[string]struct {
		want          Want
		before, after state
	}{
		"version":                    {Want{Key: key, Version: "10", UID: "u"}, have(9, "u"), have(10, "u")},
		"later version":              {Want{Key: key, Version: "10", UID: "u"}, have(9, "u"), have(11, "u")},
		"no version yet":             {Want{Key: key, Version: "10", UID: "u"}, have(0, ""), have(10, "")},
		"gone":                       {Want{Key: key, UID: "u", Gone: true}, have(10, "u"), have(10, "")},
		"recreated":                  {Want{Key: key, UID: "u", Gone: true}, have(10, "u"), have(10, "v")},
		"created, then gone":         {Want{Key: key, Version: "10", UID: "u", Gone: true}, have(9, ""), have(11, "")},
		"created, not gone":          {Want{Key: key, Version: "10", UID: "u", Gone: true}, have(10, "u"), have(11, "")},
		"gone after the version":     {Want{Key: key, Version: "10", UID: "u", Gone: true}, have(9, "u", 12), have(12, "")},
		"version after 9 is 10":      {Want{Key: key, Version: "10", UID: "u"}, have(9, ""), have(10, "")},
		"shorter is not greater":     {Want{Key: key, Version: "100", UID: "u"}, have(99, ""), have(100, "")},
		"the object is ahead":        {Want{Key: key, Version: "10", UID: "u"}, have(3, "u", 9), have(3, "u", 10)},
		"a later one of its name":    {Want{Key: key, Version: "10", UID: "u"}, have(3, "u", 9), have(3, "v", 12)},
		"leaves":                     {Want{Key: key, Version: "10", UID: "u", Leaves: true}, have(3, "u", 9), have(3, "")},
		"leaves, another comes":      {Want{Key: key, Version: "10", UID: "u", Leaves: true}, have(3, "u", 9), have(3, "v", 9)},
		"gone, but does not leave":   {Want{Key: key, Version: "10", UID: "u"}, have(3, ""), have(10, "")},
		"another is older":           {Want{Key: key, Version: "10", UID: "u"}, have(3, "v", 9), have(3, "u", 10)},
		"ahead, but has to be gone":  {Want{Key: key, Version: "10", UID: "u", Gone: true}, have(3, "u", 12), have(12, "")},
		"gone, version not reached":  {Want{Key: key, Version: "10", UID: "u", Gone: true}, have(3, ""), have(10, "")},
		"leaves by the version also": {Want{Key: key, Version: "10", UID: "u", Leaves: true}, have(3, "u", 9), have(10, "u", 9)},
	} {
		t.Run(name, func(t *testing.T) {
			var b Board
			calls := 0
			notify := func() { calls++ }
			changed := []types.NamespacedName{{Namespace: "a", Name: "other"}, key}
			now := func(s state) func() State { return func() State { return s } }
			if w := b.Add(c.want, now(c.after), notify); w != nil {
				t.Error("it waits for what the store has")
			}
			if b.Add(c.want, now(c.before), notify) == nil {
				t.Fatal("it does not wait")
			}
			b.Cancel(b.Add(c.want, now(c.before), func() { t.Error("called after Cancel") }))
			if b.Reached(c.before, changed); calls != 0 {
				t.Error("called too early")
			}
			for range 2 {
				if b.Reached(c.after, changed); calls != 1 {
					t.Errorf("called %d times", calls)
				}
			}
			if b.Waits() || len(b.keys)+len(b.versions) != 0 {
				t.Errorf("waits are left: %v, %v", b.keys, b.versions)
			}
		})
	}
}

// Once a store that had an object has it no more, no earlier version of it can come, so no version is waited for.
// Guarantees: Q12
func TestObjectThatWasThereIsGone(t *testing.T) {
	var b Board
	s := state{versions: map[string]int{"a": 9}, uid: "u"}
	ended := false
	want := Want{Key: key, Version: "10", UID: "u", Gone: true}
	if b.Add(want, func() State { return s }, func() { ended = true }) == nil {
		t.Fatal("it does not wait")
	}
	s.uid = ""
	if b.Reached(s, []types.NamespacedName{key}); !ended || b.Waits() {
		t.Error("it waits for a version")
	}
}

// One change ends all waits for its object, and all for its version: several keys of a controller, and several controllers, wait for the
// same write.
// Guarantees: Q12
func TestOneChangeEndsAllItsWaits(t *testing.T) {
	other := types.NamespacedName{Namespace: "a", Name: "other"}
	for name, c := range map[string]struct {
		want    []Want
		after   state
		changed []types.NamespacedName
	}{
		"gone":               {[]Want{{Key: key, UID: "u", Gone: true}, {Key: key, UID: "u", Gone: true}, {Key: key, UID: "u", Gone: true}}, state{}, []types.NamespacedName{key}},
		"leaves":             {[]Want{{Key: key, Version: "10", UID: "u", Leaves: true}, {Key: key, Version: "11", UID: "u", Leaves: true}}, state{}, []types.NamespacedName{key}},
		"the object":         {[]Want{{Key: key, Version: "10", UID: "u"}, {Key: key, Version: "10", UID: "u"}}, state{uid: "u", version: "12"}, []types.NamespacedName{key}},
		"the version":        {[]Want{{Key: key, Version: "10"}, {Key: key, Version: "10"}, {Key: other, Version: "10"}, {Key: other, Version: "9"}}, state{versions: map[string]int{"a": 10}}, nil},
		"a version and gone": {[]Want{{Key: key, UID: "u", Gone: true}, {Key: key, Version: "10", UID: "u"}, {Key: other, Version: "10"}}, state{versions: map[string]int{"a": 10}}, []types.NamespacedName{key}},
	} {
		t.Run(name, func(t *testing.T) {
			var b Board
			ended := make([]int, len(c.want))
			for i, w := range c.want {
				if b.Add(w, func() State { return state{uid: "u", version: "1"} }, func() { ended[i]++ }) == nil {
					t.Fatalf("%+v does not wait", w)
				}
			}
			b.Reached(c.after, c.changed)
			for i, n := range ended {
				if n != 1 {
					t.Errorf("%+v was called %d times", c.want[i], n)
				}
			}
			if b.Waits() || len(b.keys)+len(b.versions) != 0 {
				t.Errorf("waits are left: %v, %v", b.keys, b.versions)
			}
		})
	}
}

// Each wait ends with the first state that has its version, whatever the order of the waits.
// Guarantees: Q12
func TestWaitsEndInTheOrderOfTheirVersions(t *testing.T) {
	const versions = 300
	var b Board
	s := state{versions: map[string]int{}}
	ended := map[string]int{}
	for _, v := range rand.Perm(versions) {
		want := Want{Key: types.NamespacedName{Namespace: strconv.Itoa(v % 2), Name: "x"}, Version: strconv.Itoa(v + 1)}
		wait := b.Add(want, func() State { return s }, func() { ended[want.Version] = s.versions[want.Key.Namespace] })
		if v%7 == 0 {
			b.Cancel(wait)
		}
	}
	published := []int{1, 6, 7, 50, 51, 200, versions} // several versions come at once
	for _, v := range published {
		s.versions["0"], s.versions["1"] = v, v
		b.Reached(s, nil)
	}
	for v := range versions {
		first := published[slices.IndexFunc(published, func(p int) bool { return p > v })]
		version, ok := ended[strconv.Itoa(v+1)]
		if cancelled := v%7 == 0; ok == cancelled || ok && version != first {
			t.Errorf("the wait for version %d ended: %v, at %d, want %d", v+1, ok, version, first)
		}
	}
}

// shared is a state that many goroutines use.
type shared struct{ version atomic.Int64 }

func (s *shared) Version(string) string                                       { return strconv.FormatInt(s.version.Load(), 10) }
func (s *shared) Object(types.NamespacedName) (uid types.UID, version string) { return "", "" }

// No wait is lost that begins while the store publishes what it waits for.
// Guarantees: Q12
func TestNoWaitIsLost(t *testing.T) {
	const last = 2000
	var b Board
	s := &shared{}
	var waiters sync.WaitGroup
	for i := range 4 {
		waiters.Go(func() {
			for v := 1 + i; v <= last; v += 4 {
				over := make(chan struct{})
				want := Want{Key: types.NamespacedName{Name: fmt.Sprint(i)}, Version: strconv.Itoa(v)}
				if b.Add(want, func() State { return s }, func() { close(over) }) != nil {
					<-over
				}
				if have := s.version.Load(); have < int64(v) {
					t.Errorf("the wait for %d ended at %d", v, have)
				}
			}
		})
	}
	waiters.Go(func() {
		for range last {
			s.version.Add(1)
			b.Reached(s, nil)
		}
	})
	waiters.Wait()
}

// A state that changes one object costs the same however many others wait, and so does the end of a wait.
func TestOtherWaitsAreNotLookedAt(t *testing.T) {
	const waits = 20_000
	var b Board
	asked := 0
	s := asking{state{versions: map[string]int{}}, &asked}
	now := func() State { return s }
	var all []*Wait
	for i := range waits {
		want := Want{Key: types.NamespacedName{Name: strconv.Itoa(i)}, Version: strconv.Itoa(i + 1), UID: "u", Gone: i%2 == 0}
		all = append(all, b.Add(want, now, func() {}))
	}
	asked = 0
	b.Reached(s, []types.NamespacedName{{Name: "7"}})
	if asked > 1 {
		t.Errorf("looked at %d objects", asked)
	}
	for _, i := range rand.Perm(waits) {
		b.Cancel(all[i])
		b.Cancel(all[i])
	}
	if b.Waits() || len(b.keys)+len(b.versions) != 0 {
		t.Error("waits are left")
	}
}

// asking counts the objects that the board looks at.
type asking struct {
	state
	asked *int
}

func (s asking) Object(name types.NamespacedName) (types.UID, string) {
	*s.asked++
	return s.state.Object(name)
}

package selections

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"
)

// thingMember is any member of the tests.
type thingMember = Member[*thing, Content[*thing]]

// runningPart is a part that runs as a member.
type runningPart struct{ *part }

func (r runningPart) Run(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }

func (r runningPart) Arrived() bool         { return true }
func (r runningPart) Added(Content[*thing]) {}

func (r runningPart) Dropped(Content[*thing]) (had []*thing) {
	for obj := range maps.Values(r.have) {
		had = append(had, obj)
	}
	return had
}

// lateMember is a runningPart that does not arrive at once.
type lateMember struct {
	runningPart
	arrived *bool
}

func (l lateMember) Arrived() bool { return *l.arrived }

// Members that are no longer wanted leave when the others have arrived. Only then, the union has settled.
// Guarantees: U3
func TestUnionWithALeavingMemberHasNotSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, parts, c := newUnion("ab", newObject("a"))
		arrived := false
		a, b := runningPart{parts[0]}, lateMember{runningPart{parts[1]}, &arrived}
		m := NewMembers(Config[string, *thing, Content[*thing], thingMember]{
			Make: func(letter string) (thingMember, error) {
				return map[string]thingMember{"a": a, "b": b}[letter], nil
			},
			Step:   func(do func(Content[*thing])) { do(c) },
			Loaded: func() {},
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		synctest.Wait()
		check := func(when string, want bool, objects int) {
			t.Helper()
			if ok, _ := m.Settled(); ok != want || len(c.have) != objects {
				t.Errorf("%s: settled is %v, the content is %v", when, ok, c.have)
			}
		}
		if err := m.Want([]string{"a"}); err != nil {
			t.Fatal(err)
		}
		a.stepAs(a, m.Union, c, 1)
		check("a is wanted", true, 1)
		if err := m.Want([]string{"b"}); err != nil {
			t.Fatal(err)
		}
		b.stepAs(b, m.Union, c, 1)
		check("b is wanted", false, 1)
		_, changed := m.Settled()
		arrived = true
		check("b has arrived, and a has not left", false, 1)
		m.Settle()
		check("a has left", true, 0)
		<-changed
		cancel()
		<-ended
	})
}

// A question that the server has not answered is asked again, and so after the next failure, without another change.
// Guarantees: U2
func TestUnansweredQuestionIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, parts, c := newUnion("ab", newObject("a"), gone("a"))
		var asked []time.Duration
		failures, began := 3, time.Now()
		m := NewMembers(Config[string, *thing, Content[*thing], thingMember]{
			Make: func(letter string) (thingMember, error) { return runningPart{parts[letter[0]-'a']}, nil },
			Step: func(do func(Content[*thing])) { do(c) },
			Loaded: func() {
			},
			Lacked: func(_ context.Context, q Question) (string, error) {
				asked = append(asked, time.Since(began))
				if failures--; failures >= 0 {
					return "", errors.New("down")
				}
				return q.Version, nil
			},
		})
		if err := m.Want([]string{"a", "b"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		synctest.Wait()
		m.leave(parts[0], c)
		m.Changed()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(asked) != 4 || asked[0] != askAfter || asked[3] != 4*askAfter+3*askAgainAfter || len(c.have) > 0 {
			t.Errorf("asked at %v, has %v", asked, c.have)
		}
		cancel()
		<-ended
	})
}

// leave makes an object enter and leave p, which is a part of a member.
func (s *Members[S, T, C, M]) leave(p *part, c *content) {
	u := any(s.Union).(*Union[*thing])
	for range 2 {
		p.stepAs(runningPart{p}, u, c, 1)
	}
}

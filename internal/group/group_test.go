package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/typedinformer/informer/internal/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// log has what happened to the members of a table.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(what, member string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, what+" "+member)
}

// want checks what happened since the last call, in any order.
func (l *log) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.lines)
	if !slices.Equal(l.lines, want) {
		t.Errorf("%q, want %q", l.lines, want)
	}
	l.lines = nil
}

// newTable returns a table of names that writes to l. A member whose name begins with "!" ends by itself.
func newTable(l *log) *Table[string, string] {
	return New[string](func(ctx context.Context, name string) error {
		l.add("run", name)
		if strings.HasPrefix(name, "!") {
			return errors.New(name)
		}
		<-ctx.Done()
		l.add("end", name)
		return context.Cause(ctx)
	}, func(name string) { l.add("abandon", name) })
}

// join joins the member with that name, which is its key too.
func join(t *testing.T, table *Table[string, string], name string) (release func()) {
	t.Helper()
	got, release, err := table.Join(name, func() (string, error) { return name, nil }, func(string) error { return nil })
	if err != nil || got != name {
		t.Fatalf("joined %q, %v", got, err)
	}
	return release
}

// A member runs from its first user to its last, while the table runs. One that never runs is abandoned.
// Guarantees: L3
func TestMemberRunsFromFirstUserToLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		table := newTable(&l)
		unused, a := join(t, table, "unused"), join(t, table, "a")
		l.want(t)
		unused()
		l.want(t, "abandon unused")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- table.Run(ctx) }()
		l.want(t, "run a")
		b, again := join(t, table, "b"), join(t, table, "a")
		l.want(t, "run b")
		a()
		a() // counts once
		l.want(t)
		again()
		l.want(t, "end a")
		b()
		l.want(t, "end b")
		join(t, table, "b")
		l.want(t, "run b")
		if err := table.Run(ctx); err != ErrRunning {
			t.Errorf("a second Run returned %v", err)
		}
		why := errors.New("why")
		cancel(why)
		if err := <-ended; err != why {
			t.Errorf("Run returned %v", err)
		}
		l.want(t, "end b")
		if _, _, err := table.Join("c", nil, nil); err != ErrStopped {
			t.Errorf("Join after Run returned %v", err)
		}
	})
}

// A member that ends by itself ends the others, and Run returns its error after the last of them.
// Guarantees: L4
func TestRunEndsWithAMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		table := newTable(&l)
		join(t, table, "a")
		ended := make(chan error, 1)
		go func() { ended <- table.Run(t.Context()) }()
		l.want(t, "run a")
		join(t, table, "!b")
		if err := <-ended; err == nil || err.Error() != "!b" {
			t.Errorf("Run returned %v", err)
		}
		l.want(t, "end a", "run !b")
	})
}

// A user that create or accept refuses leaves the table as it was.
func TestJoinThatFailsChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		table := newTable(&l)
		why := errors.New("why")
		fails := func() (string, error) { return "a", why }
		if _, _, err := table.Join("a", fails, nil); err != why || !table.Every(func(string) bool { return false }) {
			t.Errorf("Join returned %v, and perhaps added a member", err)
		}
		release := join(t, table, "a")
		if _, _, err := table.Join("a", nil, func(string) error { return why }); err != why {
			t.Errorf("Join returned %v", err)
		}
		release()
		l.want(t, "abandon a")
	})
}

// Each visits members in the order in which they joined. An error of one that has left meanwhile does not count.
func TestEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		table := newTable(&l)
		releases := map[string]func(){}
		for _, name := range []string{"c", "a", "b"} {
			releases[name] = join(t, table, name)
		}
		var visited []string
		err := table.Each(func(name string) error {
			visited = append(visited, name)
			if name == "a" {
				releases[name]()
			}
			return errors.New(name)
		})
		if got := fmt.Sprint(visited, err); got != "[c a b] c\nb" {
			t.Errorf("visited %s", got)
		}
		l.want(t, "abandon a")
		every := func(name string) bool { return name != "a" }
		if !table.Every(every) || table.Every(func(name string) bool { return name != "b" }) {
			t.Error("Every does not visit the members that are in the table")
		}
	})
}

package ondemand

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// change is one change at the server of the model.
type change struct {
	key     object.Key
	version int
	id      ID // empty for a deletion
}

// model is a server with a history, replicas of it that are behind, and a store whose watch is behind.
type model struct {
	*testing.T
	rng    *rand.Rand
	reader *Reader[*thing]

	mu      sync.Mutex // protects the fields below
	history []change   // change n has version n+1
	seen    int        // the changes that the store has
	store   map[object.Key]ID
	uids    int
	fails   int // requests that fail, in a hundred
}

// at returns the state of a key after some changes.
func (m *model) at(key object.Key, changes int) (id ID, version int) {
	for n := changes - 1; n >= 0; n-- {
		if m.history[n].key == key {
			return m.history[n].id, m.history[n].version
		}
	}
	return ID{}, 0
}

// write changes an object of the server: it creates, updates or deletes it.
func (m *model) write(key object.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, _ := m.at(key, len(m.history))
	c := change{key: key, version: len(m.history) + 1}
	if now == (ID{}) || m.rng.IntN(3) > 0 {
		uid := now.UID
		if uid == "" {
			m.uids++
			uid = types.UID(fmt.Sprint("u", m.uids))
		}
		c.id = ID{uid, strconv.Itoa(c.version)}
	}
	m.history = append(m.history, c)
}

// watch makes the store see some changes, and then tells the reader. Changes of one key may fold.
func (m *model) watch() {
	m.mu.Lock()
	var keys []object.Key
	for n := m.rng.IntN(4); n > 0 && m.seen < len(m.history); n-- {
		c := m.history[m.seen]
		if m.seen++; c.id == (ID{}) {
			delete(m.store, c.key)
		} else {
			m.store[c.key] = c.id
		}
		keys = append(keys, c.key)
	}
	m.mu.Unlock()
	m.pause(5)
	for _, key := range keys {
		m.reader.Changed(key)
	}
}

// pause lets other goroutines go on.
func (m *model) pause(most int) {
	m.mu.Lock()
	n := m.rng.IntN(most)
	m.mu.Unlock()
	time.Sleep(time.Duration(n) * time.Millisecond)
}

func (m *model) idOf(key object.Key) (ID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id, ok := m.store[key]; ok {
		return id, nil
	}
	return ID{}, apierrors.NewNotFound(secrets, key.Name)
}

// fetch answers from a replica that may be behind, ahead of the store, or not have reached the version.
func (m *model) fetch(ctx context.Context, key object.Key, version string) (Object[*thing], error) {
	m.pause(10)
	m.mu.Lock()
	defer m.mu.Unlock()
	reached, failed := len(m.history), m.rng.IntN(100) < m.fails
	if version != "" {
		least, err := strconv.Atoi(version)
		if err != nil {
			return Object[*thing]{}, err
		}
		switch m.rng.IntN(10) {
		case 0: // it ignores the version
			reached = m.rng.IntN(reached + 1)
		case 1:
			failed = true
		default:
			reached = least + m.rng.IntN(reached-least+1)
		}
	}
	if failed {
		return Object[*thing]{}, errDown
	}
	id, changed := m.at(key, reached)
	if id == (ID{}) && version != "" && changed < mustAtoi(version) {
		return Object[*thing]{}, errDown // a server that ignored the version cannot be told from one that lost the object
	}
	if id == (ID{}) {
		return Object[*thing]{}, apierrors.NewNotFound(secrets, key.Name)
	}
	return newObject(string(id.UID), id.Version, m.rng.IntN(100)), ctx.Err()
}

var errDown = errors.New("down")

func mustAtoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// read reads a key and checks what it got: a state of the server that is not older than that of the store at the call.
func (m *model) read(key object.Key) {
	m.mu.Lock()
	seen := m.seen
	_, least := m.at(key, seen)
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(m.Context(), time.Duration(1+m.Rand(30))*time.Millisecond)
	defer cancel()
	obj, err := m.reader.Get(ctx, key)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		for n := len(m.history) - 1; n >= 0; n-- {
			c := m.history[n]
			if c.key != key || c.id == (ID{}) || !isText(obj.Text, string(c.id.UID)+"@"+c.id.Version) {
				continue
			}
			if c.version < least {
				m.Errorf("%s: read %q, but the store had version %d before", key, obj.Text, least)
			}
			return
		}
		m.Errorf("%s: read %q, which the server never had", key, obj.Text)
	case apierrors.IsNotFound(err):
		for n := len(m.history); n >= seen; n-- {
			if id, _ := m.at(key, n); id == (ID{}) {
				return
			}
		}
		m.Errorf("%s: %v, but it existed all the time", key, err)
	case errors.Is(err, errDown), errors.Is(err, context.DeadlineExceeded):
	default:
		m.Errorf("%s: %v", key, err)
	}
}

// isText reports whether an object has a text, without the spaces at its end.
func isText(text, want string) bool {
	return len(text) >= len(want) && text[:len(want)] == want && (len(text) == len(want) || text[len(want)] == ' ')
}

// Rand is IntN for goroutines.
func (m *model) Rand(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rng.IntN(n)
}

// Readers, a server that changes, replicas that are behind and a watch that is behind, at random. No read is older than
// the store was at its beginning, or anything that the server never had. In the end, exactly objects at the version of
// their metadata are held.
// Guarantees: T1, T2, T3, T4, T5
func TestReadsFollowAModel(t *testing.T) {
	for round := range testkit.Rounds(60, 300) {
		seed := rand.Uint64()
		ok := t.Run(fmt.Sprint(round), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runModel(t, seed) })
		})
		if !ok {
			t.Fatalf("seed %d", seed)
		}
	}
}

func runModel(t *testing.T, seed uint64) {
	m := &model{T: t, rng: rand.New(rand.NewPCG(seed, 0)), store: map[object.Key]ID{}}
	m.fails = m.rng.IntN(20)
	config := Config[*thing]{
		Metadata: m.idOf, Fetch: m.fetch, MaxBytes: 600, MaxIdle: 40 * time.Millisecond, Stopped: errStopped,
	}
	m.reader = New(config)
	keys := []object.Key{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "e"}, {Name: "f"}}
	var running sync.WaitGroup
	loop := func(n int, do func()) {
		running.Go(func() {
			for range n {
				do()
				m.pause(8)
				if s := m.reader.Status(); s.Bytes > config.MaxBytes || s.Bytes < 0 {
					t.Errorf("%d bytes are held", s.Bytes)
				}
			}
		})
	}
	loop(40, func() { m.write(keys[m.Rand(len(keys))]) })
	loop(60, m.watch)
	for range 4 {
		loop(40, func() { m.read(keys[m.Rand(len(keys))]) })
	}
	running.Wait()
	synctest.Wait()
	m.reader.mu.Lock()
	for key := range m.reader.held.entries {
		if now, held := m.store[key], m.reader.held.get(key).obj.ID; held != now {
			t.Errorf("%s is held at %v, the store has %v", key, held, now)
		}
	}
	if n := len(m.reader.flights); n > 0 {
		t.Errorf("%d requests go on", n)
	}
	m.reader.mu.Unlock()
	m.reader.Close()
}

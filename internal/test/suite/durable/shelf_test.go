package durable

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/object"
)

// shelf has what a handler has received, in all its processes.
type shelf struct {
	*testing.T
	mu     sync.Mutex // protects the fields below
	random *rand.Rand
	has    map[types.UID]copied
	calls  int
	panics bool          // some calls do
	slow   bool          // some calls are
	hold   time.Duration // how long the next call waits

	acked map[types.UID]ack  // what the state has of the objects that the handler has, as far as the model knows
	gone  map[types.UID]bool // objects whose deletions are acknowledged in the state
	met   map[types.UID]bool // the handler may receive their deletions: it was called with them, or the storage may have a note of them

	leaves bool                   // objects that exist can be deleted: see program.leaves
	exists func(*corev1.Pod) bool // whether the server has the object
}

// copied is what a handler has of an object.
type copied struct{ name, version string }

// ack is a version that the handler has acknowledged.
type ack struct {
	version string
	exact   bool // false if it may have acknowledged a later one
}

// clerk is the handler of one process. It puts what it receives on the shelf.
type clerk struct {
	*shelf

	// The fields below are protected by mu.
	dead     bool                 // the process was killed
	given    map[types.UID]string // the versions of the last calls
	tried    map[types.UID]bool   // deletions that have begun, and after which no call has given the object again
	deleted  map[types.UID]bool   // all deletions that have begun
	versions map[string]bool      // all versions that this process has received, or that needed not come
	acked0   map[types.UID]ack    // acked when the process began
	gone0    map[types.UID]bool   // gone when the process began
}

func newShelf(t *testing.T, random *rand.Rand) *shelf {
	return &shelf{
		T: t, random: random,
		has: map[types.UID]copied{}, acked: map[types.UID]ack{}, gone: map[types.UID]bool{}, met: map[types.UID]bool{},
	}
}

// clerk returns the handler of the next process.
func (s *shelf) clerk() *clerk {
	c := &clerk{
		shelf: s, given: map[types.UID]string{}, tried: map[types.UID]bool{}, deleted: map[types.UID]bool{},
		versions: map[string]bool{}, acked0: maps.Clone(s.acked), gone0: maps.Clone(s.gone),
	}
	for _, had := range s.acked {
		c.versions[had.version] = true
	}
	return c
}

// lose notes that the process may have ended without a last save, and that the storage may have noted the additions of
// created. The caller holds mu.
func (c *clerk) lose(created map[types.UID]bool) {
	for uid, now := range c.acked {
		had, ok := c.acked0[uid]
		if !ok || c.deleted[uid] {
			delete(c.acked, uid)
			continue
		}
		c.acked[uid] = ack{had.version, had.exact && had == now}
	}
	for uid := range c.gone {
		if !c.gone0[uid] || c.leaves { // an object that comes again may be noted
			delete(c.gone, uid)
		}
	}
	maps.Copy(c.met, created)
}

// clock is the time for a log of what has happened.
func clock() string { return time.Now().Format("15:04:05.000") }

// pause waits if the handler is slow.
func (c *clerk) pause() {
	c.mu.Lock()
	wait := c.hold
	c.hold = 0
	if c.slow && c.random.IntN(2) == 0 {
		wait = time.Duration(c.random.IntN(4000)) * time.Millisecond
	}
	c.mu.Unlock()
	time.Sleep(wait)
}

// receive notes a call. Some calls panic, before or after they have noted. Those that return acknowledge, unless the
// process was killed meanwhile.
func (c *clerk) receive(check, note, acknowledge func()) {
	c.pause()
	if !c.begin(check, note) {
		return
	}
	c.pause()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dead {
		acknowledge()
	}
}

// begin is the part of a call in which it has an effect. It returns false if the process is dead.
func (c *clerk) begin(check, note func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return false
	}
	c.calls++
	check()
	fails := c.panics && c.random.IntN(6) == 0
	if before := c.random.IntN(2) == 0; fails && before {
		panic("before")
	}
	if note(); fails {
		panic("after")
	}
	return true
}

func (c *clerk) OnAdd(pod *corev1.Pod, _ bool) {
	c.receive(func() {
		c.Logf("%s add %s %s at %s", clock(), pod.Name, pod.UID, pod.ResourceVersion)
		if had, ok := c.acked[pod.UID]; ok {
			c.Errorf("an addition of %s at %s, which the handler has acknowledged: %v", pod.Name, pod.ResourceVersion, had)
		}
		if c.gone[pod.UID] && !c.leaves {
			c.Errorf("an addition of %s %s, whose deletion the handler has acknowledged", pod.Name, pod.UID)
		}
		for uid, other := range c.has {
			if other.name == pod.Name && uid != pod.UID && !c.tried[uid] {
				c.Errorf("the addition of %s %s comes before the deletion of %s", pod.Name, pod.UID, uid)
			}
		}
		c.comes(pod)
	}, func() { c.put(pod) }, func() { c.acknowledge(pod) })
}

func (c *clerk) OnUpdate(old, pod *corev1.Pod) {
	c.receive(func() {
		c.Logf("%s update %s %s at %s from %s", clock(), pod.Name, pod.UID, pod.ResourceVersion, old.ResourceVersion)
		if _, ok := c.has[pod.UID]; !ok && !c.leaves { // see DurableConfig
			c.Errorf("an update of %s, whose addition the handler has not received", pod.Name)
		}
		had := c.acked[pod.UID]
		if had.exact && had.version == pod.ResourceVersion {
			c.Errorf("an update of %s to %s, which the handler has acknowledged", pod.Name, had.version)
		}
		last, ok := c.given[pod.UID]
		if !ok && had.exact {
			last, ok = had.version, true
		}
		if ok && old.ResourceVersion != last || old.UID != pod.UID {
			c.Errorf("an update of %s %s from %s of %s, but the handler has received %s", pod.Name, pod.UID, old.ResourceVersion, old.UID, last)
		}
		c.comes(pod)
	}, func() { c.put(pod) }, func() { c.acknowledge(pod) })
}

// comes checks the order of versions, and notes that of pod.
func (c *clerk) comes(pod *corev1.Pod) {
	if had, ok := c.given[pod.UID]; ok && object.Older(pod.ResourceVersion, had) {
		c.Errorf("%s goes back from %s to %s", pod.Name, had, pod.ResourceVersion)
	}
	if had, ok := c.acked[pod.UID]; ok && object.Older(pod.ResourceVersion, had.version) {
		c.Errorf("%s goes back from %s, which an earlier process has acknowledged, to %s", pod.Name, had.version, pod.ResourceVersion)
	}
	c.given[pod.UID] = pod.ResourceVersion
	c.versions[pod.ResourceVersion] = true
	c.met[pod.UID] = true
	delete(c.gone, pod.UID)
	delete(c.tried, pod.UID)
}

func (c *clerk) put(pod *corev1.Pod) { c.has[pod.UID] = copied{pod.Name, pod.ResourceVersion} }

func (c *clerk) acknowledge(pod *corev1.Pod) { c.acked[pod.UID] = ack{pod.ResourceVersion, true} }

func (c *clerk) OnDelete(last *corev1.Pod, _ bool) {
	c.receive(func() {
		c.Logf("%s delete %s %s at %s", clock(), last.Name, last.UID, last.ResourceVersion)
		if c.exists(last) && !c.leaves {
			c.Errorf("a deletion of %s, which exists", last.Name)
		}
		if c.gone[last.UID] {
			c.Errorf("the deletion of %s %s comes again", last.Name, last.UID)
		}
		if !c.met[last.UID] {
			c.Errorf("a deletion of %s %s, of which the handler cannot know", last.Name, last.UID)
		}
		c.tried[last.UID], c.deleted[last.UID] = true, true
		delete(c.acked, last.UID)
	}, func() { delete(c.has, last.UID) }, func() { c.gone[last.UID] = true })
}

// witness is a handler of the same informer that is not durable and never slow.
type witness struct {
	mu     sync.Mutex // protects the fields below
	synced time.Time  // when the durable subscription was synced; zero before
	saw    []string   // the versions after that
}

// watch notes when sub is synced.
func (w *witness) watch(ctx context.Context, sub *informer.Subscription) {
	if sub.WaitSynced(ctx) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced = time.Now()
}

func (w *witness) note(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.synced.IsZero() && time.Now().After(w.synced) {
		w.saw = append(w.saw, pod.ResourceVersion)
	}
}

func (w *witness) OnAdd(pod *corev1.Pod, _ bool)  { w.note(pod) }
func (w *witness) OnUpdate(_, pod *corev1.Pod)    { w.note(pod) }
func (w *witness) OnDelete(_ *corev1.Pod, _ bool) {}

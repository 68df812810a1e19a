package durable

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

// shelf has what a handler has received, in all its processes.
type shelf struct {
	*testing.T
	mu     sync.Mutex // protects the fields below
	random *rand.Rand
	has    map[types.UID]string // the resource version
	calls  int
	panics bool // some calls do

	filtered bool                   // the subscription has a filter
	exists   func(*corev1.Pod) bool // whether the server has the object
}

// clerk is the handler of one process. It puts what it receives on the shelf.
type clerk struct {
	*shelf
	dead  bool                 // the process was killed; protected by mu
	given map[types.UID]string // what this process has put, with its version; protected by mu
}

// receive notes a call. Some calls panic, before or after they have noted.
func (c *clerk) receive(note func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return
	}
	c.calls++
	fails := c.panics && c.random.IntN(6) == 0
	if before := c.random.IntN(2) == 0; fails && before {
		panic("before")
	}
	if note(); fails {
		panic("after")
	}
}

func (c *clerk) put(pod *corev1.Pod) {
	if had, ok := c.given[pod.UID]; ok && object.Older(pod.ResourceVersion, had) {
		c.Errorf("%s goes back from %s to %s", pod.Name, had, pod.ResourceVersion)
	}
	c.has[pod.UID], c.given[pod.UID] = pod.ResourceVersion, pod.ResourceVersion
}

func (c *clerk) OnAdd(pod *corev1.Pod, _ bool) { c.receive(func() { c.put(pod) }) }

func (c *clerk) OnUpdate(_, pod *corev1.Pod) {
	c.receive(func() {
		if _, ok := c.has[pod.UID]; !ok && !c.filtered { // see DurableConfig
			c.Errorf("an update of %s, whose addition the handler has not received", pod.Name)
		}
		c.put(pod)
	})
}

func (c *clerk) OnDelete(last *corev1.Pod, _ bool) {
	c.receive(func() {
		if c.exists(last) && !c.filtered {
			c.Errorf("a deletion of %s, which exists", last.Name)
		}
		delete(c.has, last.UID)
	})
}

// Whatever happens to objects, processes and storage, in the end the handler has received each object of the server in its
// newest version, and the deletion of each one that is gone.
// Guarantees: H15, H16
func TestRestartsLoseNothing(t *testing.T) {
	for seed := range uint64(testkit.Rounds(24, 600)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			world.Bubble(t, func(w world.World) { restartAtRandom(w, rand.New(rand.NewPCG(seed, 603))) })
		})
	}
}

// program is a program that is restarted at random.
type program struct {
	world.World
	random   *rand.Rand
	shelf    *shelf
	resource informer.Resource
	config   informer.Config[*corev1.Pod]
	sub      podSubscription
	disk     *memory
}

func restartAtRandom(w world.World, random *rand.Rand) {
	p := &program{World: w, random: random, config: world.Quiet[*corev1.Pod](), disk: newMemory()}
	p.shelf = &shelf{T: w.T, random: rand.New(rand.NewPCG(random.Uint64(), 0)), has: map[types.UID]string{}}
	p.shelf.exists = func(last *corev1.Pod) bool {
		pod, ok := p.Pods.Get(informer.KeyOf(last))
		return ok && pod.UID == last.UID
	}
	p.config.Layout = world.Layouts[random.IntN(len(world.Layouts))]
	p.config.PagedList, p.config.PageSize = random.IntN(2) == 0, 2
	p.resource = pods
	if random.IntN(3) == 0 {
		p.resource.Selections = []informer.Selection{{LabelSelector: "v in (0,1)"}, {LabelSelector: "v in (1,2,3)"}, {LabelSelector: "v=4"}}
	}
	if p.shelf.filtered = random.IntN(3) == 0; p.shelf.filtered {
		p.sub.Filter = func(pod *corev1.Pod) bool { return pod.Labels["v"] != "3" }
	}
	p.sub.Durable.Objects, p.sub.Durable.Interval = random.IntN(2) == 0, time.Duration(1+random.IntN(5))*time.Second
	p.sub.OnPanic = func(any) {}
	warm := random.IntN(2) == 0
	for range 6 {
		if warm {
			p.config.WarmStart.Storage = p.disk
		}
		p.live()
		for range random.IntN(5) {
			p.change()
		}
	}
	p.end()
}

// begin begins a process.
func (p *program) begin() (*clerk, life) {
	c := &clerk{shelf: p.shelf, given: map[types.UID]string{}}
	p.sub.Durable.Name, p.sub.Durable.Storage = "test", p.disk
	inf := informer.New(p.World.Client(), p.resource, p.config)
	l := life{Informer: inf, Subscription: inf.Subscribe(c, p.sub)}
	l.stop = world.Start(p.T, inf)
	return c, l
}

// live is one process, until it stops or is killed.
func (p *program) live() {
	c, l := p.begin()
	flawless := !p.shelf.panics
	for range p.random.IntN(12) {
		switch p.random.IntN(8) {
		case 0:
			p.Server.EndWatches()
		case 1:
			p.Server.Compact()
			p.Server.EndWatches()
		case 2:
			p.disk.fail(errors.New("full"))
			flawless = false
		case 3:
			p.disk.fail(nil)
		case 4:
			p.shelf.mu.Lock()
			p.shelf.panics = !p.shelf.panics
			p.shelf.mu.Unlock()
			flawless = false
		default:
			p.change()
		}
		time.Sleep(time.Duration(p.random.IntN(3000)) * time.Millisecond)
	}
	if err := l.Err(); err != nil {
		p.Errorf("the subscription has ended: %v", err)
	}
	if p.random.IntN(2) == 0 {
		p.shelf.mu.Lock()
		c.dead = true
		p.disk = p.disk.kill()
		p.shelf.mu.Unlock()
		l.stop()
		return
	}
	if flawless {
		p.check()
	}
	l.stop()
	p.disk.fail(nil)
	if p.shelf.panics = false; flawless {
		p.resumes()
	}
}

// resumes checks that a process which follows one that has stopped receives only what has changed, here nothing.
func (p *program) resumes() {
	before := p.shelf.calls
	_, l := p.begin()
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	l.stop()
	if n := p.shelf.calls - before; n > 0 {
		p.Errorf("the handler has received %d changes again", n)
	}
}

// change changes a pod.
func (p *program) change() {
	name := string(rune('a' + p.random.IntN(5)))
	_, exists := p.Pods.Get(informer.Key{Namespace: "ns", Name: name})
	switch {
	case !exists:
		p.Create(world.NewPod("ns", name, fmt.Sprintf("v=%d", p.random.IntN(5))))
	case p.random.IntN(3) == 0:
		p.Delete("ns", name)
	default:
		p.Relabel("ns", name, fmt.Sprint(p.random.IntN(5)))
	}
}

// end checks a process without faults.
func (p *program) end() {
	p.disk.fail(nil)
	p.shelf.panics = false
	_, l := p.begin()
	p.check()
	l.stop()
}

// check checks that the handler has everything after a while without faults.
func (p *program) check() {
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	want := map[types.UID]string{}
	for pod := range p.Pods.All() {
		if p.sub.Filter == nil || p.sub.Filter(pod) {
			want[pod.UID] = pod.ResourceVersion
		}
	}
	p.shelf.mu.Lock()
	if !maps.Equal(p.shelf.has, want) {
		p.Errorf("the handler has %v, the server %v", p.shelf.has, want)
	}
	p.shelf.mu.Unlock()
}

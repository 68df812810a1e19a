package durable

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

// Whatever happens to objects, processes and storage, in the end the handler has received each object of the server in its
// newest version, and the deletion of each one that is gone. On the way, the changes of each key form a chain, and none
// comes again without a reason. With DeliverEvery, the handler receives all versions.
// Guarantees: H15, H16, H17
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
	random      *rand.Rand
	shelf       *shelf
	resource    informer.Resource
	config      informer.Config[*corev1.Pod]
	sub         podSubscription
	disk        *memory
	every       bool               // the present process receives each change
	limited     bool               // and may be too far behind
	undecodable bool               // some objects are
	created     map[types.UID]bool // all objects so far
}

// process is a process of a program.
type process struct {
	life
	clerk   *clerk
	witness *witness
}

func restartAtRandom(w world.World, random *rand.Rand) {
	p := &program{World: w, random: random, config: world.Quiet[*corev1.Pod](), disk: newMemory(), created: map[types.UID]bool{}}
	p.shelf = newShelf(w.T, rand.New(rand.NewPCG(random.Uint64(), 0)))
	p.shelf.exists = func(last *corev1.Pod) bool {
		pod, ok := p.Pods.Get(informer.KeyOf(last))
		return ok && pod.UID == last.UID
	}
	p.config.Layout = world.Layouts[random.IntN(len(world.Layouts))]
	p.config.PagedList, p.config.PageSize = random.IntN(2) == 0, 2
	if p.undecodable = random.IntN(2) == 0; p.undecodable {
		p.config.Transform = func(pod *corev1.Pod) (*corev1.Pod, error) {
			if isBad(pod) {
				return nil, errors.New("bad")
			}
			return pod, nil
		}
	}
	p.resource = pods
	if random.IntN(3) == 0 {
		p.resource.Selections = []informer.Selection{{LabelSelector: "v in (0,1)"}, {LabelSelector: "v in (1,2,3)"}, {LabelSelector: "v=4"}}
	}
	if random.IntN(3) == 0 {
		p.sub.Filter = func(pod *corev1.Pod) bool { return pod.Labels["v"] != "3" }
	}
	p.sub.Durable.Objects, p.sub.Durable.Interval = random.IntN(2) == 0, time.Duration(1+random.IntN(5))*time.Second
	p.sub.OnPanic = func(any) {}
	p.shelf.leaves = p.leaves()
	warm := random.IntN(2) == 0
	for range 6 {
		if warm {
			p.config.WarmStart.Storage, p.config.WarmStart.Revision = p.disk, "1"
		}
		p.live()
		for range random.IntN(5) {
			p.change()
		}
	}
	p.end()
}

// leaves reports whether the subscription can lose an object that exists, so that the handler receives its deletion: one
// that no longer passes the filter.
func (p *program) leaves() bool {
	return p.sub.Filter != nil
}

// isBad reports whether pod cannot be decoded.
func isBad(pod *corev1.Pod) bool { return pod.Labels["bad"] != "" }

// deliver chooses the delivery of the next process.
func (p *program) deliver(mayEnd bool) {
	p.every, p.limited = true, false
	few := 1 + p.random.IntN(3)
	switch n := p.random.IntN(8); {
	case n == 0:
		p.sub.Delivery = informer.DeliverEvery(0)
	case n == 1:
		p.sub.Delivery = informer.DeliverEveryBlocking(0)
	case n == 2:
		p.sub.Delivery = informer.DeliverEveryBlocking(few)
	case n == 3 && mayEnd:
		p.sub.Delivery, p.limited = informer.DeliverEvery(few), true
	default:
		p.sub.Delivery, p.every = informer.Delivery{}, false
	}
}

// begin begins a process.
func (p *program) begin() process {
	c, w := p.shelf.clerk(), &witness{}
	p.sub.Durable.Name, p.sub.Durable.Storage = "test", p.disk
	inf := informer.New(p.World.Client(), p.resource, p.config)
	l := life{Informer: inf, Subscription: inf.Subscribe(c, p.sub)}
	inf.Subscribe(w, podSubscription{Delivery: informer.DeliverEvery(0)})
	go w.watch(p.Context(), l.Subscription)
	p.Logf("%s process: %+v, warm=%v, selections=%d, filter=%v", clock(), p.sub.Delivery, p.config.WarmStart.Storage != nil,
		len(p.resource.Selections), p.sub.Filter != nil)
	l.stop = world.Start(p.T, inf)
	return process{l, c, w}
}

// live is one process, until it stops or is killed.
func (p *program) live() {
	p.deliver(true)
	l := p.begin()
	flawless := p.happen(l)
	if err := l.Err(); p.limited && errors.Is(err, informer.ErrBacklog) {
		flawless = false
	} else if err != nil {
		p.Errorf("the subscription has ended: %v", err)
	}
	if p.random.IntN(2) == 0 {
		p.shelf.mu.Lock()
		l.clerk.dead = true
		p.disk = p.disk.kill()
		l.clerk.lose(p.created)
		p.Logf("%s killed", clock())
		p.shelf.mu.Unlock()
		l.stop()
		return
	}
	if flawless {
		p.check(l)
	}
	ended := l.Err() != nil
	l.stop()
	if ended || p.disk.fails != nil {
		l.clerk.lose(p.created)
	}
	p.disk.fail(nil)
	if p.shelf.panics = false; flawless {
		p.resumes()
	}
}

// happen does what happens during a process. It returns false if there were faults.
func (p *program) happen(l process) (flawless bool) {
	flawless = !p.shelf.panics
	for range p.random.IntN(12) {
		n := p.random.IntN(12)
		p.Logf("%s event %d", clock(), n)
		switch n {
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
		case 5:
			p.shelf.mu.Lock()
			p.shelf.slow = !p.shelf.slow
			p.shelf.mu.Unlock()
		case 6, 7:
			p.vanish()
		default:
			p.change()
		}
		time.Sleep(time.Duration(p.random.IntN(3000)) * time.Millisecond)
	}
	return flawless
}

// resumes checks that a process which follows one that has stopped receives only what has changed, here nothing.
func (p *program) resumes() {
	before := p.shelf.calls
	p.deliver(true)
	l := p.begin()
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
	pod, exists := p.Pods.Get(informer.Key{Namespace: "ns", Name: name})
	v, bad := fmt.Sprint(p.random.IntN(5)), p.undecodable && p.random.IntN(4) == 0
	defer func() {
		if pod, ok := p.Pods.Get(informer.Key{Namespace: "ns", Name: name}); ok {
			p.Logf("%s server: %s %s at %s %v", clock(), name, pod.UID, pod.ResourceVersion, pod.Labels)
		} else {
			p.Logf("%s server: %s is gone", clock(), name)
		}
	}()
	switch {
	case !exists && bad:
		p.created[p.Create(world.NewPod("ns", name, "v="+v, "bad=1")).UID] = true
	case !exists:
		p.created[p.Create(world.NewPod("ns", name, "v="+v)).UID] = true
	case p.random.IntN(3) == 0:
		p.Delete("ns", name)
	case isBad(pod) && p.random.IntN(2) == 0:
		p.Label("ns", name, "bad", "")
	case bad:
		p.Label("ns", name, "bad", "1")
	default:
		p.Relabel("ns", name, v)
	}
}

// vanish makes an object decodable and then deletes it, while a call of the handler is under way.
func (p *program) vanish() {
	var bad, other *corev1.Pod
	for pod := range p.Pods.All() {
		if isBad(pod) {
			bad = pod
		} else {
			other = pod
		}
	}
	if bad == nil || other == nil {
		p.change()
		return
	}
	p.shelf.mu.Lock()
	p.shelf.hold = time.Duration(2+p.random.IntN(12)) * time.Second
	p.shelf.mu.Unlock()
	p.Relabel("ns", other.Name, fmt.Sprint(p.random.IntN(5)))
	time.Sleep(time.Second)
	p.Label("ns", bad.Name, "bad", "")
	time.Sleep(time.Duration(p.random.IntN(2000)) * time.Millisecond)
	p.Delete("ns", bad.Name)
	p.Logf("%s server: %s has vanished", clock(), bad.Name)
}

// heal makes all objects decodable.
func (p *program) heal() {
	for pod := range p.Pods.All() {
		if isBad(pod) {
			p.Label("ns", pod.Name, "bad", "")
		}
	}
}

// end checks a process without faults.
func (p *program) end() {
	p.disk.fail(nil)
	p.shelf.panics = false
	p.deliver(false)
	late := p.random.IntN(2) == 0
	if !late {
		p.heal()
	}
	l := p.begin()
	if late {
		time.Sleep(time.Minute)
		p.heal()
	}
	p.check(l)
	l.stop()
}

// check checks that the handler has everything after a while without faults.
func (p *program) check(l process) {
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	p.shelf.mu.Lock()
	defer p.shelf.mu.Unlock()
	has, want := maps.Clone(p.shelf.has), map[types.UID]copied{}
	for pod := range p.Pods.All() {
		if isBad(pod) { // the handler may have what was there before
			maps.DeleteFunc(has, func(_ types.UID, had copied) bool { return had.name == pod.Name })
		} else if p.sub.Filter == nil || p.sub.Filter(pod) {
			want[pod.UID] = copied{pod.Name, pod.ResourceVersion}
		}
	}
	if !maps.Equal(has, want) {
		p.Errorf("the handler has %v, the server %v", has, want)
	}
	l.witness.mu.Lock()
	defer l.witness.mu.Unlock()
	for _, version := range l.witness.saw {
		if p.every && p.sub.Filter == nil && !l.clerk.versions[version] {
			p.Errorf("the handler has not received the version %s", version)
		}
	}
}

package set

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

// Members come, go, hang, are refused, vanish and return, in random histories. After each, the set has what the servers
// of its members have, and so have its indexes, its snapshot, and each handler, from its calls alone.
// Guarantees: N1, N2, N3, N5
func TestSetModel(t *testing.T) {
	for seed := range uint64(testkit.Rounds(20, 1000)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			onStage(t, config{Starts: 2}, []string{"a", "b", "c", "d", "e"}, func(s *stage) {
				m := &model{
					stage:   s,
					random:  rand.New(rand.NewPCG(seed, 0)),
					wanted:  map[string]bool{},
					how:     map[string]Removal{},
					holds:   map[string][]func(){},
					ends:    map[string][]func(){},
					watches: 1,
				}
				s.layout = world.Layouts[seed%3]
				if seed%4 == 0 {
					s.selects, m.watches = []informer.Selection{{Namespace: "ns"}, {LabelSelector: "v=1"}}, 2
				}
				m.index = NewIndex(s.set, func(id string, p *corev1.Pod) []string { return []string{p.Labels["v"], id} })
				m.run()
			})
		})
	}
}

// model performs a random history, and knows which members the set must have.
type model struct {
	*stage
	random   *rand.Rand
	index    *Index[string, *corev1.Pod, string]
	wanted   map[string]bool
	how      map[string]Removal // of the last call that ended the want, or nothing
	holds    map[string][]func()
	ends     map[string][]func() // of the faults of a server
	handlers []*modelHandler
	pods     int // created so far
	watches  int // of each member
}

// modelHandler is a handler of the set.
type modelHandler struct {
	recorder
	subscription *Subscription
	release      func() // of hold; nil if calls are not held
}

func (m *model) run() {
	m.stage.run()
	for range 40 {
		m.step()
		if m.random.IntN(3) == 0 {
			synctest.Wait()
		}
	}
	m.settle()
	m.check()
	m.want(Deliver)
	for _, name := range m.names() {
		had := m.has(name)
		if m.wanted[name] {
			m.wanted[name], m.how[name] = false, Deliver
		}
		for _, release := range m.holds[name] {
			release()
		}
		m.holds[name] = nil
		m.gone(name, had)
	}
	synctest.Wait()
	m.check()
	if n := len(m.set.ending) + len(m.set.queue) + m.set.starting; n > 0 {
		m.Errorf("%d members are ending or starting", n)
	}
}

func (m *model) names() []string { return slices.Sorted(maps.Keys(m.servers)) }

// has reports whether the set must have a member.
func (m *model) has(name string) bool { return m.wanted[name] || len(m.holds[name]) > 0 }

// gone notes that a member may have left the set. In silence, handlers keep what they have: nothing more may come.
func (m *model) gone(name string, had bool) {
	if !had || m.has(name) {
		return
	}
	if m.how[name] == Silent {
		synctest.Wait() // a call may be under way
		for _, h := range m.handlers {
			h.forget(name)
		}
	}
	delete(m.how, name)
}

// step does something at random.
func (m *model) step() {
	name := m.names()[m.random.IntN(len(m.servers))]
	host := m.servers[name]
	switch m.random.IntN(16) {
	case 0, 1, 2:
		m.write(name)
	case 3, 4:
		if err := m.set.Add(name, m.informer(name)); (err == nil) == m.wanted[name] {
			m.Errorf("Add %s: %v", name, err)
		}
		m.wanted[name] = true
	case 5, 6:
		m.remove(name)
	case 7:
		m.wantSome()
	case 8, 9:
		_, release, err := m.set.Hold(name, m.informer(name))
		m.must(err)
		m.holds[name] = append(m.holds[name], release)
	case 10:
		if n := len(m.holds[name]); n > 0 {
			release := m.holds[name][n-1]
			m.holds[name] = m.holds[name][:n-1]
			release()
			m.gone(name, true)
		}
	case 11:
		m.trouble(name)
	case 12:
		for _, end := range m.ends[name] {
			end()
		}
		m.ends[name] = nil
	case 13:
		if m.random.IntN(2) == 0 {
			host.server.EndWatches()
		} else {
			host.server.CloseConnections()
		}
	case 14:
		m.handle()
	case 15:
		time.Sleep(time.Duration(m.random.IntN(20)) * time.Second)
	}
}

// write creates, changes or deletes a pod of a server.
func (m *model) write(name string) {
	pods := m.servers[name].pods
	all := slices.Collect(pods.All())
	if len(all) == 0 || m.random.IntN(2) == 0 {
		m.pods++
		m.create(name, strconv.Itoa(m.pods), "v=1")
		return
	}
	pod := all[m.random.IntN(len(all))].DeepCopy()
	if m.random.IntN(3) == 0 {
		_, err := pods.Delete(informer.KeyOf(pod))
		m.must(err)
		return
	}
	pod.Labels["v"] = strconv.Itoa(m.random.IntN(3))
	_, err := pods.Update(pod)
	m.must(err)
}

// removal returns a way to remove a member. While calls are held, it is not Silent: gone could not tell which are under
// way.
func (m *model) removal() Removal {
	for _, h := range m.handlers {
		if h.release != nil {
			return Deliver
		}
	}
	return Removal(m.random.IntN(2))
}

func (m *model) remove(name string) {
	had, how := m.has(name), m.removal()
	if m.wanted[name] {
		m.how[name] = how
	}
	if m.set.Remove(name, how) != m.wanted[name] {
		m.Errorf("Remove %s: %v", name, !m.wanted[name])
	}
	delete(m.wanted, name)
	m.gone(name, had)
}

func (m *model) wantSome() {
	var names []string
	for _, name := range m.names() {
		if m.random.IntN(2) == 0 {
			names = append(names, name)
		}
	}
	how := m.removal()
	m.want(how, names...)
	for _, name := range m.names() {
		had, wanted := m.has(name), slices.Contains(names, name)
		if m.wanted[name] && !wanted {
			m.how[name] = how
		}
		m.wanted[name] = wanted
		m.gone(name, had)
	}
}

// trouble makes a server hang, refuse, or not serve pods.
func (m *model) trouble(name string) {
	host := m.servers[name]
	switch m.random.IntN(3) {
	case 0:
		m.ends[name] = append(m.ends[name], m.hang(name))
		host.server.EndWatches()
	case 1:
		m.ends[name] = append(m.ends[name], host.server.Inject(informertest.Fault{Resource: "pods", Error: world.Forbidden}))
		host.server.EndWatches()
	case 2:
		for _, pod := range slices.Collect(host.pods.All()) { // as with a definition that is deleted
			_, err := host.pods.Delete(informer.KeyOf(pod))
			m.must(err)
		}
		host.pods.Unregister()
		time.Sleep(time.Duration(m.random.IntN(120)) * time.Second)
		host.pods = informertest.Register[*corev1.Pod](host.server, informertest.Resource{GroupVersionResource: world.PodGVR})
		host.server.Compact() // it has no changes of the time before
	}
}

// handle adds a handler, closes one, or holds or releases the calls of one.
func (m *model) handle() {
	if len(m.handlers) == 0 || m.random.IntN(3) == 0 {
		h := &modelHandler{}
		h.subscription = m.set.Subscribe(h, SubscriptionConfig{})
		m.handlers = append(m.handlers, h)
		return
	}
	i := m.random.IntN(len(m.handlers))
	switch h := m.handlers[i]; {
	case h.release != nil:
		h.release()
		h.release = nil
	case m.random.IntN(3) == 0:
		h.subscription.Close()
		<-h.subscription.Done()
		m.handlers = slices.Delete(m.handlers, i, i+1)
	case !slices.Contains(slices.Collect(maps.Values(m.how)), Silent):
		h.release = h.hold()
	}
}

// settle ends all trouble, and waits until the set has seen everything.
func (m *model) settle() {
	for _, name := range m.names() {
		for _, end := range m.ends[name] {
			end()
		}
		m.ends[name] = nil
	}
	for _, h := range m.handlers {
		if h.release != nil {
			h.release()
			h.release = nil
		}
	}
	time.Sleep(30 * time.Minute)
	synctest.Wait()
}

// check compares the set, and what handlers received, with the servers.
func (m *model) check() {
	m.must(m.set.WaitSynced(m.Context()))
	var order, all []string // of the set
	byVersion := map[string][]string{}
	for _, status := range m.set.Status() {
		order = append(order, status.ID)
		if len(m.holds[status.ID]) != status.Holders || m.wanted[status.ID] != status.Wanted {
			m.Errorf("%s has %d holders, and is wanted: %v", status.ID, status.Holders, status.Wanted)
		}
	}
	for _, name := range order {
		for pod := range m.servers[name].pods.All() {
			line := fmt.Sprint(name, " ", pod.Name, " ", testkit.VersionOf(pod))
			all = append(all, line)
			byVersion[pod.Labels["v"]] = append(byVersion[pod.Labels["v"]], line)
		}
	}
	same := func(what string, want, got []string) {
		m.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			m.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	same("the set", all, lines(m.set.Snapshot().All()))
	for version := range 4 {
		same("the index", byVersion[strconv.Itoa(version)], lines(m.index.Lookup(strconv.Itoa(version))))
	}
	for _, name := range m.names() {
		if m.has(name) != slices.Contains(order, name) {
			m.Errorf("the set has %s: %v", name, !m.has(name))
		}
		if watchers := m.servers[name].pods.Watchers(); watchers != 0 && !m.has(name) || watchers != m.watches && m.has(name) {
			m.Errorf("%s has %d watchers, and is a member: %v", name, watchers, m.has(name))
		}
	}
	slices.Sort(all)
	for _, h := range m.handlers {
		m.must(h.subscription.WaitSynced(m.Context()))
		var has []string
		for _, name := range h.names() {
			rec := h.of(name)
			for _, pod := range rec.Has() {
				has = append(has, fmt.Sprint(name, " ", pod.Name, " ", testkit.VersionOf(pod)))
			}
			if rec.Broken() > 0 {
				m.Errorf("a handler got %q", rec.Told())
			}
		}
		slices.Sort(has)
		same("a handler", all, has)
	}
}

package selections

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

// Whatever happens: the store never claims a version that it does not show, no object goes back, in the end the store
// has what the selections have, and an audit says whether it has.
// Guarantees: U1, U2, U3, U6, U7, U8, U9
func TestSelectionsModel(t *testing.T) {
	for name, can := range map[string]chances{
		"changes":  {selections: true, shards: true},
		"lag":      {selections: true, holds: true},
		"refusals": {selections: true, holds: true, refusals: true},
		"restores": {holds: true, restores: true},
		"warm":     {selections: true, holds: true, warm: true},
		"all":      {true, true, true, true, true, true},
	} {
		for seed := range int64(testkit.Rounds(8, 150)) {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				dir := t.TempDir()
				world.BubbleWith(t, informertest.Options{Shards: can.shards}, func(w world.World) {
					newModel(w, can, dir, rand.New(rand.NewSource(seed))).run()
				})
			})
		}
	}
}

// chances says what can happen in a history, besides writes, ended watches and compactions.
type chances struct{ selections, shards, holds, refusals, restores, warm bool }

// state is a state of a pod on the server, from a version on. The pod is nil after a deletion.
type state struct {
	version uint64
	pod     *corev1.Pod
}

// model is an informer, and the plain history of the server.
type model struct {
	world.World
	can       chances
	random    *rand.Rand
	client    *informer.Client
	config    informer.Config[*corev1.Pod]
	inf       *informer.Informer[*corev1.Pod]
	rec       *testkit.Recorder[*corev1.Pod]
	stop      func()
	choices   []selection
	selection []selection
	shard     informer.Shard
	hold      *informertest.Hold
	refused   map[selection]func() // ends the refusal; nil if it has ended
	backup    func()               // restores the server; nil for no backup

	mu      sync.Mutex // protects the fields below
	history map[informer.Key][]state
	loose   bool                    // versions mean nothing, or what is wanted changes
	shown   map[informer.Key]uint64 // the highest version that the handler has seen
	dead    map[types.UID]bool      // the handler has seen the deletion on the server
}

func newModel(w world.World, can chances, dir string, random *rand.Rand) *model {
	m := &model{World: w, can: can, random: random, history: map[informer.Key][]state{}, refused: map[selection]func(){}}
	m.config = world.Quiet[*corev1.Pod]()
	m.config.PagedList, m.config.PageSize = random.Intn(2) == 0, 3
	m.config.Layout = world.Layouts[random.Intn(3)]
	if can.warm {
		m.config.WarmStart.Storage = informer.WarmStartDir(dir)
	}
	m.client = w.Client(func(c *rest.Config) { c.ContentType = []string{world.JSONType, world.ProtobufType}[random.Intn(2)] })
	m.choices = []selection{versionOne, {LabelSelector: "v=2", Optional: true}, {LabelSelector: "v!=1"}, {Namespace: "a"},
		{Namespace: "b", LabelSelector: "v=2"}, {FieldSelector: "metadata.name=p1"}, {Namespace: "b", Optional: true}}
	return m
}

func (m *model) choose() []selection {
	m.random.Shuffle(len(m.choices), func(i, k int) { m.choices[i], m.choices[k] = m.choices[k], m.choices[i] })
	return slices.Clone(m.choices[:1+m.random.Intn(4)])
}

// start starts an informer, which the handler m follows.
func (m *model) start() {
	m.shown, m.dead = map[informer.Key]uint64{}, map[types.UID]bool{}
	m.inf, m.rec = informer.New(m.client, selected(m.selection...), m.config), &testkit.Recorder[*corev1.Pod]{}
	m.inf.Subscribe(m.rec)
	m.inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{
		AddFunc:    func(pod *corev1.Pod, _ bool) { m.seen(pod, false) },
		UpdateFunc: func(_, pod *corev1.Pod) { m.seen(pod, false) },
		DeleteFunc: func(pod *corev1.Pod, _ bool) { m.seen(pod, true) },
	})
	m.stop = world.Run(m.World, m.inf)
	m.waits("WaitSynced", m.inf.WaitSynced)
}

// waits calls wait, which must end within an hour.
func (m *model) waits(what string, wait func(context.Context) error) {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.Context(), time.Hour)
	defer cancel()
	if err := wait(ctx); err != nil {
		m.Fatalf("%s: %v", what, err)
	}
}

// number returns a version as a number.
func number(version string) uint64 {
	n, _ := strconv.ParseUint(version, 10, 64)
	return n
}

// seen checks an event: no version of an object follows a newer one, nor its deletion.
func (m *model) seen(pod *corev1.Pod, deleted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key, version := informer.KeyOf(pod), number(pod.ResourceVersion)
	switch {
	case m.loose:
	case deleted:
		gone := func(s state) bool { return s.pod == nil && s.version == version }
		if slices.ContainsFunc(m.history[key], gone) { // otherwise, it has only left the selections
			m.dead[pod.UID] = true
		}
	case version < m.shown[key]:
		m.Errorf("%s is back at version %d after %d", key, version, m.shown[key])
	case m.dead[pod.UID]:
		m.Errorf("%s at version %d is back after its deletion", key, version)
	}
	m.shown[key] = max(m.shown[key], version)
	m.checkLocked()
}

// in reports whether the union of selections has pod, which may be nil.
func (m *model) in(pod *corev1.Pod, selections []selection) bool {
	return pod != nil && matches(pod, selections) && m.shard.Has(pod)
}

// frozen returns the selections that the server refuses or has refused, and the others.
func (m *model) frozen() (frozen, others []selection) {
	for _, s := range m.selection {
		if _, ever := m.refused[s]; ever {
			frozen = append(frozen, s)
		} else {
			others = append(others, s)
		}
	}
	return frozen, others
}

func (m *model) check() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checkLocked()
}

// checkLocked checks that the store shows every change up to the version that it claims.
func (m *model) checkLocked() {
	snap := m.inf.Store().Snapshot()
	claim := number(snap.ResourceVersion())
	if claim == 0 || m.loose {
		return
	}
	for key := range m.history {
		m.checkKeyLocked(snap, key, claim)
	}
}

// checkKeyLocked checks that snap shows a state of an object at claim or later.
func (m *model) checkKeyLocked(snap *informer.Snapshot[*corev1.Pod], key informer.Key, claim uint64) {
	frozen, others := m.frozen()
	pod, ok := snap.Get(key)
	had := uint64(0)
	if ok {
		if had = number(pod.ResourceVersion); matches(pod, frozen) {
			return
		}
	}
	fits := false // some state at claim or later is that of snap
	for i, s := range m.history[key] {
		if last := i+1 == len(m.history[key]); !last && m.history[key][i+1].version <= claim {
			continue
		}
		fits = fits || (ok && s.version == had) || (!ok && !m.in(s.pod, others))
	}
	if first := m.history[key]; len(first) == 0 || first[0].version > claim {
		fits = fits || !ok
	}
	if !fits {
		m.loose = true // one report is enough
		m.Errorf("the store claims version %d, but shows %s at version %d (there: %v), of %v", claim, key, had, ok,
			m.texts(key))
	}
}

func (m *model) texts(key informer.Key) (texts []string) {
	for _, s := range m.history[key] {
		text := fmt.Sprint(s.version, " gone")
		if s.pod != nil {
			text = fmt.Sprint(s.version, " v=", s.pod.Labels["v"])
		}
		texts = append(texts, text)
	}
	return texts
}

// write writes a pod.
func (m *model) write() {
	key := informer.Key{Namespace: string(rune('a' + m.random.Intn(2))), Name: fmt.Sprint("p", m.random.Intn(4))}
	m.mu.Lock()
	_, exists := m.Pods.Get(key)
	var pod *corev1.Pod
	switch {
	case !exists:
		pod = m.Create(world.NewPod(key.Namespace, key.Name, fmt.Sprint("v=", m.random.Intn(4))))
	case m.random.Intn(4) > 0:
		pod = m.Relabel(key.Namespace, key.Name, fmt.Sprint(m.random.Intn(4)))
	default:
		m.Delete(key.Namespace, key.Name)
	}
	version := number(m.Server.ResourceVersion())
	if pod != nil {
		version = number(pod.ResourceVersion) // an update that changes nothing is no write
	}
	if h := m.history[key]; len(h) == 0 || h[len(h)-1].version != version {
		m.history[key] = append(h, state{version, pod})
	}
	loose := m.loose
	m.mu.Unlock()
	if pod == nil || loose || m.random.Intn(3) > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(m.Context(), 2*time.Second)
	defer cancel()
	if m.inf.WaitForObject(ctx, pod) == nil && m.in(pod, m.selection) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.checkKeyLocked(m.inf.Store().Snapshot(), key, version)
	}
}

// loosely calls do while nothing is checked.
func (m *model) loosely(do func()) {
	m.mu.Lock()
	before := m.loose
	m.loose = true
	m.mu.Unlock()
	do()
	m.mu.Lock()
	m.loose = before
	m.mu.Unlock()
}

func (m *model) of(s selection) func(informertest.Request) bool {
	return func(r informertest.Request) bool {
		return r.Namespace == s.Namespace && r.Query.Get("labelSelector") == s.LabelSelector &&
			r.Query.Get("fieldSelector") == s.FieldSelector
	}
}

// lag holds the events of one selection, or delivers them.
func (m *model) lag() {
	if m.hold != nil {
		m.hold.Release()
		m.hold = nil
		return
	}
	m.hold = m.Server.Hold(informertest.Watches{Match: m.of(m.choices[m.random.Intn(len(m.choices))])})
}

// refuse refuses an optional selection, or no longer.
func (m *model) refuse() {
	s := m.choices[m.random.Intn(len(m.choices))]
	if !s.Optional {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if end := m.refused[s]; end != nil {
		end()
		m.refused[s] = nil
		return
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
	m.refused[s] = m.Server.Inject(informertest.Fault{Match: m.of(s), Error: forbidden})
	m.Server.EndWatches()
}

// restore takes a backup, or restores the last one. From then on, versions mean nothing.
func (m *model) restore() {
	if m.backup == nil {
		backup := m.Server.Snapshot()
		m.backup = func() { m.Server.Restore(backup) }
		return
	}
	m.mu.Lock()
	m.loose = true
	m.mu.Unlock()
	m.Server.Stop()
	m.backup()
	m.backup = nil
	for range m.random.Intn(10) {
		m.write()
	}
	time.Sleep(time.Duration(m.random.Intn(100)) * time.Second)
	m.Server.Start()
}

// step does one thing.
func (m *model) step() {
	switch n := m.random.Intn(24); {
	case n < 12:
		m.write()
	case n == 12:
		m.Server.EndWatches()
	case n == 13:
		m.Server.CloseConnections()
	case n == 14:
		m.Server.Compact()
	case n == 15 && m.can.selections:
		m.loosely(func() {
			m.selection = m.choose()
			m.waits("SetSelections", func(ctx context.Context) error { return m.inf.SetSelections(ctx, m.selection...) })
		})
	case n == 16 && m.can.shards:
		shard := informer.Shard{}
		if m.random.Intn(2) == 0 {
			shard.Ranges = []informer.HashRange{{First: m.random.Uint64() / 2, Last: 1<<64 - 1}}
		}
		m.setShard(shard)
	case n == 17:
		synctest.Wait()
	case n == 18:
		time.Sleep(time.Duration(m.random.Intn(5000)) * time.Millisecond)
	case n == 19 && m.can.warm && m.random.Intn(2) == 0:
		m.loosely(func() {
			m.stop()
			m.start()
		})
	case n < 21 && m.can.holds:
		m.lag()
	case n < 23 && m.can.refusals:
		m.refuse()
	case n == 23 && m.can.restores:
		m.restore()
	}
	m.check()
}

func (m *model) setShard(shard informer.Shard) {
	m.loosely(func() {
		m.shard = shard
		m.waits("SetShard", func(ctx context.Context) error { return m.inf.SetShard(ctx, shard) })
	})
}

// equal reports whether the store has what the selections have on the server. After a restore, an object can have the
// UID and the version of another state that the store has. Nobody can tell the two by their versions, so they count as
// equal, and equal writes the object anew.
func (m *model) equal() bool {
	var want []*corev1.Pod
	for p := range m.Pods.All() {
		if m.in(p, m.selection) {
			want = append(want, world.SeenAs[*corev1.Pod](p, false))
		}
	}
	got := slices.Collect(m.inf.Store().All())
	for i := range want {
		if len(got) != len(want) {
			return false
		}
		if have := got[i]; m.can.restores && have.UID == want[i].UID && have.ResourceVersion == want[i].ResourceVersion {
			if !reflect.DeepEqual(have, want[i]) {
				m.Relabel(have.Namespace, have.Name, "4")
			}
		} else if !reflect.DeepEqual(have, want[i]) {
			return false
		}
	}
	return len(got) == len(want)
}

// audit audits, and returns how many objects differ.
func (m *model) audit() int {
	m.Helper()
	var r status.AuditResult
	m.waits("audit", func(ctx context.Context) (err error) {
		r, err = m.inf.Audit(ctx)
		return err
	})
	return r.Differ
}

func (m *model) run() {
	m.selection = m.choose()
	m.start()
	defer func() { m.stop() }()
	for range 80 {
		m.step()
	}
	if m.hold != nil {
		m.hold.Release()
	}
	m.mu.Lock()
	for _, end := range m.refused {
		if end != nil {
			end()
		}
	}
	m.mu.Unlock()
	m.setShard(informer.Shard{})
	time.Sleep(2 * time.Hour)
	m.mu.Lock()
	clear(m.refused)
	m.mu.Unlock()
	m.check()
	differ := m.audit()
	if equal := m.equal(); !equal && differ == 0 {
		equalsServer(m.World, m.inf, m.selection)
		m.Error("the store differs from the server, but an audit found no difference")
	}
	if differ > 0 {
		if !m.can.restores { // the writes after a restore can hide it: then the audit finds it
			m.Errorf("an audit found %d differences", differ)
		}
		time.Sleep(time.Hour)
		if differ := m.audit(); differ > 0 {
			m.Errorf("%d objects differ after the repair", differ)
		}
		m.equal()
	}
	synctest.Wait()
	equalsServer(m.World, m.inf, m.selection)
	if m.rec.Broken() > 0 {
		m.Errorf("%d events do not follow", m.rec.Broken())
	}
	if has := m.rec.Has(); len(has) != m.inf.Store().Len() {
		m.Errorf("the handler has %d objects, the store %d", len(has), m.inf.Store().Len())
	}
}

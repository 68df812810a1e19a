package informer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/deliver"
	core "github.com/typedinformer/informer/internal/informer"
	"github.com/typedinformer/informer/internal/source/reflector"
	"github.com/typedinformer/informer/internal/test/leak"
	"github.com/typedinformer/informer/internal/test/testkit"
)

func TestMain(m *testing.M) { leak.Main(m) }

// Helpers that several test files of package informer share.

// recorder is a Recorder of things.
type recorder = testkit.Recorder[*thing]

// Bubble and Rounds are here for package informer_test too.
var Bubble, Rounds = testkit.Bubble, testkit.Rounds

// fed is an informer whose server never answers. Tests put deltas into its FIFO.
type fed struct {
	*Informer[*thing]
	engine *core.Informer[*thing]
	t      *testing.T
	stop   func()
}

// followerOf returns the engine of i, whose layout is not LayoutCompact.
func followerOf[T Object](i *Informer[T]) *core.Informer[T] { return i.engine.(*core.Informer[T]) }

// packedFollowerOf returns the engine of i, whose layout is LayoutCompact.
func packedFollowerOf[T Object](i *Informer[T]) *core.Informer[*packed] {
	return i.engine.(compact[T]).Informer
}

// mirrorOf returns the mirror of an engine that follows one collection.
func mirrorOf[T Object](engine *core.Informer[T]) *core.Mirror[T] { return engine.Mirrors()[0] }

// change is a change as a handler receives it.
type change[T Object] = deliver.Change[T]

// read returns d as a reflector's engine reads it.
func read[T Object](d Delta[T]) *reflector.Delta[T] { return new(d.read()) }

// silence is a server that never answers.
type silence struct{}

func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func startFed(t *testing.T) fed {
	client, err := NewClient(&rest.Config{Host: "nowhere", Transport: silence{}})
	if err != nil {
		t.Fatal(err)
	}
	i := New(client, Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "things"}},
		Config[*thing]{Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }()
	return fed{i, followerOf(i), t, func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	}}
}

func (f fed) put(deltas ...Delta[*thing]) {
	f.t.Helper()
	for _, d := range deltas {
		if err := mirrorOf(f.engine).Buffer.Put(f.t.Context(), read(d)); err != nil {
			f.t.Fatal(err)
		}
	}
}

// list returns a Replaced of things with these names.
func list(rv int, names ...string) Delta[*thing] {
	d := Delta[*thing]{Type: Replaced, ResourceVersion: strconv.Itoa(rv)}
	for _, name := range names {
		d.Items = append(d.Items, &thing{name: name, uid: name, rv: strconv.Itoa(rv)})
	}
	return d
}

func upsert(rv int, name string) Delta[*thing] {
	return Delta[*thing]{Type: Upserted, Object: &thing{name: name, uid: name, rv: strconv.Itoa(rv)}, ResourceVersion: strconv.Itoa(rv)}
}

func remove(rv int, name string) Delta[*thing] {
	d := upsert(rv, name)
	d.Type = Removed
	return d
}

// thing is the smallest Object.
type thing struct {
	namespace, name, uid, rv string
	tags                     []string
}

func (t *thing) GetNamespace() string { return t.namespace }

func (t *thing) GetName() string { return t.name }

func (t *thing) GetUID() types.UID { return types.UID(t.uid) }

func (t *thing) GetResourceVersion() string { return t.rv }

// encodedThing is a thing as JSON.
type encodedThing struct {
	Namespace, Name, UID, ResourceVersion string
	Tags                                  []string
}

func (t *thing) MarshalJSON() ([]byte, error) {
	return json.Marshal(encodedThing{t.namespace, t.name, t.uid, t.rv, t.tags})
}

func (t *thing) UnmarshalJSON(raw []byte) error {
	var e encodedThing
	err := json.Unmarshal(raw, &e)
	*t = thing{e.Namespace, e.Name, e.UID, e.ResourceVersion, e.Tags}
	return err
}

func compareThings(a, b *thing) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

// world is the model of a store.
type world map[Key]*thing

func (w world) sorted() []*thing { return slices.SortedFunc(maps.Values(w), compareThings) }

func (w world) tagged(tag string) []*thing {
	var list []*thing
	for _, t := range w.sorted() {
		if slices.Contains(t.tags, tag) {
			list = append(list, t)
		}
	}
	return list
}

// generator creates random deltas and applies them to its world.
type generator struct {
	*rand.Rand
	world world
	rv    int
}

func (g *generator) thing(key Key) *thing {
	g.rv++
	t := &thing{namespace: key.Namespace, name: key.Name, uid: "1", rv: strconv.Itoa(g.rv)}
	if g.IntN(8) == 0 {
		t.uid = strconv.Itoa(g.rv)
	} else if old := g.world[key]; old != nil {
		t.uid = old.uid
	}
	for range g.IntN(4) {
		t.tags = append(t.tags, "tag"+strconv.Itoa(g.IntN(12)))
	}
	return t
}

func (g *generator) key() Key {
	return Key{Namespace: "ns" + strconv.Itoa(g.IntN(4)), Name: "n" + strconv.Itoa(g.IntN(60))}
}

func (g *generator) delta() Delta[*thing] {
	switch g.IntN(40) {
	case 0:
		return g.replacement("")
	case 1:
		return g.replacement("ns" + strconv.Itoa(g.IntN(4)))
	default:
		return g.event()
	}
}

// event returns a delta of one object.
func (g *generator) event() Delta[*thing] {
	switch g.IntN(3) {
	case 0:
		key := g.key()
		last := g.thing(key)
		delete(g.world, key)
		return Delta[*thing]{Type: Removed, Object: last, ResourceVersion: last.rv}
	default:
		t := g.thing(g.key())
		g.world[KeyOf(t)] = t
		return Delta[*thing]{Type: Upserted, Object: t, ResourceVersion: t.rv}
	}
}

// foreign returns an invalid delta: its object is in another namespace.
func (g *generator) foreign() Delta[*thing] {
	n := g.IntN(4)
	d := Delta[*thing]{Namespace: "ns" + strconv.Itoa(n)}
	obj := g.thing(Key{Namespace: "ns" + strconv.Itoa((n+1)%4), Name: g.key().Name})
	switch g.IntN(4) {
	case 0:
		d.Type, d.Object = Upserted, obj
	case 1:
		d.Type, d.Object = Removed, obj
	case 2:
		d.Type, d.Key = Removed, KeyOf(obj)
	case 3:
		d.Type, d.Items = Replaced, []*thing{obj}
	}
	return d
}

func (g *generator) replacement(namespace string) Delta[*thing] {
	d := Delta[*thing]{Type: Replaced, Namespace: namespace}
	for _, t := range g.world.sorted() {
		if namespace != "" && t.namespace != namespace {
			continue
		}
		key := KeyOf(t)
		switch g.IntN(6) {
		case 0:
			delete(g.world, key)
		case 1:
			g.world[key] = g.thing(key)
			d.Items = append(d.Items, g.world[key])
		case 2:
			d.Undecoded = append(d.Undecoded, decodeErrors(key)...)
		default:
			same := *t // like a relist: equal content at another address
			d.Items = append(d.Items, &same)
		}
	}
	for range g.IntN(5) {
		key := g.key()
		if namespace != "" {
			key.Namespace = namespace
		}
		if g.world[key] == nil {
			g.world[key] = g.thing(key)
			d.Items = append(d.Items, g.world[key])
		}
	}
	g.Shuffle(len(d.Items), func(i, j int) { d.Items[i], d.Items[j] = d.Items[j], d.Items[i] })
	g.rv++
	d.ResourceVersion = strconv.Itoa(g.rv)
	return d
}

// restored returns a replacement by a server that went back in time: some known versions have new content.
func (g *generator) restored(namespace string) Delta[*thing] {
	d := g.replacement(namespace)
	d.Restored = true
	for i, t := range d.Items {
		if g.IntN(3) == 0 {
			other := *t
			other.tags = append(slices.Clone(t.tags), "restored"+strconv.Itoa(g.rv))
			d.Items[i], g.world[KeyOf(t)] = &other, &other
		}
	}
	return d
}

// equalVersions reports whether a and b have the same versions of the same objects in the same order.
func equalVersions(a, b []*thing) bool {
	return slices.EqualFunc(a, b, func(a, b *thing) bool {
		return KeyOf(a) == KeyOf(b) && a.uid == b.uid && a.rv == b.rv
	})
}

// mustApply applies deltas, which must be valid, and appends their effects to changes.
func mustApply[T Object](t testing.TB, s *Store[T], changes []change[T], deltas ...Delta[T]) []change[T] {
	t.Helper()
	return mustWrite(t, s, changes, readAll(deltas))
}

// readAll returns deltas as a reflector's engine reads them.
func readAll[T Object](deltas []Delta[T]) []reflector.Delta[T] {
	reads := make([]reflector.Delta[T], len(deltas))
	for i := range deltas {
		reads[i] = deltas[i].read()
	}
	return reads
}

// mustWrite is mustApply of what readAll returns.
func mustWrite[T Object](t testing.TB, s *Store[T], changes []change[T], reads []reflector.Delta[T]) []change[T] {
	t.Helper()
	changes, err := s.core().Write(reads, changes)
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

// follow applies changes to w as a handler would. It checks that each change starts from the result of the one before.
func follow(t *testing.T, w world, changes []change[*thing]) {
	t.Helper()
	for _, c := range changes {
		have := w[c.Key]
		if (have == nil) != (c.Old == nil) || have != nil && (have.uid != c.Old.uid || have.rv != c.Old.rv) {
			t.Fatalf("%v: change from %v, but had %v", c.Key, c.Old, have)
		}
		if c.Deleted {
			if have == nil || c.Last == nil {
				t.Fatalf("%v: deleted, but was not there", c.Key)
			}
			delete(w, c.Key)
		}
		if c.Added != (c.New != nil && w[c.Key] == nil) {
			t.Fatalf("%v: added is %v", c.Key, c.Added)
		}
		if c.New != nil {
			if !c.Added && c.New.uid != have.uid {
				t.Fatalf("%v: update to another uid", c.Key)
			}
			w[c.Key] = c.New
		}
	}
}

// attempt calls do on a new goroutine. It returns false if do panics or ends the goroutine.
func attempt(do func()) (returned bool) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { _ = recover() }()
		do()
		returned = true
	}()
	<-ended
	return returned
}

// decodeErrors returns an error for each key, as Delta.Undecoded has them.
func decodeErrors(keys ...Key) (all []*DecodeError) {
	for _, key := range keys {
		all = append(all, &DecodeError{Key: key, Err: errors.New("test")})
	}
	return all
}

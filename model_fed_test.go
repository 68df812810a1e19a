package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/source/decode"
)

// Random deltas are put into the FIFO of an informer, by one producer or by one for each namespace. The informer has any layout.
// Guarantees: C1, C3, C4, C6, C8, F1, F2, H1, H2, H4, H5, H7, H8, H11, H12
func TestUsersOfAnInformerThatIsFedAgreeWithAMap(t *testing.T) {
	EachSeed(t, Rounds(200, 2000), func(m *Model) {
		g := &generator{Rand: m.Rand, world: world{}}
		client, err := NewClient(&rest.Config{Host: "nowhere", Transport: silence{}})
		if err != nil {
			m.Fatal(err)
		}
		resource := Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "things"}}
		several := m.IntN(2) == 0
		if several {
			resource.Namespaces = []string{"ns0", "ns1", "ns2", "ns3"}
		}
		capacity, layout := 1+m.IntN(20), []Layout{LayoutShared, LayoutSeparate, LayoutCompact}[m.IntN(3)]
		inf := New(client, resource, Config[*thing]{Logger: slog.New(slog.DiscardHandler), Layout: layout})
		m.Step("namespaces %q, layout %s, FIFO of %d", resource.Namespaces, layout, capacity)
		// feed returns a function that puts d into the FIFO.
		feed := func(d Delta[*thing]) (put func(context.Context) error) {
			return func(ctx context.Context) error { return mirrorOf(followerOf(inf)).Buffer.Put(ctx, read(d)) }
		}
		if layout == LayoutCompact {
			packer := newThingPacker(m)
			engine := packedFollowerOf(inf)
			mirrorOf(engine).Bound(capacity)
			feed = func(d Delta[*thing]) func(context.Context) error {
				packed := packer.delta(d)
				return func(ctx context.Context) error { return mirrorOf(engine).Buffer.Put(ctx, read(packed)) }
			}
		} else {
			mirrorOf(followerOf(inf)).Bound(capacity)
		}
		users := &Users[*thing]{
			Model:    m,
			Informer: inf,
			View:     func(t *thing) string { return fmt.Sprintf("%s %s@%s %s", t.name, t.uid, t.rv, t.tags) },
			Tags:     func(t *thing) []string { return t.tags },
		}
		for range m.IntN(4) {
			users.Act()
		}
		ctx, cancel := context.WithCancel(m.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- inf.Run(ctx) }()

		// The deltas of one namespace are in order. The deltas of all namespaces have one producer.
		producers := map[string]chan func(context.Context) error{}
		for _, namespace := range resource.sources() {
			queue := make(chan func(context.Context) error, 1000)
			producers[namespace] = queue
			go func() {
				for put := range queue {
					if put(ctx) != nil {
						return
					}
				}
			}()
		}
		put := func(d Delta[*thing]) {
			if several && d.Object != nil {
				d.Namespace = d.Object.namespace
			}
			if d.Type == Upserted {
				users.Fed = append(users.Fed, d.Object.rv)
			}
			m.Step("%s %q %s: %d items, %d kept, restored %v", d.Type, d.Namespace, d.ResourceVersion, len(d.Items), len(d.Undecoded), d.Restored)
			producers[d.Namespace] <- feed(d)
		}
		for _, namespace := range resource.sources() {
			put(g.replacement(namespace))
		}
		restores := m.IntN(4) == 0
		for range 50 + m.IntN(150) {
			source := resource.sources()[m.IntN(len(producers))]
			switch n := m.IntN(60); {
			case n == 0 && restores && m.IntN(2) == 0:
				users.BackInTime.Store(true)
				put(g.restored(source))
			case n == 0:
				put(g.replacement(source))
			case n == 1:
				g.rv++
				put(Delta[*thing]{Type: Bookmarked, Namespace: source, ResourceVersion: fmt.Sprint(g.rv)})
			case n == 2: // an old version must have no effect
				put(Delta[*thing]{Type: Bookmarked, Namespace: source, ResourceVersion: fmt.Sprint(1 + m.IntN(g.rv))})
			case n == 3 && layout == LayoutCompact:
				m.Step("free objects that nobody has")
				runtime.GC()
			case n < 9:
				users.Act()
			case n < 17:
				m.Pass(10 * time.Second)
			default:
				d := g.event()
				if m.IntN(20) == 0 {
					d.ResourceVersion = fmt.Sprint(1 + m.IntN(g.rv)) // an old version too
				}
				put(d)
			}
			users.CheckVersions()
		}
		if m.IntN(5) > 0 { // otherwise stop without settling
			for _, namespace := range resource.sources() {
				g.rv++
				put(Delta[*thing]{Type: Bookmarked, Namespace: namespace, ResourceVersion: fmt.Sprint(g.rv)})
			}
			if err := inf.WaitForResourceVersion(ctx, fmt.Sprint(g.rv-len(producers)+1)); err != nil {
				m.Error(err)
			}
			users.Settle()
			want := map[Key]string{}
			for key, t := range g.world {
				want[key] = users.View(t)
			}
			users.Check(want)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			m.Errorf("Run: %v", err)
		}
		for _, queue := range producers {
			close(queue)
		}
		users.Stopped()
	})
}

// thingPacker packs things as an informer does.
type thingPacker struct {
	*Model
	*packer
}

func newThingPacker(m *Model) thingPacker {
	packer, err := newPacker(reflect.TypeFor[*thing](), false, nil, Resource{})
	if err != nil {
		m.Fatal(err)
	}
	return thingPacker{m, packer}
}

// delta returns d with packed objects.
func (k thingPacker) delta(d Delta[*thing]) Delta[*packed] {
	p := Delta[*packed]{Type: d.Type, Key: d.Key, Undecoded: d.Undecoded, Restored: d.Restored, Namespace: d.Namespace, ResourceVersion: d.ResourceVersion}
	if d.Object != nil {
		p.Object = k.thing(d.Object)
	}
	for _, t := range d.Items {
		p.Items = append(p.Items, k.thing(t))
	}
	return p
}

// thing returns t in packed form. Some things are decoded, like new objects from a server, others like objects that nobody has
// read for a while. Some are not packed, as if the encoding would lose something.
func (k thingPacker) thing(t *thing) *packed {
	if k.IntN(8) == 0 {
		return k.Hold(t)
	}
	raw, err := t.MarshalJSON()
	if err != nil {
		k.Fatal(err)
	}
	p := k.PackBytes(t, decode.JSON, raw, nil, nil)
	if k.IntN(2) == 0 {
		p.Decoded(nil)
	}
	return p
}

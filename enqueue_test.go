package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/source/decode"
)

type partial = metav1.PartialObjectMetadata

func metaOf(name string, change ...func(*partial)) *partial {
	m := &partial{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: 1}}
	for _, c := range change {
		c(m)
	}
	return m
}

func ownedBy(apiVersion, kind, name string, controller ...bool) func(*partial) {
	return func(m *partial) {
		ref := metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name}
		if len(controller) > 0 {
			ref.Controller = &controller[0]
		}
		m.OwnerReferences = append(m.OwnerReferences, ref)
	}
}

// depths returns the number of ready keys by priority.
func (q *Queue[K]) depths() map[Priority]int {
	d := q.Status().Depth
	return map[Priority]int{HighPriority: d.High, NormalPriority: d.Normal, LowPriority: d.Low}
}

// taken removes all waiting keys from q and returns them by priority.
func taken[K comparable](q *Queue[K]) map[Priority][]K {
	keys := map[Priority][]K{}
	for q.Len() > 0 {
		before := q.depths()
		key, err := q.Get(context.Background())
		if err != nil {
			panic(err)
		}
		for p, n := range q.depths() {
			if n < before[p] {
				keys[p] = append(keys[p], key)
			}
		}
		q.Done(key)
	}
	return keys
}

func wantTaken[K comparable](t *testing.T, q *Queue[K], what string, want map[Priority][]K) {
	t.Helper()
	if got := taken(q); !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// enqueues returns the handler of a source that Enqueue returns.
func enqueues[T Object, K comparable](q *Queue[K], keys func(T) []K, when ...Predicate[T]) Handler[T] {
	return enqueuer[T, K]{target[K]{queue: q}, keys, AllOf(when...)}
}

func ownKey(m *partial) []Key { return []Key{KeyOf(m)} }

// Guarantees: Q3
func TestEnqueueObject(t *testing.T) {
	q := NewQueue(QueueConfig[Key]{})
	for _, h := range []Handler[*partial]{keyEnqueuer[*partial]{target[Key]{queue: q}}, enqueues(q, ownKey)} {
		testEnqueueObject(t, q, h)
	}
}

func testEnqueueObject(t *testing.T, q *Queue[Key], h Handler[*partial]) {
	t.Helper()
	a, changed := metaOf("a"), metaOf("a")
	key := []Key{{Namespace: "ns", Name: "a"}}
	for _, c := range []struct {
		what  string
		event func()
		want  Priority
	}{
		{"initial addition", func() { h.OnAdd(a, true) }, LowPriority},
		{"addition", func() { h.OnAdd(a, false) }, NormalPriority},
		{"update", func() { h.OnUpdate(a, changed) }, NormalPriority},
		{"resync", func() { h.OnUpdate(a, a) }, LowPriority},
		{"deletion", func() { h.OnDelete(a, true) }, NormalPriority},
		{"initial addition, then an update", func() { h.OnAdd(a, true); h.OnUpdate(a, changed) }, NormalPriority},
	} {
		c.event()
		wantTaken(t, q, c.what, map[Priority][]Key{c.want: key})
	}
}

func TestEnqueueMapsToAnyKeyOfOldAndNew(t *testing.T) {
	q := NewQueue(QueueConfig[int]{})
	h := enqueues(q, func(m *partial) []int { return []int{len(m.Name), len(m.Labels)} })
	h.OnUpdate(metaOf("four"), metaOf("four", func(m *partial) { m.Labels = map[string]string{"a": ""} }))
	wantTaken(t, q, "update", map[Priority][]int{NormalPriority: {4, 0, 1}})
	none := enqueues(q, func(*partial) []int { return nil })
	none.OnAdd(metaOf("a"), true)
	wantTaken(t, q, "nothing", map[Priority][]int{})
}

// Each key of an event is added once: no worker can take it, and again for the same event.
// Guarantees: Q15
func TestEnqueueAddsEachKeyOnce(t *testing.T) {
	q := NewQueue(QueueConfig[int]{})
	h := enqueues(q, func(m *partial) []int {
		if n := q.Len(); n > 0 {
			t.Errorf("%d keys are in the queue, although those of %s are not known yet", n, m.Name)
		}
		return []int{len(m.Name), 7, len(m.Name)}
	})
	for i, name := range []string{"four", "other"} { // with the same keys, and with others
		h.OnUpdate(metaOf("four"), metaOf(name, func(m *partial) { m.ResourceVersion = fmt.Sprint(i) }))
		want := []int{4, 7}
		if name == "other" {
			want = append(want, 5)
		}
		adds := q.Status().Adds
		wantTaken(t, q, name, map[Priority][]int{NormalPriority: want})
		h.OnAdd(metaOf(name), false)
		wantTaken(t, q, "addition", map[Priority][]int{NormalPriority: {len(name), 7}})
		if n := int(q.Status().Adds - adds); n != 2 {
			t.Errorf("%d keys were added for one event, want 2", n)
		}
	}
}

func TestEnqueueOwner(t *testing.T) {
	website := schema.GroupKind{Group: "example.com", Kind: "Website"}
	obj := metaOf("child",
		ownedBy("example.com/v1", "Website", "plain"),
		ownedBy("example.com/v2", "Website", "controller", true),
		ownedBy("example.com/v2", "Website", "explicitly-not", false),
		ownedBy("other.com/v1", "Website", "other-group", true),
		ownedBy("example.com/v1", "Other", "other-kind", true),
		ownedBy("a/b/c", "Website", "nonsense", true),
	)
	for _, c := range []struct {
		owner Owner
		want  []Key
	}{
		{Owner{GroupKind: website}, []Key{{Namespace: "ns", Name: "controller"}}},
		{Owner{GroupKind: website, All: true}, []Key{{Namespace: "ns", Name: "plain"}, {Namespace: "ns", Name: "controller"}, {Namespace: "ns", Name: "explicitly-not"}}},
		{Owner{GroupKind: website, ClusterScoped: true}, []Key{{Name: "controller"}}},
	} {
		q := NewQueue(QueueConfig[Key]{})
		enqueues(q, OwnerKeys[*partial](c.owner)).OnAdd(obj, false)
		wantTaken(t, q, "owners", map[Priority][]Key{NormalPriority: c.want})
	}
	q := NewQueue(QueueConfig[Key]{})
	h := enqueues(q, OwnerKeys[*partial](Owner{GroupKind: website}))
	h.OnUpdate(obj, metaOf("child", ownedBy("example.com/v1", "Website", "new", true))) // both owners are enqueued
	wantTaken(t, q, "new owner", map[Priority][]Key{NormalPriority: {{Namespace: "ns", Name: "controller"}, {Namespace: "ns", Name: "new"}}})
}

func TestPredicates(t *testing.T) {
	yes := func(Event[*partial]) bool { return true }
	no := func(Event[*partial]) bool { return false }
	old := metaOf("a")
	update := func(change func(*partial)) Event[*partial] {
		return Event[*partial]{Type: Updated, Old: old, Object: metaOf("a", change)}
	}
	nothing := update(func(*partial) {})
	generation := update(func(m *partial) { m.Generation++ })
	labels := update(func(m *partial) { m.Labels = map[string]string{"a": "b"} })
	annotations := update(func(m *partial) { m.Annotations = map[string]string{"a": "b"} })
	resync := Event[*partial]{Type: Updated, Old: old, Object: old}
	added, deleted := Event[*partial]{Type: Added, Object: old}, Event[*partial]{Type: Deleted, Object: old}
	for name, c := range map[string]struct {
		p   Predicate[*partial]
		yes []Event[*partial]
		no  []Event[*partial]
	}{
		"GenerationChanged":  {GenerationChanged[*partial], []Event[*partial]{added, deleted, generation}, []Event[*partial]{nothing, labels, annotations, resync}},
		"LabelsChanged":      {LabelsChanged[*partial], []Event[*partial]{added, deleted, labels}, []Event[*partial]{nothing, generation, annotations, resync}},
		"AnnotationsChanged": {AnnotationsChanged[*partial], []Event[*partial]{added, deleted, annotations}, []Event[*partial]{nothing, generation, labels, resync}},
		"AllOf()":            {AllOf[*partial](), []Event[*partial]{added}, nil},
		"AllOf":              {AllOf(GenerationChanged[*partial], LabelsChanged[*partial]), []Event[*partial]{added}, []Event[*partial]{generation, labels}},
		"AnyOf()":            {AnyOf[*partial](), nil, []Event[*partial]{added}},
		"AnyOf":              {AnyOf(GenerationChanged[*partial], LabelsChanged[*partial]), []Event[*partial]{generation, labels}, []Event[*partial]{annotations}},
		"Not":                {Not(yes), nil, []Event[*partial]{added}},
		"Not Not":            {AllOf(Not(Not(yes)), Not(no)), []Event[*partial]{added}, nil},
	} {
		q := NewQueue(QueueConfig[Key]{})
		h := enqueues(q, ownKey, c.p)
		tell := func(e Event[*partial]) bool {
			switch e.Type {
			case Added:
				h.OnAdd(e.Object, e.Initial)
			case Updated:
				h.OnUpdate(e.Old, e.Object)
			case Deleted:
				h.OnDelete(e.Object, e.Final)
			}
			return len(taken(q)) > 0
		}
		for i, e := range c.yes {
			if !tell(e) {
				t.Errorf("%s rejects %d: %v", name, i, e.Type)
			}
		}
		for i, e := range c.no {
			if tell(e) {
				t.Errorf("%s accepts %d: %v", name, i, e.Type)
			}
		}
	}
}

// heldHandler adds the keys of objects to queue, and blocks on the object named held until gate closes.
func heldHandler(gate chan struct{}) func(queue *Queue[string]) Handler[*thing] {
	return func(queue *Queue[string]) Handler[*thing] {
		return HandlerFuncs[*thing]{AddFunc: func(obj *thing, _ bool) {
			if obj.name == "held" {
				<-gate
			}
			queue.Add(obj.name)
		}}
	}
}

func nameOf(obj *thing) []string { return []string{obj.name} }

// Guarantees: Q11
func TestNoKeyIsReconciledBeforeEverySourceHasSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		early, late, readOnly := startFed(t), startFed(t), startFed(t)
		defer early.stop()
		defer late.stop()
		defer readOnly.stop()
		ctl := &Controller[string]{Queue: NewQueue(QueueConfig[string]{})}
		ctl.Watch(Enqueue(early.Informer, nameOf))
		ctl.Watch(Enqueue(late.Informer, nameOf, func(e Event[*thing]) bool { return e.Object.name != "filtered" }))
		ctl.Watch(Enqueue(readOnly.Informer, func(*thing) []string { return nil }))
		r := startController(t, ctl)
		early.put(list(1, "a"))
		r.want()
		gate := make(chan struct{})
		late.Subscribe(HandlerFuncs[*thing]{AddFunc: func(*thing, bool) { <-gate }}) // other handlers of the informer do not delay the controller
		late.put(list(1, "b", "filtered"))
		r.want()
		readOnly.put(list(1, "c"))
		r.wantInAnyOrder("a@0s", "b@0s")
		close(gate)
	})
}

// Guarantees: H13, Q3
func TestSourceWithResyncAddsItsKeysAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		inf.put(list(1, "a", "b"))
		ctl := &Controller[string]{Queue: NewQueue(QueueConfig[string]{})}
		ctl.Watch(Enqueue(inf.Informer, nameOf).WithResync(time.Hour))
		never := &Controller[string]{Queue: NewQueue(QueueConfig[string]{})}
		never.Watch(Enqueue(inf.Informer, nameOf).WithResync(time.Hour).WithResync(0))
		synctest.Wait()
		for range 2 {
			for _, c := range []*Controller[string]{ctl, never} {
				for range c.Queue.Len() {
					key, err := c.Queue.Get(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					c.Queue.Done(key)
				}
			}
			time.Sleep(66 * time.Minute)
			if low, all := ctl.Queue.Len(LowPriority), ctl.Queue.Len(); low != 2 || all != 2 {
				t.Errorf("%d keys wait, %d of them with LowPriority, want 2", all, low)
			}
		}
		if n := never.Queue.Len(); n != 0 {
			t.Errorf("without resync, %d keys wait", n)
		}
	})
}

// Guarantees: Q11
func TestSourceThatIsWatchedLaterHoldsTheControllerUntilItHasSynced(t *testing.T) {
	for _, how := range []string{"syncs", "is closed", "syncs after the controller was stopped and run again"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first, second := startFed(t), startFed(t)
				defer first.stop()
				defer second.stop()
				first.put(list(1, "a"))
				second.put(list(1, "early", "held", "last"))
				synctest.Wait()
				ctl := &Controller[string]{Queue: NewQueue(QueueConfig[string]{})}
				ctl.Watch(Enqueue(first.Informer, nameOf))
				r := startController(t, ctl)
				r.want("a@0s")

				gate := make(chan struct{})
				sub := ctl.Watch(EnqueueBy(second.Informer, heldHandler(gate), SubscriptionConfig[*thing]{}))
				first.put(upsert(2, "b"))
				r.want() // neither second's keys so far nor those of other sources
				switch how {
				case "is closed":
					sub.Close()
					r.wantInAnyOrder("b@0s", "early@0s")
					close(gate)
					r.want("held@0s")
					return
				case "syncs":
				default:
					if err := r.stop(); !errors.Is(err, context.Canceled) {
						t.Errorf("Run: %v", err)
					}
					if n := ctl.Queue.Len(); n != 2 {
						t.Errorf("%d keys wait, want early and b", n)
					}
					r = startController(t, ctl)
					r.want()
				}
				close(gate)
				r.wantInAnyOrder("b@0s", "early@0s", "held@0s", "last@0s")
			})
		})
	}
}

// Guarantees: L4
func TestSourceThatCannotSyncEndsRunAndWaitSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name   string
			resync time.Duration
			stop   bool
			want   string
		}{
			{name: "invalid subscription", resync: -1, want: "SubscriptionConfig.Resync"},
			{name: "stopped informer", stop: true, want: "informer stopped"},
		} {
			inf := startFed(t)
			if c.stop {
				inf.stop()
			} else {
				defer inf.stop()
			}
			ctl := &Controller[string]{Name: "mine", Reconcile: func(context.Context, string) (Result, error) {
				t.Error("Reconcile was called")
				return Result{}, nil
			}}
			ctl.Watch(Enqueue(inf.Informer, nameOf).WithResync(c.resync))
			for what, err := range map[string]error{"WaitSynced before Run": ctl.WaitSynced(t.Context()), "Run": ctl.Run(t.Context()), "WaitSynced": ctl.WaitSynced(t.Context())} {
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "mine") {
					t.Errorf("%s: %s: %v", c.name, what, err)
				}
			}
		}
	})
}

// With the zero Source, the subscription, the waits, Run and Replay return an error that says what to use instead,
// before Run and while the controller runs. Watch logs it, since go ctl.Run(ctx) drops the result.
// Guarantees: L4
func TestZeroSourceIsAnError(t *testing.T) {
	for name, source := range map[string]Source[string]{"zero": {}, "with a resync": Source[string]{}.WithResync(time.Hour)} {
		for _, running := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/running=%v", name, running), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var log strings.Builder
					ctl := &Controller[string]{
						Name:      "mine",
						Logger:    slog.New(slog.NewTextHandler(&log, nil)),
						Reconcile: func(context.Context, string) (Result, error) { return Result{}, nil },
					}
					ended := make(chan error, 1)
					run := func() { ended <- ctl.Run(t.Context()) }
					if running {
						go run()
						synctest.Wait()
					}
					sub := ctl.Watch(source)
					if !strings.Contains(log.String(), "EnqueueObject") || !strings.Contains(log.String(), "mine") {
						t.Errorf("log %q", &log)
					}
					if running {
						ctl.queue().Add("a")
					} else {
						go run()
					}
					sub.Close() // changes nothing
					<-sub.Done()
					for what, err := range map[string]error{
						"Run":         <-ended,
						"WaitSynced":  ctl.WaitSynced(t.Context()),
						"WaitSources": ctl.WaitSources(t.Context()),
						"Replay":      ctl.Replay(t.Context(), func(string) bool { return true }),
					} {
						if err == nil || !strings.Contains(err.Error(), "the Source is zero") || !strings.Contains(err.Error(), "mine") {
							t.Errorf("%s: %v", what, err)
						}
					}
					if err := sub.Err(); err == nil || sub.HasSynced() || sub.WaitSynced(t.Context()) != err {
						t.Errorf("subscription: %v, synced %v", err, sub.HasSynced())
					}
					if s := sub.Status(); s.Synced || s.Backlog != 0 {
						t.Errorf("status %+v", s)
					}
				})
			})
		}
	}
}

// With LayoutCompact, the keys of objects are added although none can be decoded. A predicate needs the objects.
// Guarantees: D3
func TestEnqueueObjectDecodesNothing(t *testing.T) {
	always := func(Event[*thing]) bool { return true }
	for name, predicates := range map[string][]Predicate[*thing]{"no predicate": nil, "predicate": {always}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { enqueueUndecodable(t, predicates...) })
		})
	}
}

// enqueueUndecodable puts objects that cannot be decoded into an informer, and checks what EnqueueObject adds.
func enqueueUndecodable(t *testing.T, predicates ...Predicate[*thing]) {
	client, err := NewClient(&rest.Config{Host: "nowhere", Transport: silence{}})
	if err != nil {
		t.Fatal(err)
	}
	inf := New(client, Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "things"}},
		Config[*thing]{Logger: slog.New(slog.DiscardHandler), Layout: LayoutCompact})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- inf.Run(ctx) }()
	queue := NewQueue(QueueConfig[Key]{})
	EnqueueObject(inf, predicates...).subscribe(target[Key]{queue: queue}, 0)

	packer, err := newPacker(reflect.TypeFor[*thing](), false, nil, Resource{})
	if err != nil {
		t.Fatal(err)
	}
	var all []*packed
	undecodable := func(name, rv string) *packed {
		p := packer.PackBytes(&thing{name: name, uid: name, rv: rv}, decode.JSON, []byte("{"), nil, nil)
		all = append(all, p)
		return p
	}
	put := func(d Delta[*packed], want map[Priority][]Key) {
		t.Helper()
		if err := mirrorOf(packedFollowerOf(inf)).Buffer.Put(ctx, read(d)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if predicates != nil {
			want = nil // no event arrives
		}
		wantTaken(t, queue, d.ResourceVersion, want)
	}
	a, b, c := Key{Name: "a"}, Key{Name: "b"}, Key{Name: "c"}
	put(Delta[*packed]{Type: Replaced, ResourceVersion: "1", Items: []*packed{undecodable("a", "1"), undecodable("b", "1")}},
		map[Priority][]Key{LowPriority: {a, b}})
	put(Delta[*packed]{Type: Upserted, ResourceVersion: "2", Object: undecodable("a", "2")}, map[Priority][]Key{NormalPriority: {a}})
	put(Delta[*packed]{Type: Upserted, ResourceVersion: "3", Object: undecodable("c", "3")}, map[Priority][]Key{NormalPriority: {c}})
	put(Delta[*packed]{Type: Removed, ResourceVersion: "4", Key: b}, map[Priority][]Key{NormalPriority: {b}})
	for _, p := range all {
		if failed := p.Failed() != nil; failed != (predicates != nil) {
			t.Errorf("%s %s: decoding has failed: %t", p.GetName(), p.GetResourceVersion(), failed)
		}
	}
	cancel()
	<-ended
}

// BenchmarkEnqueue measures an update of an object whose source adds its key, that of an owner, or those of several
// owners, to a queue that is emptied after each one.
func BenchmarkEnqueue(b *testing.B) {
	q := NewQueue(QueueConfig[Key]{})
	old, changed := metaOf("a"), metaOf("a", func(m *partial) { m.ResourceVersion = "2" })
	several := make([]Key, 5)
	for i := range several {
		several[i] = Key{Namespace: "ns", Name: fmt.Sprint("owner-", i)}
	}
	for _, c := range []struct {
		name    string
		handler Handler[*partial]
	}{
		{"object", keyEnqueuer[*partial]{target[Key]{queue: q}}},
		{"owner", enqueues(q, func(*partial) []Key { return several[:1] })},
		{"several", enqueues(q, func(*partial) []Key { return several })},
		{"other", enqueues(q, func(m *partial) []Key { return several[len(m.ResourceVersion):][:1] })},
	} {
		b.Run("keys="+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.handler.OnUpdate(old, changed)
				for q.Len() > 0 {
					key, err := q.Get(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					q.Done(key)
				}
			}
		})
	}
}

package informer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

type policy = networkingv1.NetworkPolicy

// newPolicy returns a policy that selects pods of its namespace, or those of all namespaces if that is empty.
func newPolicy(namespace, name string, selector metav1.LabelSelector) *policy {
	return &policy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "1", ResourceVersion: "1"},
		Spec: networkingv1.NetworkPolicySpec{PodSelector: selector}}
}

// selectsPods returns what a policy selects. An invalid selector selects nothing.
func selectsPods(p *policy) (string, labels.Selector) {
	selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
	if err != nil {
		return p.Namespace, nil
	}
	return p.Namespace, selector
}

func requires(key string, operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: values}
}

func applyPolicies(t *testing.T, w StoreWriter[*policy], policies ...*policy) {
	t.Helper()
	for _, p := range policies {
		if err := w.Apply(Delta[*policy]{Type: Upserted, Object: p}); err != nil {
			t.Fatal(err)
		}
	}
}

// keysOf returns the sorted keys of objects, as text.
func keysOf[T Object](objects []T) (keys []string) {
	for _, obj := range objects {
		keys = append(keys, KeyOf(obj).String())
	}
	slices.Sort(keys)
	return keys
}

// Each operator of a label selector, several of them together, an empty selector and none give the matches that the API
// defines. A selector of a namespace matches nothing outside.
//
// Guarantees: K1
func TestSelectorIndexHasEachOperator(t *testing.T) {
	store, w := NewStore[*policy]()
	x := NewSelectorIndex(store, selectsPods)
	with := func(requirements ...metav1.LabelSelectorRequirement) metav1.LabelSelector {
		return metav1.LabelSelector{MatchExpressions: requirements}
	}
	applyPolicies(t, w,
		newPolicy("a", "equal", metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}),
		newPolicy("a", "both", metav1.LabelSelector{MatchLabels: map[string]string{"app": "web", "tier": "front"}}),
		newPolicy("a", "in", with(requires("app", metav1.LabelSelectorOpIn, "web", "db"))),
		newPolicy("a", "not-in", with(requires("app", metav1.LabelSelectorOpNotIn, "db"))),
		newPolicy("a", "exists", with(requires("tier", metav1.LabelSelectorOpExists))),
		newPolicy("a", "absent", with(requires("tier", metav1.LabelSelectorOpDoesNotExist))),
		newPolicy("a", "mixed", with(requires("app", metav1.LabelSelectorOpExists), requires("tier", metav1.LabelSelectorOpNotIn, "back"))),
		newPolicy("a", "empty-value", metav1.LabelSelector{MatchLabels: map[string]string{"app": ""}}),
		newPolicy("a", "empty", metav1.LabelSelector{}),
		newPolicy("a", "invalid", with(requires("app", "Near", "web"))),
		newPolicy("b", "other-namespace", metav1.LabelSelector{}),
		newPolicy("", "everywhere", metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}),
	)
	for _, c := range []struct {
		namespace string
		set       labels.Set
		want      []string
	}{
		{"a", labels.Set{"app": "web", "tier": "front"},
			[]string{"/everywhere", "a/both", "a/empty", "a/equal", "a/exists", "a/in", "a/mixed", "a/not-in"}},
		{"a", labels.Set{"app": "web"},
			[]string{"/everywhere", "a/absent", "a/empty", "a/equal", "a/in", "a/mixed", "a/not-in"}},
		{"a", labels.Set{"app": "db", "tier": "back"}, []string{"a/empty", "a/exists", "a/in"}},
		{"a", labels.Set{"app": ""}, []string{"a/absent", "a/empty", "a/empty-value", "a/mixed", "a/not-in"}},
		{"a", nil, []string{"a/absent", "a/empty", "a/not-in"}},
		{"b", labels.Set{"app": "web"}, []string{"/everywhere", "b/other-namespace"}},
		{"", labels.Set{"app": "web"}, []string{"/everywhere"}},
		{"c", nil, nil},
	} {
		if got := keysOf(x.List(c.namespace, c.set)); !slices.Equal(got, c.want) {
			t.Errorf("namespace %q, labels %v: %v, want %v", c.namespace, c.set, got, c.want)
		}
	}
	for range x.Matching("a", nil) {
		break // ends the iteration
	}
}

// A selector with greater-than, which field types of other APIs have, is found too.
//
// Guarantees: K1
func TestSelectorIndexHasNumbers(t *testing.T) {
	store, w := NewStore[*policy]()
	selector, err := labels.Parse("cores>3,app!=db")
	if err != nil {
		t.Fatal(err)
	}
	x := NewSelectorIndex(store, func(p *policy) (string, labels.Selector) { return p.Namespace, selector })
	applyPolicies(t, w, newPolicy("a", "large", metav1.LabelSelector{}))
	for set, want := range map[string]int{"cores=4": 1, "cores=3": 0, "app=web": 0, "cores=4,app=db": 0} {
		parsed, err := labels.ConvertSelectorToLabelsMap(set)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(x.List("a", parsed)); got != want {
			t.Errorf("%s: %d policies, want %d", set, got, want)
		}
	}
}

// selectorGenerator makes selectors and labels that often match.
type selectorGenerator struct{ *rand.Rand }

func (g selectorGenerator) value() string { return fmt.Sprint("v", g.IntN(4)) }
func (g selectorGenerator) key() string   { return fmt.Sprint("k", g.IntN(4)) }

func (g selectorGenerator) namespace() string { return []string{"", "a", "b"}[g.IntN(3)] }

func (g selectorGenerator) labels() labels.Set {
	set := labels.Set{}
	for range g.IntN(5) {
		set[g.key()] = g.value()
	}
	return set
}

func (g selectorGenerator) selector() (s metav1.LabelSelector) {
	operators := []metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn,
		metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist}
	for range g.IntN(3) {
		if s.MatchLabels == nil {
			s.MatchLabels = map[string]string{}
		}
		s.MatchLabels[g.key()] = g.value()
	}
	for range g.IntN(3) {
		r := requires(g.key(), operators[g.IntN(len(operators))])
		if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
			r.Values = append(r.Values, g.value(), g.value())
		}
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	return s
}

// wantMatching fails the test unless MatchingIn yields what a scan of snap yields.
func wantMatching(t *testing.T, x *SelectorIndex[*policy], snap *Snapshot[*policy], namespace string, set labels.Set) {
	t.Helper()
	var want []string
	for p := range snap.All() {
		in, selector := selectsPods(p)
		if (in == "" || in == namespace) && selector != nil && selector.Matches(set) {
			want = append(want, KeyOf(p).String())
		}
	}
	slices.Sort(want)
	if got := keysOf(slices.Collect(x.MatchingIn(snap, namespace, set))); !slices.Equal(got, want) {
		t.Fatalf("namespace %q, labels %v: %v, want %v", namespace, set, got, want)
	}
}

// After random writes, the matches equal those of a scan, in the current snapshot and in earlier ones, also in those
// from before the index.
//
// Guarantees: K1, C1
func TestSelectorIndexEqualsAScan(t *testing.T) {
	for seed := range uint64(Rounds(10, 50)) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			g := selectorGenerator{rand.New(rand.NewPCG(seed, 7))}
			store, w := NewStore[*policy]()
			var x *SelectorIndex[*policy]
			var old []*Snapshot[*policy]
			for step := range 200 {
				if step == 20 {
					x = NewSelectorIndex(store, selectsPods)
				}
				p := newPolicy(g.namespace(), fmt.Sprint("p", g.IntN(20)), g.selector())
				change := Delta[*policy]{Type: Upserted, Object: p}
				if g.IntN(4) == 0 {
					change.Type = Removed
				}
				if err := w.Apply(change); err != nil {
					t.Fatal(err)
				}
				if g.IntN(20) == 0 {
					old = append(old, store.Snapshot())
				}
				if x != nil {
					wantMatching(t, x, store.Snapshot(), g.namespace(), g.labels())
				}
			}
			for _, snap := range old {
				wantMatching(t, x, snap, g.namespace(), g.labels())
			}
		})
	}
}

// A lookup checks few selectors besides those that match, however many there are and in whatever order they come: also
// if all have a common requirement before the rare one, and if one has hundreds of values.
//
// Guarantees: K1
func TestSelectorIndexChecksFewSelectors(t *testing.T) {
	const n = 5000
	store, w := NewStore[*policy]()
	checked := 0
	x := NewSelectorIndex(store, func(p *policy) (string, labels.Selector) {
		checked++
		return selectsPods(p)
	})
	var batch []Delta[*policy]
	for i := range n {
		selector := metav1.LabelSelector{MatchLabels: map[string]string{"a-tier": "back", "app": fmt.Sprint("app", i), "zone": "z1"}}
		batch = append(batch, Delta[*policy]{Type: Upserted, Object: newPolicy("ns", fmt.Sprint("p", i), selector)})
	}
	if err := w.Apply(batch...); err != nil {
		t.Fatal(err)
	}
	worst := 0
	for i := range n {
		checked = 0
		set := labels.Set{"a-tier": "back", "app": fmt.Sprint("app", i), "zone": "z1", "extra": "e"}
		if got := keysOf(x.List("ns", set)); !slices.Equal(got, []string{fmt.Sprint("ns/p", i)}) {
			t.Fatalf("the app %d: %v", i, got)
		}
		worst = max(worst, checked)
	}
	if worst > 8 { // the first ones are filed before it is known what is common
		t.Errorf("a lookup checked %d selectors of %d, want at most 8", worst, n)
	}
}

// labeledPod returns a pod of namespace ns.
func labeledPod(name string, set map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: set, UID: "1"}}
}

// An event of a pod adds the keys of the policies that match it now, or matched it before.
//
// Guarantees: K1
func TestEnqueueSelecting(t *testing.T) {
	store, w := NewStore[*policy]()
	x := NewSelectorIndex(store, selectsPods)
	matchApp := func(app string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	}
	applyPolicies(t, w, newPolicy("ns", "a", matchApp("a")), newPolicy("ns", "b", matchApp("b")), newPolicy("ns", "c", matchApp("c")),
		newPolicy("other", "a", matchApp("a")))
	queue := NewQueue(QueueConfig[Key]{})
	h := enqueues(queue, selectingKeys[*corev1.Pod](x))
	a, b := labeledPod("p", map[string]string{"app": "a"}), labeledPod("p", map[string]string{"app": "b"})
	b.ResourceVersion = "2"

	h.OnAdd(a, true)
	wantTaken(t, queue, "initial", map[Priority][]Key{LowPriority: {nsKey("a")}})
	h.OnUpdate(a, b)
	wantTaken(t, queue, "other labels", map[Priority][]Key{NormalPriority: {nsKey("a"), nsKey("b")}})
	h.OnDelete(b, true)
	wantTaken(t, queue, "deletion", map[Priority][]Key{NormalPriority: {nsKey("b")}})
	h.OnAdd(labeledPod("q", nil), false)
	wantTaken(t, queue, "no labels", nil)
}

// An event of a policy adds the keys of the pods that it selects now, or selected before.
//
// Guarantees: K1
func TestEnqueueSelected(t *testing.T) {
	pods, w := NewStore[*corev1.Pod]()
	for _, app := range []string{"a", "b", "c"} {
		if err := w.Apply(Delta[*corev1.Pod]{Type: Upserted, Object: labeledPod(app, map[string]string{"app": app})}); err != nil {
			t.Fatal(err)
		}
	}
	store, _ := NewStore[*policy]()
	x := NewSelectorIndex(store, selectsPods)
	selects := func(namespace, app string) *policy {
		p := newPolicy(namespace, "p", metav1.LabelSelector{MatchLabels: map[string]string{"app": app}})
		p.ResourceVersion = app
		return p
	}
	queue := NewQueue(QueueConfig[Key]{})
	h := enqueues(queue, selectedKeys(x, pods))

	h.OnAdd(selects("ns", "a"), false)
	wantTaken(t, queue, "addition", map[Priority][]Key{NormalPriority: {nsKey("a")}})
	h.OnUpdate(selects("ns", "a"), selects("ns", "b"))
	wantTaken(t, queue, "another selector", map[Priority][]Key{NormalPriority: {nsKey("a"), nsKey("b")}})
	h.OnDelete(selects("", "c"), true)
	wantTaken(t, queue, "of all namespaces", map[Priority][]Key{NormalPriority: {nsKey("c")}})
	h.OnAdd(selects("other", "a"), false)
	wantTaken(t, queue, "of another namespace", nil)
	h.OnAdd(newPolicy("ns", "p", metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{requires("a", "Near")}}), false)
	wantTaken(t, queue, "an invalid selector", nil)
}

func nsKey(name string) Key { return Key{Namespace: "ns", Name: name} }

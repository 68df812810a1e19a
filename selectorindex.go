package informer

import (
	"hash/maphash"
	"iter"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/typedinformer/informer/internal/store/table"
)

// SelectorIndex finds the objects of a [Store] whose label selectors match: for example the services of a pod, its
// network policies and disruption budgets, or the webhooks of a namespace. It is always consistent with the store: both
// change in the same step. [EnqueueSelecting] and [EnqueueSelected] use it to reconcile.
//
// A lookup takes time that grows with the number of labels and of matches, and usually not with the number of
// selectors: the index files each selector under one requirement that few others have, and checks the rest of it at the
// lookup. It checks all selectors of the namespace that no label must satisfy: empty ones, and those that have only the
// operators NotIn and DoesNotExist.
//
// The rules for the function of an [Index] also hold here. A lookup calls the function again, for each object whose
// selector it checks, in the goroutine of the reader.
//
// A SelectorIndex lives as long as its store; [NewSelectorIndex] creates one. All methods are safe for concurrent use.
type SelectorIndex[T Object] struct {
	store   *Store[T]
	selects func(obj T) (namespace string, selector labels.Selector)
	index   *table.Index[T, requirement]
	common  *commonRequirements
	used    usedRequirements
}

// NewSelectorIndex adds an index of selectors to an informer or a store, at any time. The index is complete when
// NewSelectorIndex returns.
//
// selects returns what an object selects: the objects of a namespace that match selector. An empty namespace means the
// objects of all namespaces, and those in no namespace. A nil selector matches nothing, as [labels.Nothing] does, and
// an empty one matches everything. Kinds differ in what an empty selector means, so selects decides:
//
//	services := informer.NewSelectorIndex(i, func(s *corev1.Service) (string, labels.Selector) {
//		if len(s.Spec.Selector) == 0 {
//			return s.Namespace, nil // a service without a selector selects no pods
//		}
//		return s.Namespace, labels.SelectorFromSet(s.Spec.Selector)
//	})
//
// For a [metav1.LabelSelector], use [metav1.LabelSelectorAsSelector]. It returns an error for an invalid selector,
// which the API server has rejected for most kinds.
func NewSelectorIndex[T Object](in Indexable[T],
	selects func(obj T) (namespace string, selector labels.Selector)) *SelectorIndex[T] {
	x := &SelectorIndex[T]{store: in.indexed(), selects: selects, common: &commonRequirements{seed: maphash.MakeSeed()}}
	x.index = table.NewIndex(x.filedUnder)
	x.store.core().AddIndex(x.index)
	return x
}

// Matching yields the objects that select an object with these labels in namespace, each once and in no particular
// order, from one snapshot. An empty namespace means an object in no namespace: a selector of a namespace does not
// match it. set must not change while Matching is read.
func (x *SelectorIndex[T]) Matching(namespace string, set labels.Set) iter.Seq[T] {
	return x.MatchingIn(x.store.Snapshot(), namespace, set)
}

// MatchingIn is like Matching, with the objects of snap. If snap is older than the index or belongs to another store,
// MatchingIn checks the selector of every object in it.
func (x *SelectorIndex[T]) MatchingIn(snap *Snapshot[T], namespace string, set labels.Set) iter.Seq[T] {
	return func(yield func(T) bool) {
		more, version := true, snap.core().Table()
		check := func(obj T) bool {
			more = !x.matches(obj, namespace, set) || yield(obj)
			return more
		}
		if !x.index.Has(version) {
			version.WalkShared(table.Range{}, func(obj T) bool { return check(version.Give(obj)) })
			return
		}
		lookup := func(r requirement) bool {
			x.index.Lookup(version, r, check)
			return more
		}
		if x.used.satisfied("", set, lookup) && namespace != "" {
			x.used.satisfied(namespace, set, lookup)
		}
	}
}

// List returns the objects that Matching yields, as a new slice.
func (x *SelectorIndex[T]) List(namespace string, set labels.Set) []T {
	var list []T
	for obj := range x.Matching(namespace, set) {
		list = append(list, obj)
	}
	return list
}

// matches reports whether obj selects an object with these labels in namespace.
func (x *SelectorIndex[T]) matches(obj T, namespace string, set labels.Set) bool {
	in, selector := x.selects(obj)
	return selector != nil && (in == "" || in == namespace) && selector.Matches(set)
}

// requirement is what an object must satisfy to be selected by those that the index files under it: to be in namespace,
// and what kind says. An empty namespace means none and all.
type requirement struct {
	namespace  string
	kind       requirementKind
	key, value string
}

// requirementKind says which parts of a requirement count.
type requirementKind uint8

const (
	anyLabels requirementKind = iota // neither key nor value
	hasKey                           // a label with that key
	hasValue                         // a label with that key and value

	requirementKinds // their number
)

// usedRequirements are the kinds of the requirements that an index has ever used. A lookup leaves out the others. The
// zero value is ready for use, and safe for concurrent use.
type usedRequirements struct {
	bits atomic.Uint32 // a bit for each kind in a namespace, and behind these, for each kind without one
}

// bit returns the bit of a kind.
func (*usedRequirements) bit(namespace string, kind requirementKind) uint32 {
	if namespace == "" {
		kind += requirementKinds
	}
	return 1 << kind
}

// add adds the kinds of these requirements.
func (u *usedRequirements) add(requirements []requirement) {
	for _, r := range requirements {
		u.bits.Or(u.bit(r.namespace, r.kind))
	}
}

// satisfied calls yield with each requirement of used kinds that an object with these labels satisfies, and whose
// namespace is the given one, until yield returns false. It returns what yield returned last, or true.
func (u *usedRequirements) satisfied(namespace string, set labels.Set, yield func(requirement) bool) (more bool) {
	used := u.bits.Load()
	if used&u.bit(namespace, anyLabels) != 0 && !yield(requirement{namespace: namespace}) {
		return false
	}
	values, keys := used&u.bit(namespace, hasValue) != 0, used&u.bit(namespace, hasKey) != 0
	if !values && !keys {
		return true
	}
	for key, value := range set {
		if values && !yield(requirement{namespace, hasValue, key, value}) {
			return false
		}
		if keys && !yield(requirement{namespace, hasKey, key, ""}) {
			return false
		}
	}
	return true
}

// filedUnder returns the requirements under which the index files obj, and notes their kinds before a version has them.
func (x *SelectorIndex[T]) filedUnder(obj T) []requirement {
	requirements := x.requirements(obj)
	x.used.add(requirements)
	return requirements
}

// requirements returns some requirements. An object that obj selects satisfies exactly one of them.
func (x *SelectorIndex[T]) requirements(obj T) []requirement {
	namespace, selector := x.selects(obj)
	if selector == nil {
		return nil
	}
	parts, selectable := selector.Requirements()
	if !selectable {
		return nil
	}
	var choices [][]requirement
	for i := range parts {
		if choice := choiceOf(namespace, &parts[i]); len(choice) > 0 {
			choices = append(choices, choice)
		}
	}
	if len(choices) == 0 {
		return []requirement{{namespace: namespace}}
	}
	return x.common.rarest(choices)
}

// choiceOf returns requirements. An object that satisfies part satisfies exactly one of them. There are none if an
// object without labels satisfies part.
func choiceOf(namespace string, part *labels.Requirement) (choice []requirement) {
	switch part.Operator() {
	case selection.In, selection.Equals, selection.DoubleEquals:
		for _, value := range part.ValuesUnsorted() {
			choice = append(choice, requirement{namespace, hasValue, part.Key(), value})
		}
	case selection.Exists, selection.GreaterThan, selection.LessThan:
		choice = append(choice, requirement{namespace, hasKey, part.Key(), ""})
	}
	return choice
}

// commonRequirements estimates how many selectors have a requirement, from those that it has seen. Its zero value is
// not usable: it needs a seed. It is safe for concurrent use.
type commonRequirements struct {
	seed maphash.Seed

	mu    sync.Mutex // protects the fields below
	seen  [2][2048]uint32
	total uint32 // counted requirements; halved when seen is
}

// forgetAfter is the total at which old requirements lose half of their weight.
const forgetAfter = 1 << 20

// rarest returns the one of several choices whose requirements the fewest selectors had, and counts all of them.
func (c *commonRequirements) rarest(choices [][]requirement) []requirement {
	c.mu.Lock()
	defer c.mu.Unlock()
	var best []requirement
	var fewest uint32
	for _, choice := range choices {
		var n uint32
		for _, r := range choice {
			n += c.countLocked(r)
		}
		if best == nil || n < fewest {
			best, fewest = choice, n
		}
	}
	if c.total >= forgetAfter {
		c.forgetLocked()
	}
	return best
}

// countLocked counts r, and returns how many selectors had it before. Requirements share counts, so that may be too
// high. The lower one of two counts rarely is: a rare requirement hardly shares both with common ones.
func (c *commonRequirements) countLocked(r requirement) uint32 {
	hash := maphash.Comparable(c.seed, r)
	first, second := &c.seen[0][uint32(hash)%uint32(len(c.seen[0]))], &c.seen[1][uint32(hash>>32)%uint32(len(c.seen[1]))]
	n := min(*first, *second)
	*first++
	*second++
	c.total++
	return n
}

// forgetLocked halves the weight of what was seen.
func (c *commonRequirements) forgetLocked() {
	c.total /= 2
	for i := range c.seen {
		for k := range c.seen[i] {
			c.seen[i][k] /= 2
		}
	}
}

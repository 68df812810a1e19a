package table

import "github.com/typedinformer/informer/internal/object"

// Opener makes objects of another type of those in a table. Its methods are safe for concurrent use.
type Opener[T, S object.Object] interface {
	// Open returns the object that readers of s share, or the zero T if there is none.
	Open(s S) T
	// Copy is like Open, but returns an object that only the caller has. copy returns a copy of an object.
	Copy(s S, copy func(T) T) T
}

// Opened returns v as seen through opener, which opens an object at each read. Readers do not get an object that opener
// cannot open, but Len and Has count it. No edit may begin with the result, which refers to v.
func Opened[T, S object.Object](v *Version[S], opener Opener[T, S]) Version[T] {
	var indexes []indexTree[T]
	for _, t := range v.indexes {
		var inner indexTree[T]
		if t, ok := t.(*openedTree[T, S]); ok {
			inner = t.tree
		}
		indexes = append(indexes, inner)
	}
	return Version[T]{from: &opened[T, S]{version: v, opener: opener}, records: v.records, indexes: indexes}
}

// Copies returns v for readers that get a copy of each object. copy returns a copy of an object. No edit may begin with
// the result, which refers to v.
func (v *Version[T]) Copies(copy func(T) T) Version[T] {
	next := *v
	if v.from != nil {
		next.from = v.from.copies(copy)
	} else {
		next.from = &opened[T, T]{version: v, opener: same[T]{}, copy: copy}
	}
	return next
}

// source makes the objects of a version that has none of its own. An object that it cannot make is the zero T.
type source[T object.Object] interface {
	find(key object.Key) (slot uint32, obj T, ok bool)
	has(key object.Key) bool
	// open returns the object in slot for a reader.
	open(slot uint32) T
	// shared returns the object in slot that readers share, also if open returns copies.
	shared(slot uint32) T
	// give returns obj, which shared has returned, as open does.
	give(obj T) T
	copies(copy func(T) T) source[T]
}

// opened is the source of a version that [Opened] or Copies returned.
type opened[T, S object.Object] struct {
	version *Version[S]
	opener  Opener[T, S]
	copy    func(T) T // nil if readers share objects
}

func (o *opened[T, S]) find(key object.Key) (slot uint32, obj T, ok bool) {
	slot, s, ok := o.version.Find(key)
	if ok {
		obj = o.make(s)
	}
	return slot, obj, !object.IsNil(obj)
}

func (o *opened[T, S]) has(key object.Key) bool { return o.version.Has(key) }

func (o *opened[T, S]) open(slot uint32) T { return o.make(o.version.objects.Get(slot)) }

func (o *opened[T, S]) make(s S) T {
	if o.copy != nil {
		return o.opener.Copy(s, o.copy)
	}
	return o.opener.Open(s)
}

func (o *opened[T, S]) shared(slot uint32) T { return o.opener.Open(o.version.objects.Get(slot)) }

func (o *opened[T, S]) give(obj T) T {
	if o.copy != nil {
		return o.copy(obj)
	}
	return obj
}

func (o *opened[T, S]) copies(copy func(T) T) source[T] {
	return &opened[T, S]{o.version, o.opener, copy}
}

// same is the Opener of objects that are what readers get.
type same[T object.Object] struct{}

func (same[T]) Open(obj T) T                 { return obj }
func (same[T]) Copy(obj T, copy func(T) T) T { return copy(obj) }

// OpenedIndex returns x in a form that a table of S can have. It files the objects that opener opens, and x finds
// them in what [Opened] returns for versions of that table. Objects that opener cannot open have no keys.
func OpenedIndex[T, S object.Object](x AnyIndex[T], opener Opener[T, S]) AnyIndex[S] {
	return openedIndex[T, S]{x, opener}
}

type openedIndex[T, S object.Object] struct {
	index  AnyIndex[T]
	opener Opener[T, S]
}

func (x openedIndex[T, S]) newTree(position int) indexTree[S] {
	return &openedTree[T, S]{x.index.newTree(position), x.opener}
}

// openedTree is the state of an index that [OpenedIndex] returned. opener opens the objects that tree files.
type openedTree[T, S object.Object] struct {
	tree   indexTree[T]
	opener Opener[T, S]
}

func (t *openedTree[T, S]) clone() indexTree[S] { return &openedTree[T, S]{t.tree.clone(), t.opener} }

func (t *openedTree[T, S]) build(gen uint64, v *Version[S]) {
	all := Version[T]{from: &opened[T, S]{version: v, opener: t.opener}, records: v.records}
	t.tree.build(gen, &all)
}

func (t *openedTree[T, S]) add(gen uint64, r *record, s S) { t.tree.add(gen, r, t.opener.Open(s)) }

func (t *openedTree[T, S]) update(gen uint64, r *record, hashes []uint32, s S) []uint32 {
	return t.tree.update(gen, r, hashes, t.opener.Open(s))
}

func (t *openedTree[T, S]) drop(gen uint64, r *record, hashes []uint32) []uint32 {
	return t.tree.drop(gen, r, hashes)
}

func (t *openedTree[T, S]) restore(v *Version[S]) {
	all := Version[T]{records: v.records}
	t.tree.restore(&all)
}

func (t *openedTree[T, S]) check(hashes map[*record][]uint32) error { return t.tree.check(hashes) }

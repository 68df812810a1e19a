package debugpage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/typedinformer/informer"
)

const (
	maxScan  = 10_000  // objects that are compared with a search, for one page
	maxCount = 1_000   // objects that are counted for one key of an index
	maxText  = 256     // bytes of the text of a key
	maxKeys  = 1 << 20 // bytes of the keys of one page, and one key more
)

// Source is an informer whose objects and indexes the page can show. [Objects] returns one. The zero Source shows
// nothing.
type Source struct{ source source }

// source hides the type of the objects. Its methods are safe for concurrent use.
type source interface {
	resource() informer.Resource
	// typeOf is the type of the objects.
	typeOf() reflect.Type
	// size is the number of objects.
	size() int
	indexes() []string
	// keys returns the keys of an index whose text is not before from and contains match, sorted: the first limit of them,
	// and the text of the next one if there are more. It leaves out objects that are hidden, and keys that no other object
	// has: the keys of a hidden object may be a part of its content.
	keys(ctx context.Context, index int, from, match string, limit int, hidden func(obj any) bool) (page []IndexKey,
		next string, more bool)
	// objects yields the keys of objects at or after a key: all of them, or those with that text as the key of an index,
	// without hidden ones.
	objects(index int, key string, from informer.Key, hidden func(obj any) bool) iter.Seq[informer.Key]
	get(key informer.Key) (obj any, ok bool)
}

// Objects returns a source for the objects of i, and for indexes of i. Reading it starts nothing: an informer that does
// not run has no objects. It is safe for concurrent use.
func Objects[T informer.Object](i *informer.Informer[T], indexes ...NamedIndex[T]) Source {
	shown := slices.DeleteFunc(slices.Clone(indexes), func(x NamedIndex[T]) bool { return x.index == nil })
	return Source{&typed[T]{i, shown}}
}

// NamedIndex is an index of objects of type T with a name. [Index] returns one. The zero NamedIndex shows nothing.
type NamedIndex[T informer.Object] struct {
	name  string
	index textIndex[T]
}

// Index names an index for the page. The page shows keys as fmt.Sprint does, and shortens long ones. Keys with the same
// text are one key there. The keys of masked objects are hidden: only callers whom Config.Unmask admits see them.
func Index[T informer.Object, K comparable](name string, index *informer.Index[T, K]) NamedIndex[T] {
	return NamedIndex[T]{name, keyed[T, K]{index}}
}

// typed is the source of objects of type T.
type typed[T informer.Object] struct {
	informer *informer.Informer[T]
	named    []NamedIndex[T]
}

func (t *typed[T]) resource() informer.Resource { return t.informer.Resource() }

func (t *typed[T]) typeOf() reflect.Type { return reflect.TypeFor[T]() }

func (t *typed[T]) size() int { return t.informer.Store().Len() }

func (t *typed[T]) indexes() (names []string) {
	for _, index := range t.named {
		names = append(names, index.name)
	}
	return names
}

func (t *typed[T]) keys(ctx context.Context, index int, from, match string, limit int,
	hidden func(any) bool) (page []IndexKey, next string, more bool) {
	snap, named := t.informer.Store().Snapshot(), t.named[index].index
	var texts []string // the first ones, sorted
	for text, objects := range named.texts(snap) {
		if ctx.Err() != nil {
			return nil, "", false
		}
		if text < from || !strings.Contains(text, match) {
			continue
		}
		position, found := slices.BinarySearch(texts, text)
		if found || position > limit || !anyShown(ctx, objects, hidden) {
			continue
		}
		if texts = slices.Insert(texts, position, text); len(texts) > limit+1 {
			texts = texts[:limit+1]
		}
	}
	if more = len(texts) > limit; more {
		texts, next = texts[:limit], texts[limit]
	}
	counts := map[string]int{}
	for text, n := range named.counts(ctx, snap, texts, hidden) {
		counts[text] += n
	}
	for _, text := range texts {
		page = append(page, IndexKey{text, min(counts[text], maxCount), counts[text] > maxCount})
	}
	return page, next, more
}

// anyShown reports whether one of the objects is not hidden.
func anyShown[T any](ctx context.Context, objects iter.Seq[T], hidden func(any) bool) bool {
	for obj := range objects {
		if ctx.Err() != nil {
			return false
		}
		if !hidden(obj) {
			return true
		}
	}
	return false
}

func (t *typed[T]) objects(index int, key string, from informer.Key, hidden func(any) bool) iter.Seq[informer.Key] {
	return func(yield func(informer.Key) bool) {
		snap := t.informer.Store().Snapshot()
		all := snap.From(from)
		if index >= 0 {
			all = t.named[index].index.lookup(snap, key)
		}
		for obj := range all {
			k := informer.KeyOf(obj)
			if compareKeys(k, from) < 0 || index >= 0 && hidden(obj) {
				continue
			}
			if !yield(k) {
				return
			}
		}
	}
}

func (t *typed[T]) get(key informer.Key) (any, bool) {
	return t.informer.Store().Get(key)
}

// compareKeys orders keys as a store does.
func compareKeys(a, b informer.Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// textIndex is an index whose keys are texts.
type textIndex[T informer.Object] interface {
	// texts yields the text of each key, and the objects that have the key.
	texts(snap *informer.Snapshot[T]) iter.Seq2[string, iter.Seq[T]]
	// counts yields the number of objects, without hidden ones, of each key whose text is in the sorted texts. It stops at
	// maxCount + 1.
	counts(ctx context.Context, snap *informer.Snapshot[T], texts []string, hidden func(any) bool) iter.Seq2[string, int]
	// lookup yields the objects of the keys with that text, in the order of a store.
	lookup(snap *informer.Snapshot[T], text string) iter.Seq[T]
}

// keyed is the textIndex of an index with keys of type K.
type keyed[T informer.Object, K comparable] struct{ index *informer.Index[T, K] }

func (k keyed[T, K]) texts(snap *informer.Snapshot[T]) iter.Seq2[string, iter.Seq[T]] {
	return func(yield func(string, iter.Seq[T]) bool) {
		for key := range k.index.KeysIn(snap) {
			if !yield(textOf(key), k.index.LookupIn(snap, key)) {
				return
			}
		}
	}
}

func (k keyed[T, K]) counts(ctx context.Context, snap *informer.Snapshot[T], texts []string,
	hidden func(any) bool) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for key := range k.index.KeysIn(snap) {
			text := textOf(key)
			if _, found := slices.BinarySearch(texts, text); !found {
				continue
			}
			n := 0
			for obj := range k.index.LookupIn(snap, key) {
				if hidden(obj) {
					continue
				}
				if n++; n > maxCount || ctx.Err() != nil {
					break
				}
			}
			if ctx.Err() != nil || !yield(text, n) {
				return
			}
		}
	}
}

func (k keyed[T, K]) lookup(snap *informer.Snapshot[T], text string) iter.Seq[T] {
	return func(yield func(T) bool) {
		var keys []K
		for key := range k.index.KeysIn(snap) {
			if textOf(key) == text {
				keys = append(keys, key)
			}
		}
		if len(keys) == 1 { // almost always
			k.index.LookupIn(snap, keys[0])(yield)
			return
		}
		found := map[informer.Key]T{}
		for _, key := range keys {
			for obj := range k.index.LookupIn(snap, key) {
				found[informer.KeyOf(obj)] = obj
			}
		}
		for _, key := range slices.SortedFunc(maps.Keys(found), compareKeys) {
			if !yield(found[key]) {
				return
			}
		}
	}
}

// textOf returns the text of a key of an index. A long one ends with a hash, which keeps it apart from others.
func textOf(key any) string {
	text := strings.ToValidUTF8(fmt.Sprint(key), "\uFFFD")
	if len(text) <= maxText {
		return text
	}
	return fmt.Sprintf("%s… (%x)", strings.ToValidUTF8(text[:maxText], ""), sha256.Sum256([]byte(text)))
}

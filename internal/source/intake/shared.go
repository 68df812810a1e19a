package intake

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/object"
)

const (
	maxShared   = 1000 // keys
	maxReplaced = 8    // other objects of one key
	maxReported = 100  // keys that are reported each for itself, between two lists
)

// sharedKeys notices keys that the server gives to several objects at once, as a proxy of several clusters can. Each
// such key keeps one object: the one that the store has. The others are ignored until the server deletes that one, or a
// list lacks it. After a deletion, another one takes its place: sharedKeys holds the latest state of each.
//
// In a list, an object is such if another one has its key and another UID. In a watch, an object that replaces another
// one of its key is usually a new one, after a deletion that may have been missed. It shares the key if the other one
// comes back: nobody uses a UID again. So sharedKeys remembers UIDs that were replaced.
//
// It is for one goroutine at a time, except count.
type sharedKeys[T object.Object] struct {
	keys  map[object.Key]*sharedKey[T]
	told  int          // reports since the last list
	count atomic.Int64 // of shared keys
}

// sharedKey is a key that has had several objects.
type sharedKey[T object.Object] struct {
	kept   types.UID
	others []rival[T] // the oldest first
	shared bool       // the server has one of these, too
}

// rival is an object whose key keeps another one.
type rival[T object.Object] struct {
	uid types.UID
	// latest is the latest state. It is nil if the server may lack the object, which has been replaced, and if the store
	// does not want it.
	latest *Result[T]
}

// share sets r.Ignored, for a change in a watch: the store gets nothing of it, since it has another object of the key,
// which the server has, too. If the change is that the store loses its object, share returns the one that takes its
// place, or nil. other is the UID of the object that was held when the change came, if it differs.
func (d *Decoder[T]) share(r *Result[T], other types.UID) (next *Result[T]) {
	s, uid := &d.shared, types.UID(r.UID)
	if other == "" && len(s.keys) == 0 || uid == "" || r.Key.Name == "" {
		return nil
	}
	k, gone := s.keys[r.Key], r.Deleted || r.Filtered
	unseen := gone || r.Err != nil // the store does not get the object
	switch {
	case k == nil && (other == "" || unseen):
		return nil
	case k == nil:
		s.note(r.Key, &sharedKey[T]{kept: uid, others: []rival[T]{{uid: other}}})
		return nil
	case uid == k.kept && gone:
		return s.succeed(r.Key, k, r.Deleted)
	case uid == k.kept:
		return nil
	}
	index := slices.IndexFunc(k.others, func(o rival[T]) bool { return o.uid == uid })
	switch {
	case index < 0 && unseen:
		r.Ignored = k.shared
		return nil
	case index < 0:
		k.others = append(k.others[max(0, len(k.others)+1-maxReplaced):], rival[T]{uid: k.kept})
		k.kept = uid
		return nil
	case r.Deleted:
		if k.others = slices.Delete(k.others, index, index+1); len(k.others) == 0 {
			s.forget(r.Key)
		}
	case r.Filtered:
		k.others[index].latest = nil
	default:
		latest := *r
		if k.others[index].latest = &latest; !k.shared {
			k.shared = true
			s.count.Add(1)
			if s.told++; s.told <= maxReported {
				d.ReportShared(sharedError(r.Key, k.kept, uid))
			}
		}
	}
	r.Ignored = true
	return nil
}

// succeed returns the object that takes the place of the one that k keeps: of those that the server has, the one with
// the lowest UID. The store loses the kept one, because the server has deleted it or the store does not want it.
func (s *sharedKeys[T]) succeed(key object.Key, k *sharedKey[T], deleted bool) (next *Result[T]) {
	index := -1
	for i, o := range k.others {
		if o.latest != nil && (index < 0 || o.uid < k.others[index].uid) {
			index = i
		}
	}
	if index < 0 {
		s.forget(key)
		return nil
	}
	gone, heir := k.kept, k.others[index]
	k.kept, k.others = heir.uid, slices.Delete(k.others, index, index+1)
	heir.latest.Succeeds = true
	switch {
	case !deleted:
		k.others = append(k.others, rival[T]{uid: gone})
	case len(k.others) == 0:
		s.forget(key)
	}
	return heir.latest
}

// note adds a key. While there are too many, it forgets one of those that are not shared, if it finds one soon.
func (s *sharedKeys[T]) note(key object.Key, k *sharedKey[T]) {
	if s.keys == nil {
		s.keys = map[object.Key]*sharedKey[T]{}
	}
	if len(s.keys) >= maxShared {
		tries := 0
		for other, was := range s.keys {
			if !was.shared {
				delete(s.keys, other)
				break
			}
			if tries++; tries == maxReplaced {
				return
			}
		}
	}
	s.keys[key] = k
}

func (s *sharedKeys[T]) forget(key object.Key) {
	if s.keys[key].shared {
		s.count.Add(-1)
	}
	delete(s.keys, key)
}

// sharedError says that the server has two objects with one key. The store keeps a.
func sharedError(key object.Key, a, b types.UID) error {
	return fmt.Errorf("the server has two objects %.600s, with the UIDs %.100q and %.100q: "+
		"the store keeps the first one, and ignores the other", key, a, b)
}

// listed returns the items of a list without those that share the key of another one: of these, the one that the store
// has stays, or else the one with the lowest UID.
func (d *Decoder[T]) listed(items []T) []T {
	s := &d.shared
	was := s.keys
	s.keys, s.told = nil, 0
	var all map[object.Key][]T // of each key with several UIDs
	if !ascending(items) {
		all = sharing(items)
	}
	s.count.Store(int64(len(all)))
	if len(all) == 0 {
		return items
	}
	kept, news := map[object.Key]types.UID{}, 0
	var first error
	for key, objects := range all {
		k := choose(objects, key, d.Held)
		kept[key] = k.kept
		if before := was[key]; before == nil || !before.shared {
			if news++; first == nil {
				first = sharedError(key, k.kept, k.others[0].uid)
			}
		}
		if len(s.keys) < maxShared {
			s.note(key, k)
		}
	}
	if news > 0 {
		if news > 1 {
			first = fmt.Errorf("%w; %d more keys are like that", first, news-1)
		}
		d.ReportShared(first)
	}
	return slices.DeleteFunc(slices.Clone(items), func(obj T) bool {
		uid, shared := kept[object.KeyOf(obj)]
		return shared && obj.GetUID() != uid
	})
}

// choose returns the key of objects with different UIDs. If several have one UID, the last one counts.
func choose[T object.Object](objects []T, key object.Key, held func(object.Key) (T, bool)) *sharedKey[T] {
	byUID := map[types.UID]T{}
	for _, obj := range objects {
		byUID[obj.GetUID()] = obj
	}
	uids := slices.Sorted(maps.Keys(byUID))
	k := &sharedKey[T]{kept: uids[0], shared: true}
	if held != nil {
		if obj, ok := held(key); ok && slices.Contains(uids, obj.GetUID()) {
			k.kept = obj.GetUID()
		}
	}
	for _, uid := range uids {
		if obj := byUID[uid]; uid != k.kept && len(k.others) < maxReplaced {
			latest := &Result[T]{Object: obj, Key: key, UID: string(uid), Version: obj.GetResourceVersion()}
			k.others = append(k.others, rival[T]{uid, latest})
		}
	}
	return k
}

// ascending reports whether the keys of items ascend, in the order of the keys in etcd, so that none is there twice.
// kube-apiserver sends them so.
func ascending[T object.Object](items []T) bool {
	for i := 1; i < len(items); i++ {
		a, b := object.KeyOf(items[i-1]), object.KeyOf(items[i])
		if a.Namespace == b.Namespace && a.Name < b.Name || precedes(a.Namespace, b.Namespace) {
			continue
		}
		return false
	}
	return true
}

// precedes reports whether a, with a slash behind it, is less than b with one.
func precedes(a, b string) bool {
	n := min(len(a), len(b))
	switch {
	case a[:n] != b[:n]:
		return a < b
	case len(a) < len(b):
		return '/' < b[n]
	}
	return len(a) > n && a[n] < '/'
}

// sharing returns the objects of each key that has objects with different UIDs.
func sharing[T object.Object](items []T) (shared map[object.Key][]T) {
	last := make(map[object.Key]int, len(items))
	for i, obj := range items {
		key := object.KeyOf(obj)
		before, again := last[key]
		last[key] = i
		if !again {
			continue
		}
		if _, known := shared[key]; known || items[before].GetUID() != obj.GetUID() {
			if shared == nil {
				shared = map[object.Key][]T{}
			}
			if !known {
				shared[key] = []T{items[before]}
			}
			shared[key] = append(shared[key], obj)
		}
	}
	return shared
}

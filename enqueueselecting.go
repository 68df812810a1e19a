package informer

import "k8s.io/apimachinery/pkg/labels"

// EnqueueSelecting is like [EnqueueObject], but adds the keys of the objects that select the object by its labels: for
// an event of a pod, the services that match it. For an update, it adds those that match the old or the new state, so a
// service that has lost a pod is reconciled too.
//
// The selecting objects are those of the current state of index. Watch them as well, with EnqueueObject, so that a
// change of a selector is not missed:
//
//	ctl.Watch(informer.EnqueueObject(services))
//	ctl.Watch(informer.EnqueueSelecting(pods, selectors))
func EnqueueSelecting[T Labeled, S Object](i *Informer[T], index *SelectorIndex[S],
	predicates ...Predicate[T]) Source[Key] {
	return Enqueue(i, selectingKeys[T](index), predicates...)
}

// selectingKeys returns a function that returns the keys of the objects of index that select an object.
func selectingKeys[T Labeled, S Object](index *SelectorIndex[S]) func(obj T) []Key {
	return func(obj T) (keys []Key) {
		for selecting := range index.Matching(obj.GetNamespace(), obj.GetLabels()) {
			keys = append(keys, KeyOf(selecting))
		}
		return keys
	}
}

// EnqueueSelected is like [EnqueueObject], but adds the keys of the objects that the object selects: for an event of a
// service, its pods. For an update, it adds those that match the old or the new selector. It is for a controller of the
// selected objects, which may also need EnqueueObject for them.
//
// It finds the selected objects in the current state of in: with a selector of one namespace, it checks the labels of
// each object there, otherwise those of all objects.
func EnqueueSelected[S Object, T Labeled](i *Informer[S], index *SelectorIndex[S], in Indexable[T],
	predicates ...Predicate[S]) Source[Key] {
	return Enqueue(i, selectedKeys(index, in), predicates...)
}

// selectedKeys returns a function that returns the keys of the objects in a store that an object of index selects.
func selectedKeys[S Object, T Labeled](index *SelectorIndex[S], in Indexable[T]) func(obj S) []Key {
	return func(obj S) (keys []Key) {
		namespace, selector := index.selects(obj)
		if selector == nil {
			return nil
		}
		snap := in.indexed().Snapshot()
		objects := snap.All()
		if namespace != "" {
			objects = snap.Namespace(namespace)
		}
		for candidate := range objects {
			if selector.Matches(labels.Set(candidate.GetLabels())) {
				keys = append(keys, KeyOf(candidate))
			}
		}
		return keys
	}
}

package queue

import "slices"

// Union returns the keys of the old and of the new state of an object, each once, so that the caller can add them
// together. Otherwise, a worker could take a key before the same key is added again, and reconcile it twice. Union does
// not modify its arguments, and may return new.
func Union[K comparable](old, new []K) []K {
	if slices.Equal(old, new) {
		old = nil
	}
	if len(old) == 0 && isSet(new) {
		return new
	}
	seen := make(map[K]struct{}, len(old)+len(new))
	var keys []K
	for _, some := range [][]K{old, new} {
		for _, key := range some {
			if _, ok := seen[key]; !ok {
				seen[key] = struct{}{}
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// isSet reports whether keys are few, as they nearly always are, and differ.
func isSet[K comparable](keys []K) bool {
	const few = 8
	for i, key := range keys {
		if i == few || slices.Contains(keys[:i], key) {
			return false
		}
	}
	return true
}

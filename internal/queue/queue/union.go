package queue

import "slices"

// Union returns the keys of the old and of the new state of an object, each once, so that the caller can add them
// together. Otherwise, a worker could take a key of the old state before the same key is added for the new one, and
// reconcile it twice. It does not modify its arguments, and may return one of them.
func Union[K comparable](old, new []K) []K {
	if len(old) == 0 || slices.Equal(old, new) {
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

package readthrough

import "github.com/typedinformer/informer/internal/ondemand"

// ErrStale indicates that the server sent an object that is older than its metadata in the store, even if it was asked
// for the latest version: it may have been restored from a backup.
var ErrStale = ondemand.ErrStale

// CacheStatus is the status of the whole objects of an [Informer], since New.
type CacheStatus struct {
	// Kept is the number of objects that Config.KeepLabelSelector and KeepFieldSelector name.
	Kept int
	// Held is the number of other whole objects that the informer holds now, and Bytes their memory.
	Held  int
	Bytes int64
	// Hits counts the reads of held objects.
	Hits uint64
	// Requests counts the requests for single objects, and Shared the reads that waited for one that another read had
	// sent. Failures counts the requests that failed. That an object does not exist is no failure.
	Requests, Shared, Failures uint64
	// Changed, Evicted and Idled count the objects that were dropped because their metadata changed, because others
	// needed the room, and because nobody had read them for MaxIdle.
	Changed, Evicted, Idled uint64
}

// CacheStatus returns the present status of the whole objects.
func (i *Informer[T]) CacheStatus() CacheStatus {
	if i.invalid != nil {
		return CacheStatus{}
	}
	s := i.reader.Status()
	status := CacheStatus{
		Held:     s.Held,
		Bytes:    s.Bytes,
		Hits:     s.Hits,
		Requests: s.Requests,
		Shared:   s.Shared,
		Failures: s.Failures,
		Changed:  s.Changed,
		Evicted:  s.Evicted,
		Idled:    s.Idled,
	}
	if i.kept != nil {
		status.Kept = i.kept.Store().Len()
	}
	return status
}

package status

// ReadThrough is the status of the whole objects of a readthrough.Informer, since New.
type ReadThrough struct {
	// Kept is the number of objects that readthrough.Config.KeepLabelSelector and KeepFieldSelector name.
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

package status

import "time"

// Durable is the status of the state of a durable subscription; see informer.DurableConfig.
type Durable struct {
	// Continues is true once the subscription has compared the store with a saved state, and false at a first start.
	Continues bool
	// LoadedKeys is the number of keys in that state, and LoadedAge its age at the start. LoadTime is the time that it
	// took to read and compare it, without the wait for the server. Differences is the number of
	// objects in it that the store has not, or in another version.
	LoadedKeys  int
	LoadedAge   time.Duration
	LoadTime    time.Duration
	Differences int
	// Acknowledged is the number of objects that the handler has received and that are not deleted.
	Acknowledged int
	// Unknown is the number of acknowledged objects that the store lacks although they may exist: they could not be
	// decoded, the server refuses their selection, or the resource has been absent, or the store without a version, for
	// less than a minute.
	Unknown int
	// Saves counts the saves of this process. SavedAt is the time of the last one, SavedBytes the number of bytes that it
	// has written, and SaveTime the time that it took. StoredBytes is the number of bytes of the state in the storage.
	Saves       int
	SavedAt     time.Time
	SavedBytes  int64
	SaveTime    time.Duration
	StoredBytes int64
	// SaveError is why the latest save failed. The next one follows after the interval. Nil means that it did not fail.
	SaveError error `json:"-"`
}

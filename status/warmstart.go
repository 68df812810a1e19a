package status

import "time"

// WarmStart is the status of the saved states of a reflector; see informer.WarmStartConfig.
type WarmStart struct {
	// Loaded is true if the store began with the objects of a saved state.
	Loaded bool
	// LoadedObjects, LoadedVersion and LoadedAge are the number of objects in that saved state, its resource version, and
	// its age at the start. LoadTime is the time that reading it took.
	LoadedObjects int
	LoadedVersion string
	LoadedAge     time.Duration
	LoadTime      time.Duration
	// CatchUpTo is the resource version that the server had at the start. It is empty once the sink has reached it.
	CatchUpTo string
	// LoadError is why the reflector listed at the start. It wraps [os.ErrNotExist] if there was no saved state. Nil means
	// that it resumed, or has not tried yet.
	LoadError error `json:"-"`
	// Saves counts the saves of this process.
	Saves int
	// SavedAt is the time of the last save. The other fields are the number of objects in that saved state, its resource
	// version, the number of bytes written, and the time that it took.
	SavedAt      time.Time
	SavedObjects int
	SavedVersion string
	SavedBytes   int64
	SaveTime     time.Duration
	// SaveError is why the latest save failed. Nil means that it did not.
	SaveError error `json:"-"`
}

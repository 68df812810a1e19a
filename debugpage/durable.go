package debugpage

import (
	"time"

	"github.com/typedinformer/informer/status"
)

// Durable is the state of a durable subscription; see [informer.DurableConfig].
type Durable struct {
	// Continues says that the subscription has compared the store with a saved state of LoadedKeys, which was
	// LoadedAgeSeconds old: Differences of its objects were gone or had changed.
	Continues        bool    `json:"continues"`
	LoadedKeys       int     `json:"loadedKeys"`
	LoadedAgeSeconds float64 `json:"loadedAgeSeconds"`
	LoadSeconds      float64 `json:"loadSeconds"`
	Differences      int     `json:"differences"`
	// Acknowledged is the number of objects that the handler has. The store lacks Unknown of them, although they may exist.
	Acknowledged int `json:"acknowledged"`
	Unknown      int `json:"unknown"`
	// Saves counts the saves. The last one has written SavedBytes, and took SaveSeconds. The storage has StoredBytes.
	Saves       int       `json:"saves"`
	SavedAt     time.Time `json:"savedAt,omitzero"`
	SavedBytes  int64     `json:"savedBytes"`
	SaveSeconds float64   `json:"saveSeconds"`
	StoredBytes int64     `json:"storedBytes"`
	// SaveFailed says that the latest save failed. Only authorized callers receive SaveFailure, the text of the error.
	SaveFailed  bool   `json:"saveFailed"`
	SaveFailure string `json:"saveFailure,omitempty"`
}

// durable returns nil if s is nil.
func (b *builder) durable(s *status.Durable) *Durable {
	if s == nil {
		return nil
	}
	return &Durable{
		Continues:        s.Continues,
		LoadedKeys:       s.LoadedKeys,
		LoadedAgeSeconds: s.LoadedAge.Seconds(),
		LoadSeconds:      s.LoadTime.Seconds(),
		Differences:      s.Differences,
		Acknowledged:     s.Acknowledged,
		Unknown:          s.Unknown,
		Saves:            s.Saves,
		SavedAt:          s.SavedAt,
		SavedBytes:       s.SavedBytes,
		SaveSeconds:      s.SaveTime.Seconds(),
		StoredBytes:      s.StoredBytes,
		SaveFailed:       s.SaveError != nil,
		SaveFailure:      b.text(s.SaveError),
	}
}

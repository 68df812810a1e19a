package readthrough

import (
	"github.com/typedinformer/informer/internal/ondemand"
	"github.com/typedinformer/informer/status"
)

// ErrStale indicates that the server sent an object that is older than its metadata in the store, even if it was asked
// for the latest version: it may have been restored from a backup.
var ErrStale = ondemand.ErrStale

// CacheStatus returns the present status of the whole objects.
func (i *Informer[T]) CacheStatus() status.ReadThrough {
	if i.invalid != nil {
		return status.ReadThrough{}
	}
	s := i.reader.Status()
	if i.kept != nil {
		s.Kept = i.kept.Store().Len()
	}
	return s
}

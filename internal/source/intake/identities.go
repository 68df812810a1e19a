package intake

import (
	"fmt"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/fetch"
)

// Identities reads the identity of each object of a list that a [Decoder] would decode, and decodes no more of it than
// Filter needs. It implements fetch.Collector. [Decoder.Identities] returns one.
type Identities[T object.Object] struct {
	decoder *Decoder[T]
	asked   Asked
	yield   func(key object.Key, uid, version string)
}

// Identities returns the identities of what was asked. It calls yield for one object after the other. The name of key
// is empty if it could not be decoded.
func (d *Decoder[T]) Identities(asked Asked, yield func(key object.Key, uid, version string)) *Identities[T] {
	return &Identities[T]{d, asked, yield}
}

// Intake implements fetch.Collector.
func (i *Identities[T]) Intake(f decode.Format, _ func(error)) fetch.Intake {
	return &identitiesOf[T]{Identities: i, format: f}
}

// Whole implements fetch.Collector.
func (i *Identities[T]) Whole() bool { return true }

// Reset implements fetch.Collector. A list at exactly one resource version never begins again.
func (i *Identities[T]) Reset() {}

// EndPage implements fetch.Collector.
func (i *Identities[T]) EndPage(*int64) error { return nil }

// identitiesOf is the intake of one response.
type identitiesOf[T object.Object] struct {
	*Identities[T]
	format decode.Format
	err    error
}

// Add implements fetch.Intake.
func (i *identitiesOf[T]) Add(raw []byte, _ bool, list *decode.ListInfo) {
	if i.err != nil {
		return
	}
	i.add(i.format.Peek(raw), func() bool { return i.decoder.Filter == nil || i.decoder.accepts(i.format, raw, list) })
}

// AddLarge implements fetch.Intake. Whether Filter accepts the object is not known.
func (i *identitiesOf[T]) AddLarge(large *decode.LargeError, _ bool) {
	if i.err == nil {
		i.add(large.ID, func() bool { return true })
	}
}

// add calls yield for an object, if it is in the shard and accepted.
func (i *identitiesOf[T]) add(id decode.Identity, accepted func() bool) {
	d, key := i.decoder, keyOf(id)
	switch {
	case d.Namespace != "" && key.Name != "" && key.Namespace != d.Namespace:
		i.err = fmt.Errorf("%w: %.600s instead of one of %.300s", fetch.ErrForeign, key, d.Namespace)
		return
	case !i.asked.Shard.IsWhole() && !i.asked.hasIdentity(id), !accepted():
		return
	}
	i.yield(key, string(id.UID), string(id.ResourceVersion))
}

// knows reports whether id has what determines whether the object is in the shard.
func (a *Asked) knows(id decode.Identity) bool {
	if a.Shard.Field == shardset.ByNamespace {
		return id.Namespace != nil
	}
	return id.UID != nil
}

// hasIdentity reports whether the object with that identity is in the shard.
func (a *Asked) hasIdentity(id decode.Identity) bool {
	if a.Shard.Field == shardset.ByNamespace {
		return a.Shard.HasHash(shardset.Hash(id.Namespace))
	}
	return a.Shard.HasHash(shardset.Hash(id.UID))
}

// AddValue implements fetch.Intake. No source of Go values lists at exactly one resource version.
func (i *identitiesOf[T]) AddValue(any, bool) {}

// Fill implements fetch.Intake.
func (i *identitiesOf[T]) Fill(body interface{ Fill() error }) error {
	if i.err != nil {
		return i.err
	}
	return body.Fill()
}

// Wait implements fetch.Intake.
func (i *identitiesOf[T]) Wait() error { return i.err }

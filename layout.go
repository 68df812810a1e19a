package informer

import (
	"fmt"

	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/store/pack"
)

// Layout selects how an informer holds objects in memory.
type Layout uint8

// The layouts.
const (
	// LayoutShared makes different objects share equal parts: two slices, maps or pointers decoded from the same bytes
	// are one. Pods of one Deployment then share most of their spec, which can halve their memory, and shared parts are
	// not decoded.
	//
	// Cached objects must never be written to: code that writes to one object changes others too. In tests,
	// informertest.DetectMutations finds such code. In production, the informer decodes one reuse in about a thousand
	// once more, reports a part that the program has modified, and takes the right one; see Modified of
	// [status.ReflectorTraffic].
	//
	// Transform may write to the object that it receives. So with Transform, the informer decodes a new object twice, and
	// sets fields of the object that Transform returns to equal values of the second copy or of the previous version.
	// Transform must therefore not pass its result to anybody else. The informer does not write through pointers, maps or
	// slices of the result.
	LayoutShared Layout = iota
	// LayoutSeparate gives each object memory of its own, but for strings, and for parts that did not change since its
	// previous version; with Transform, but for strings. Code that writes to one object changes no other object.
	LayoutSeparate
	// LayoutCompact holds objects as the server sent them, compressed, and decodes them when they are read. A pod then
	// takes a tenth of the memory that it takes in client-go. Incompressible data, such as most secrets, saves nothing. A
	// read takes microseconds. While a caller holds the object that [Store.Get] returned, other readers get the same one.
	// Iterators decode one object after the other, so reading the whole collection takes little memory. Keys, label
	// selectors of a [Lister] and lookups in an [Index] decode only the objects that they return. A handler receives
	// decoded objects; see SubscriptionConfig.NewOnly. [EnqueueObject] without predicates decodes none.
	//
	// The informer still calls an index function once for each version. With Transform, the informer encodes the result
	// of Transform and holds that, so fields that Transform drops take no memory. If the encoding loses a field, the
	// informer holds the decoded object. T must decode the same bytes to the same object each time. If a type's own
	// UnmarshalJSON fails for an object of the store, the informer logs that. Until the next version of the object,
	// readers then leave it out, and [Store.Undecodable] says why. A handler receives no addition or update for that
	// version; as the old or last version, it receives an object with only namespace, name, uid and resourceVersion.
	// OnDecodeError is not called, so that readers do not wait for it. A [Reflector] cannot have this layout.
	LayoutCompact
)

// String returns the name of l without "Layout", such as "Shared".
func (l Layout) String() string {
	switch l {
	case LayoutShared:
		return "Shared"
	case LayoutSeparate:
		return "Separate"
	case LayoutCompact:
		return "Compact"
	}
	return fmt.Sprintf("Layout(%d)", uint8(l))
}

// validate returns an error for a value that is no layout.
func (l Layout) validate() error {
	if l > LayoutCompact {
		return fmt.Errorf("Config.Layout is %d: it must be LayoutShared, LayoutSeparate or LayoutCompact", uint8(l))
	}
	return nil
}

// Parts lets several informers share memory: those of several clusters that run the same programs, or those of several
// kinds. Give all of them the same Parts.
//
// With [LayoutShared], objects of different informers share equal parts, as otherwise those of one informer do. The
// containers of a Deployment are then also those of its ReplicaSets. A new version of an object shares its changed
// parts, too. With [LayoutCompact], informers of one resource and type share the dictionaries of the compression. With
// every layout they share the memory with which they decode, a few hundred kilobytes for each type. Objects of types
// that share no parts, such as *unstructured.Unstructured, share only that.
//
// Parts keeps no part of an object alive: each is freed with the last object that has it. The table that finds parts
// takes up to 17 MB. The search costs some time for each new object, and saves the time to decode what it finds.
//
// If a program modifies a shared part, objects of several informers change. The informer that finds out reports it, and
// all of them take the right part from then on; see [LayoutShared].
//
// The zero value is ready for use, by any number of informers at once. It must not be copied after first use.
type Parts struct {
	decode  decode.Parts
	packers pack.Packers
}

// decoders returns what decoders share, or nil if p is nil.
func (p *Parts) decoders() *decode.Parts {
	if p == nil {
		return nil
	}
	return &p.decode
}

// packer returns what packers of one kind of objects share, or nil if p is nil.
func (p *Parts) packer(kind string) *pack.Packer {
	if p == nil {
		return nil
	}
	return p.packers.Of(kind)
}

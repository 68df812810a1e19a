package informer

import (
	"cmp"
	"math"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/heapsize"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/budget"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/internal/store/compact"
)

// Layouts measures how much memory objects take as Decoder makes them, and how much they would take in other layouts.
type Layouts[T object.Object] struct{ Decoder *intake.Decoder[T] }

// Hardly any object of a large collection has a neighbor in the dictionary of packed objects, so the dictionary is made
// of so many objects between two runs of the sample.
const perGap = 5

// Measure returns the mean sizes of objects. There must be at least one. Measure takes some tens of milliseconds.
func (l Layouts[T]) Measure(objects []T) (s budget.Sizes) {
	var set heapsize.Set
	own := sample(objects)
	for _, obj := range own {
		l.Decoder.Packing.Measure(obj, &set)
	}
	s.Own = float64(set.Bytes())/float64(len(own)) + heapsize.OverheadStore
	defer func() { _ = recover() }() // nothing else calls the encoder of the program's type
	l.others(objects, &s)
	return s
}

// others sets the sizes in other layouts, as far as objects can be encoded.
func (l Layouts[T]) others(objects []T, s *budget.Sizes) {
	measured := l.encoded(sample(objects))
	if len(measured) == 0 {
		return
	}
	d, t := l.Decoder, l.Decoder.Packing.Type()
	s.Compact = compact.MeanSize(t, l.encoded(between(objects)), measured)
	if _, packed := any(*new(T)).(*compact.Object); packed {
		s.Own, s.Compact = cmp.Or(s.Compact, s.Own), 0 // the first objects are packed again later
	} else if d.Transform == nil {
		s.Shared = decodedSize(d.Pool, measured)
		if d.Share && s.Shared > 0 { // the first objects share less than others
			s.Own, s.Shared = min(s.Own, s.Shared), 0
		}
	}
	if t != reflect.TypeFor[*metav1.PartialObjectMetadata]() {
		s.Metadata = decodedSize(d.Metadata, measured)
	}
}

// rounds is how often a sample is decoded, since a decoder learns: how many strings it has to remember, and which
// fields are worth the search for a value to share. A whole collection teaches it more in one round than a sample does.
const rounds = 6

// decodedSize returns the mean size of objects that pool decodes with shared parts, or 0 if that fails.
func decodedSize(pool *decode.Pool, objects []compact.Sample) float64 {
	decoder := pool.Get()
	defer pool.Put(decoder)
	least := math.MaxInt // the garbage collector may take from a decoder what it has learned
	for range rounds {
		var set heapsize.Set
		for _, o := range objects {
			obj, err := decoder.Decode(o.Format, o.Raw, decode.Origin{List: o.List, Share: true})
			if err != nil {
				return 0
			}
			set.Add(obj)
		}
		least = min(least, set.Bytes())
	}
	return float64(least)/float64(len(objects)) + heapsize.OverheadStore
}

// encoded returns objects in encoded form. It leaves out those that cannot be encoded.
func (l Layouts[T]) encoded(objects []T) (all []compact.Sample) {
	d := l.Decoder
	protobuf := strings.Contains(d.Pool.Accept(), decode.MediaProtobuf)
	for _, obj := range objects {
		whole := d.Packing.Whole(obj)
		e, ok, err := d.Packing.Encoded(obj, nil)
		if !ok && err == nil {
			e.Format, e.Raw, err = decode.Encode(whole, protobuf && d.Pool.Marshals(whole), nil)
		}
		if err == nil && whole != nil {
			all = append(all, compact.Sample{Object: whole, Encoded: e})
		}
	}
	return all
}

// sample returns the objects that are measured.
func sample[T any](objects []T) (all []T) {
	for _, i := range heapsize.Sample(len(objects)) {
		all = append(all, objects[i])
	}
	return all
}

// between returns objects from the middle between the runs of the sample.
func between[T any](objects []T) (all []T) {
	gap := float64(len(objects)-heapsize.RunLength) / (heapsize.Runs - 1) // from a run to the next one
	for i := range heapsize.Runs - 1 {
		for j := range perGap {
			part := 0.25 + 0.5*float64(j)/perGap // of the gap
			all = append(all, objects[max(0, int(gap*(float64(i)+part)))])
		}
	}
	return all
}

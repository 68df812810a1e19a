package compact

import (
	"reflect"

	"github.com/typedinformer/informer/internal/heapsize"
	"github.com/typedinformer/informer/internal/source/decode"
)

// Sample is an object that stands for others of its collection.
type Sample struct {
	Object any // decoded
	decode.Encoded
}

// MeanSize returns the mean memory that objects of type t would take in packed form. It packs objects with a dictionary
// of known, which are others of the same collection. It returns 0 if that fails.
func MeanSize(t reflect.Type, known, objects []Sample) float64 {
	k, err := NewPacker(t, true, nil, nil) // what is to be dropped is no longer in the samples
	if err != nil || len(objects) == 0 {
		return 0
	}
	values := make([][]byte, len(known))
	for i := range known {
		values[i] = known[i].Raw
	}
	k.bytes.Learn(values)
	var set heapsize.Set
	for i := range objects {
		s := &objects[i]
		k.Measure(k.PackBytes(s.Object, s.Format, s.Raw, s.List, nil), &set)
	}
	const rounded = 17. / 16 // by the size classes of allocations
	return float64(set.Bytes())*rounded/float64(len(objects)) + heapsize.OverheadStore
}

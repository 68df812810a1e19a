package decode

import (
	"reflect"
	"unsafe"

	"k8s.io/apimachinery/pkg/types"
)

// The version before of an object is seldom in the processor's cache: 30,000 pods take 225 MB. The decoders compare
// with it string by string and slice by slice, and would wait for memory at each. A processor loads ahead only a little
// way.
//
// So this file reads that memory before the decoders need it, in waves: first the object, then what its fields refer
// to, then what that refers to. The loads of one wave do not depend on each other, so the processor waits for them at
// the same time. Their results are of no interest: the decoders then find the memory in the cache.

const (
	lineBytes = 64 // of a line of the cache
	// At most maxRefs references of a struct are read ahead, and maxAhead elements of a slice.
	maxRefs, maxAhead = 64, 16
	// aheadDepth is how many references are followed from a field of an object: to the statuses of the containers, and to
	// their strings.
	aheadDepth = 2
)

// ahead describes what values of one type refer to.
type ahead struct {
	size uintptr // of a value
	refs []ref
}

// ref is a string, a slice, a pointer or a map in a value.
type ref struct {
	offset uintptr
	kind   reflect.Kind
	to     *ahead // of the elements of the slice, or of the value behind the pointer
}

// newAhead returns what a t refers to, down to a depth of references.
func newAhead(t reflect.Type, depth int) *ahead {
	a := &ahead{size: t.Size()}
	a.add(t, 0, depth)
	return a
}

// add adds the references of the t at offset.
func (a *ahead) add(t reflect.Type, offset uintptr, depth int) {
	r := ref{offset: offset, kind: t.Kind()}
	switch {
	case depth == 0 || len(a.refs) == maxRefs || t == timeType: // times are not compared
		return
	case r.kind == reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			a.add(f.Type, offset+f.Offset, depth)
		}
		return
	case r.kind == reflect.Slice || r.kind == reflect.Pointer:
		r.to = newAhead(t.Elem(), depth-1)
	case r.kind == reflect.String && (t.PkgPath() == "" || t == reflect.TypeFor[types.UID]()): // others have few values
	case t == stringMapType:
	default:
		return
	}
	a.refs = append(a.refs, r)
}

// readLines reads the lines of the size bytes at p. The result is of no interest, as for the other functions that read
// ahead: it keeps the compiler from removing the reads.
func readLines(p unsafe.Pointer, size uintptr) (sum byte) {
	for offset := uintptr(0); offset < size; offset += lineBytes {
		sum += *(*byte)(unsafe.Add(p, offset))
	}
	return sum
}

// read reads the values that the value at p refers to, if depth is 1, and otherwise what is depth references away.
func (a *ahead) read(p unsafe.Pointer, depth int) (sum byte) {
	for i := range a.refs {
		r := &a.refs[i]
		address := unsafe.Add(p, r.offset)
		if depth > 1 {
			if r.to == nil || len(r.to.refs) == 0 {
				continue
			}
			to := *(*unsafe.Pointer)(address)
			n := 1
			if r.kind == reflect.Slice {
				n = min((*words)(address).len, maxAhead)
			} else if to == nil {
				continue
			}
			for i := range n {
				sum += r.to.read(unsafe.Add(to, uintptr(i)*r.to.size), depth-1)
			}
			continue
		}
		switch r.kind {
		case reflect.String:
			if s := *(*string)(address); s != "" {
				sum += s[0] + s[len(s)-1]
			}
		case reflect.Slice:
			w := (*words)(address)
			sum += readLines(w.data, uintptr(min(w.len, maxAhead))*r.to.size)
		case reflect.Pointer:
			if to := *(*unsafe.Pointer)(address); to != nil {
				sum += readLines(to, r.to.size)
			}
		case reflect.Map:
			sum += byte(len((*(*map[string]string)(address))[""]))
		}
	}
	return sum
}

// aheadOf reads what the value at p, a field of the previous version, refers to.
func (r *reuse) aheadOf(a *ahead, p unsafe.Pointer) {
	for depth := 1; depth <= aheadDepth; depth++ {
		r.sum += a.read(p, depth)
	}
}

// begin reads the previous version, and what its metadata refers to. The parts follow when they turn out to be changed.
func (r *reuse) begin(old unsafe.Pointer) {
	r.cold = old
	r.sum += readLines(old, r.memory.Size())
	if r.metadata != nil {
		r.aheadOf(r.metadata, unsafe.Add(old, r.metadataAt))
	}
}

// changed reads what a part of the previous version refers to. It does nothing if the previous version is likely to be
// in the cache.
func (r *reuse) changed(part int) {
	if r.cold != nil && part < len(r.behind) { // an unstructured object has no fields
		r.aheadOf(r.behind[part], unsafe.Add(r.cold, r.parts[part]))
	}
}

// recent remembers the objects that a decoder made last. Their memory is likely to be in the cache still, so that
// reading ahead would only take time: 5% of an update, for a collection of 30 pods. It keeps no object alive. An object
// whose place another one took, or one at the address of a freed one, is read ahead in vain or not at all, which does
// no harm.
type recent [256]uintptr

// place returns the place of the object at p.
func (r *recent) place(p unsafe.Pointer) *uintptr {
	return &r[uint64(uintptr(p))*0x9e3779b97f4a7c15>>56]
}

func (r *recent) add(p unsafe.Pointer) { *r.place(p) = uintptr(p) }

func (r *recent) has(p unsafe.Pointer) bool { return *r.place(p) == uintptr(p) }

package decode

import (
	"bytes"
	"reflect"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/source/decode/proto"
)

// protobufDecoder decodes the protobuf that API servers write. It reads the fields of a message from their protobuf
// tags. Unlike the generated code, it allocates each slice and map once, in its final size, and stores equal strings
// once. It rejects unusual input; the generated code then decodes the object from its beginning. So protobufDecoder
// must never accept input that the generated code rejects or decodes differently.
//
// It is not safe for concurrent use.
type protobufDecoder struct {
	plans             plans
	strings           *interner
	keepManagedFields bool

	shared *sharer // nil if the object shares with no others
	reuse  reuse
	limit  budget // maxDecoded, or less in tests
	left   budget // of the object's memory
	// inMetadata is true while the object's own metadata is decoded.
	inMetadata bool
	managed    span     // the fields managedFields in the object's own metadata, if they are dropped
	found      *Checked // what check finds; nil for decode
	accepted   accepted
}

func newProtobufDecoder(plans plans, keepManagedFields bool, strings *interner) *protobufDecoder {
	return &protobufDecoder{plans: plans, strings: strings, keepManagedFields: keepManagedFields, limit: maxDecoded}
}

// decode decodes raw into v, which must be zero. old is the previous version, or nil if there is none. If decode
// returns false, the generated code must decode raw; parts of v may then be set.
func (d *protobufDecoder) decode(raw []byte, v reflect.Value, old unsafe.Pointer, reuse reuse,
	shared *sharer) (ok bool, err error) {
	t := d.plans.of(v.Type())
	if t.wire != wireMessage || !d.plans.learnWire(t) {
		return false, nil
	}
	d.shared, d.reuse, d.left, d.managed = shared, reuse, d.limit, span{}
	defer func() { d.shared, d.reuse = nil, d.reuse.ended() }()
	ok = d.message(raw, v.Addr().UnsafePointer(), old, t, 1)
	if d.left < 0 {
		return false, errDecodedTooLarge
	}
	return ok, nil
}

// unknownBytes is the memory that a message of an unknown type may take per encoded byte.
const unknownBytes = 32

// fits reports whether msg, decoded into a t by the generated code, stays within the limit for an object. A malformed
// message fits: the generated code rejects it.
func (d *protobufDecoder) fits(msg []byte, t reflect.Type) bool {
	d.left = d.limit
	d.measure(msg, d.plans.of(t))
	return d.left >= 0
}

// elementBytes are taken from the budget for each element of a repeated field, in addition to its size.
const elementBytes = 16

// measure subtracts from the budget the memory that the generated code needs to decode msg into a t. It subtracts at
// least as much as message does. So if the generated code may decode an object, message may decode the same object
// without managedFields.
func (d *protobufDecoder) measure(msg []byte, t *plan) {
	if t.wire != wireMessage || !d.plans.learnWire(t) {
		d.left.takeEach(len(msg), unknownBytes)
		return
	}
	_ = proto.Fields(msg, func(f proto.Field) bool {
		if f.Number >= len(t.numbers) || t.numbers[f.Number].plan == nil {
			return true
		}
		field := t.numbers[f.Number].plan
		value := field // the type of each value that the field adds
		switch field.wire {
		case wireSlice:
			value = field.elem
			n := 1
			if f.Wire == proto.Bytes && value.wire >= wireBool {
				n = len(f.Bytes) // at most this many packed numbers
			}
			d.left.takeEach(n, max(2*int(value.size), int(value.size)+elementBytes)) // slices grow by doubling
		case wireMap:
			value = field.elem
			d.left.take(2 * (int(value.size) + elementBytes))
		case wirePointer:
			value = field.elem
			d.left.take(int(value.size))
		}
		switch {
		case value.wire != wireMessage && value.wire != wireMethod || f.Wire != proto.Bytes:
		case field.wire != wireMap:
			d.measure(f.Bytes, value)
		default:
			_ = proto.Fields(f.Bytes, func(entry proto.Field) bool {
				if entry.Number == 2 {
					d.measure(entry.Bytes, value)
				}
				return d.left >= 0
			})
		}
		return d.left >= 0
	})
}

// message decodes msg into the t at p. It shares the equal parts of the t at old; old may be nil. It accepts only what
// servers write: fields in the order of their numbers, each once, and the elements of a repeated field together.
//
// A nil p means to decode msg into nothing, here and in all that message calls: see check.
func (d *protobufDecoder) message(msg []byte, p, old unsafe.Pointer, t *plan, depth int) bool {
	if !d.plans.learnWire(t) {
		return depth > 1 && d.left.takeEach(len(msg), unknownBytes) && unmarshal(msg, p, t)
	}
	last := 0
	for i := 0; i < len(msg); {
		from := i
		tag, i1 := proto.Uvarint(msg, i)
		if i = i1; i == 0 {
			return false
		}
		number, wire := proto.Split(tag)
		if number <= 0 {
			return false
		}
		if number >= len(t.numbers) || t.numbers[number].plan == nil {
			if i = proto.Skip(msg, i, wire); i == 0 {
				return false
			}
			continue
		}
		if number <= last {
			return false
		}
		last = number
		known := &t.numbers[number]
		to, was := at(p, known.offset), at(old, known.offset)
		if wire == proto.Varint {
			var value uint64
			if known.plan.wire == wireSlice {
				i = d.numbers(msg, i, tag, to, known.plan)
				d.plans.keep(known.plan, to, was)
			} else if value, i = proto.Uvarint(msg, i); i > 0 && !d.number(value, to, was, known.plan) {
				return false
			}
			if i == 0 {
				return false
			}
			continue
		}
		if wire != proto.Bytes {
			return false
		}
		body, end := proto.Body(msg, i)
		if i = end; i == 0 {
			return false
		}
		if depth == 1 {
			d.inMetadata = number == objectMetadata
		}
		n, part := 1, -1
		if known.plan.wire >= wireSlice {
			for i < len(msg) { // the other elements of the field
				next, offset := proto.Uvarint(msg, i)
				if next != tag || offset == 0 {
					break
				}
				if _, i = proto.Body(msg, offset); i == 0 {
					return false
				}
				n++
			}
			if depth == 2 && d.inMetadata && number == metaManaged && !d.keepManagedFields {
				d.managed = span{from, i}
				continue
			}
			body = msg[from:i]
		}
		if p == nil && depth == 2 && d.inMetadata {
			d.found.note(number, body)
		}
		if depth == 1 {
			part = d.reuse.part(known.offset)
		}
		if part >= 0 {
			if size, cost, ok := d.reuse.unchanged(part, body); ok && size == len(body) {
				if !d.left.take(cost) {
					return false
				}
				known.plan.assign(to, was)
				continue
			}
		}
		left := d.left
		metadata := depth == 1 && d.inMetadata // the only value without its managedFields
		share := !metadata && known.plan.wire >= wirePointer && d.shared.wants(&known.hits, body)
		if share {
			cost, found := d.shared.find(body, known.plan.typ, to)
			if known.hits.note(found); found {
				if !d.left.take(cost) {
					return false
				}
				if part >= 0 {
					d.reuse.note(part, body, left-d.left)
				}
				continue
			}
		}
		if known.plan.wire < wireSlice && !d.single(body, to, was, known.plan, depth) ||
			known.plan.wire >= wireSlice && !d.repeated(body, n, to, was, known.plan, depth) {
			return false
		}
		if part >= 0 {
			d.reuse.note(part, body, left-d.left)
		}
		if share {
			d.shared.put(body, known.plan.typ, to, left-d.left)
		}
	}
	return true
}

// number sets the t at p to value. If t is a pointer, number sets the value that it points to.
func (d *protobufDecoder) number(value uint64, p, old unsafe.Pointer, t *plan) bool {
	if t.wire == wirePointer {
		return d.pointer(p, old, t, func(p, old unsafe.Pointer) bool { return d.number(value, p, old, t.elem) })
	}
	switch {
	case t.wire < wireBool || t.wire > wireInt64:
		return false
	case p == nil:
	case t.wire == wireBool:
		*(*bool)(p) = value != 0
	case t.wire == wireInt32:
		*(*uint32)(p) = uint32(value)
	default:
		*(*uint64)(p) = value
	}
	return true
}

// numbers decodes a repeated field of numbers into the t at p. Its elements have the given tag; the first one is at
// msg[i]. numbers returns the offset of the next field, or 0 if it fails.
func (d *protobufDecoder) numbers(msg []byte, i int, tag uint64, p unsafe.Pointer, t *plan) int {
	var slice reflect.Value
	if p != nil {
		slice = reflect.NewAt(t.typ, p).Elem()
	}
	for n := 0; ; n++ {
		value, next := proto.Uvarint(msg, i)
		if next == 0 || !d.left.take(int(t.elem.size)) {
			return 0
		}
		var to unsafe.Pointer
		if p != nil {
			slice.Grow(1)
			slice.SetLen(n + 1)
			to = slice.Index(n).Addr().UnsafePointer()
		}
		if !d.number(value, to, nil, t.elem) {
			return 0
		}
		if i = next; i == len(msg) {
			break
		}
		if again, next := proto.Uvarint(msg, i); again == tag && next > 0 {
			i = next
		} else {
			break
		}
	}
	if p != nil {
		slice.Set(slice.Slice3(0, slice.Len(), slice.Len()))
	}
	return i
}

// pointer sets the pointer at p, a t, to the value that decode stores at its first argument. The second argument is the
// address of the previous value, or nil.
func (d *protobufDecoder) pointer(p, old unsafe.Pointer, t *plan, decode func(p, old unsafe.Pointer) bool) bool {
	d.left.take(int(t.elem.size))
	if p == nil {
		return decode(nil, nil)
	}
	if old != nil {
		old = *(*unsafe.Pointer)(old)
	}
	if old == nil {
		to := reflect.New(t.elem.typ).UnsafePointer()
		*(*unsafe.Pointer)(p) = to
		return decode(to, nil)
	}
	v := t.borrow()
	ok := decode(v.Addr().UnsafePointer(), old)
	if ok {
		t.pointTo(p, old, v)
	}
	t.giveBack(v)
	return ok
}

// unmarshal decodes msg into the t at p by the type's own method.
func unmarshal(msg []byte, p unsafe.Pointer, t *plan) bool {
	to := t.receiver(p)
	err := to.Interface().(message).Unmarshal(msg)
	t.assign(p, to.UnsafePointer())
	return err == nil
}

// single decodes a field that is neither a number nor repeated, or one element of a repeated field, into the t at p.
func (d *protobufDecoder) single(body []byte, p, old unsafe.Pointer, t *plan, depth int) bool {
	switch t.wire {
	case wirePointer:
		return d.pointer(p, old, t, func(p, old unsafe.Pointer) bool { return d.single(body, p, old, t.elem, depth) })
	case wireString:
		if p == nil {
			return true
		}
		if was := stringAt(old); was == string(body) {
			*(*string)(p) = was
		} else {
			*(*string)(p) = d.strings.get(body)
		}
	case wireMessage:
		return d.left >= 0 && d.message(body, p, old, t, depth+1)
	case wireTime:
		if p == nil {
			var nobody metav1.Time
			return nobody.Unmarshal(body) == nil
		}
		return (*metav1.Time)(p).Unmarshal(body) == nil
	case wireMethod:
		if !d.left.takeEach(len(body), unknownBytes) {
			return false
		}
		if p == nil && d.accepted.has(t, body) {
			return true
		}
		if !unmarshal(body, p, t) {
			return false
		}
		if p == nil {
			d.accepted.add(t, body)
		}
		d.plans.keep(t, p, old)
	case wireByteSlice:
		if p == nil {
			return true
		}
		if old != nil && *(*[]byte)(old) != nil && bytes.Equal(*(*[]byte)(old), body) {
			*(*[]byte)(p) = *(*[]byte)(old)
		} else {
			*(*[]byte)(p) = append([]byte{}, body...)
		}
	default:
		return false
	}
	return true
}

// repeated decodes the n elements of a repeated field into the t at p.
func (d *protobufDecoder) repeated(elements []byte, n int, p, old unsafe.Pointer, t *plan, depth int) bool {
	if !d.left.takeEach(n, int(t.elem.size)+elementBytes) {
		return false
	}
	if t.wire == wireMap {
		return d.mapping(elements, n, p, old, t, depth)
	}
	if t.elem.wire >= wireBool {
		return false
	}
	before := elementsAt(old)
	if p == nil {
		return d.elements(elements, n, nil, &before, t, depth)
	}
	if before.len != n { // the slice has changed
		return d.elements(elements, n, t.slices.make(n, p), &before, t, depth)
	}
	v := t.scratch // no larger than the previous slice
	t.scratch = reflect.Value{}
	if !v.IsValid() {
		v = reflect.New(t.typ).Elem()
	}
	if v.Len() < n {
		v.Grow(n - v.Len())
		v.SetLen(v.Cap())
	}
	room := v.Len()
	v.SetLen(n)
	ok := d.elements(elements, n, v.UnsafePointer(), &before, t, depth)
	if ok {
		t.sliceOf(p, &before, v)
	}
	v.Clear()
	v.SetLen(room)
	if uintptr(room)*t.elem.size <= maxScratch {
		t.scratch = v
	}
	return ok
}

// elements decodes the n elements of a slice into the array at p.
func (d *protobufDecoder) elements(elements []byte, n int, p unsafe.Pointer, before *words, t *plan, depth int) bool {
	for i, next := 0, 0; i < n; i++ {
		_, next = proto.Uvarint(elements, next)
		var body []byte
		if body, next = proto.Body(elements, next); !d.single(body, at(p, uintptr(i)*t.elem.size),
			before.at(i, t.elem.size), t.elem, depth) {
			return false
		}
	}
	return true
}

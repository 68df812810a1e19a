package decode

import "github.com/typedinformer/informer/internal/source/decode/proto"

// span is a part of some bytes: those from the offset from up to the offset to. The zero value is no part.
type span struct{ from, to int }

// extent says which bytes of an encoded object are the object alone, without managedFields that are dropped. The zero
// value says nothing.
type extent struct {
	known   bool
	end     int  // of the object, in JSON; the members of a frame may follow it
	dropped span // in JSON the bytes to cut, in protobuf those in the metadata
}

// Alone returns the object that d has decoded or checked last, from raw, without the frame members that may follow the
// object, and without managedFields unless they are kept. The result is part of raw, or in memory that d uses again.
func (d *Decoder) Alone(f Format, raw []byte) []byte {
	switch e := &d.alone; {
	case !e.known:
		return d.without(f, raw)
	case f == JSON:
		return d.cut(raw[:e.end], e.dropped)
	case e.dropped == span{}:
		return raw
	}
	return d.cutProtobuf(raw, d.alone.dropped)
}

// noteAlone notes the extent of an object that the decoder of format f has accepted. Nothing follows it in raw.
func (d *Decoder) noteAlone(f Format, raw []byte) {
	e := extent{known: true, end: len(raw), dropped: d.wire.managed}
	if f == JSON {
		e.end, e.dropped = d.json.end, d.json.managed
		if e.dropped != (span{}) {
			e.dropped = memberSpan(raw, e.dropped)
		}
	}
	// A type without the field has skipped managedFields without noticing them.
	if e.dropped != (span{}) || d.keepManagedFields || d.typ.plain {
		d.alone = e
	}
}

// without is Alone for an object that d has not decoded yet.
func (d *Decoder) without(f Format, raw []byte) []byte {
	if f == Protobuf {
		if d.keepManagedFields {
			return raw
		}
		return cutProtobuf(raw, d.memory(len(raw)))
	}
	e := extent{known: true, end: len(raw)}
	behind := cursor{b: raw, i: endJSON(raw)}
	if end := behind.i; end > 0 && behind.moreMembers() {
		e.end = end
	}
	if !d.keepManagedFields {
		e.dropped = managedJSON(raw[:e.end])
	}
	d.alone = e
	return d.cut(raw[:e.end], e.dropped)
}

// cut returns raw without a span.
func (d *Decoder) cut(raw []byte, dropped span) []byte {
	if dropped == (span{}) {
		return raw
	}
	to := d.memory(len(raw))
	return append(append(to, raw[:dropped.from]...), raw[dropped.to:]...)
}

// cutProtobuf returns raw, an object, without a span of its metadata.
func (d *Decoder) cutProtobuf(raw []byte, dropped span) []byte {
	meta := metadataOf(raw)
	to := append(d.memory(len(raw)), raw[:meta.From]...)
	to = proto.AppendHeader(to, objectMetadata, len(meta.Bytes)-(dropped.to-dropped.from))
	to = append(append(to, meta.Bytes[:dropped.from]...), meta.Bytes[dropped.to:]...)
	return append(to, raw[meta.To:]...)
}

// memory returns empty memory for n bytes.
func (d *Decoder) memory(n int) []byte {
	if n > maxScratch {
		return make([]byte, 0, n)
	}
	if cap(d.scratch) < n {
		d.scratch = make([]byte, 0, min(2*n, maxScratch))
	}
	return d.scratch[:0]
}

package decode

import (
	"github.com/typedinformer/informer/internal/source/decode/proto"
)

// jsonMetadata calls member for each member of the metadata of an encoded object, until member returns false. The
// member is raw[from:to]. The decoders merge metadata that occurs more than once. If first is set, jsonMetadata reads
// only the first one. Otherwise it returns the offset of what follows the object, or 0 if it could not read all of it.
func jsonMetadata(raw []byte, first bool, member func(name, value []byte, from, to int) bool) (end int) {
	c := cursor{b: raw}
	whole := c.members(func(key []byte, _ int) bool {
		if string(memberName(key)) != "metadata" || c.space() != '{' {
			return c.value(0) != nil
		}
		return c.members(func(key []byte, quote int) bool {
			c.space()
			var value []byte
			if from := c.i; string(key) == "managedFields" && c.managedFields() { // as the decoders skip them
				value = c.b[from:c.i]
			} else {
				value = c.value(0)
			}
			return value != nil && member(memberName(key), value, quote, c.i)
		}) && !first
	})
	if !whole {
		return 0
	}
	return c.i
}

// endJSON returns the offset of what follows an encoded object, as the decoders read it, or 0 if it is not an object.
func endJSON(raw []byte) int {
	if end := jsonMetadata(raw, false, func(_, _ []byte, _, _ int) bool { return true }); end > 0 {
		return end
	}
	// The library reads all that is JSON, such as managedFields that contain arrays.
	c := cursor{b: raw}
	if c.value(0) == nil {
		return 0
	}
	return c.i
}

// peekJSON reads an object's identity as the decoders do. If first is set, it reads only the first metadata, and stops
// as soon as the identity is complete.
func peekJSON(raw []byte, first bool) (id Identity) {
	unknown := false
	jsonMetadata(raw, first, func(name, value []byte, _, _ int) bool {
		var to *[]byte
		switch string(name) {
		case "namespace":
			to = &id.Namespace
		case "name":
			to = &id.Name
		case "uid":
			to = &id.UID
		case "resourceVersion":
			to = &id.ResourceVersion
		default:
			return true
		}
		if text := unquoted(value); text != nil {
			*to = text
		} else if string(value) != "null" { // null keeps the earlier value
			*to = nil
			unknown = unknown || to == &id.Namespace
		}
		return !first || !id.complete()
	})
	if unknown {
		id.Name = nil // an object in another namespace is another object
	}
	return id
}

// peekProtobuf reads an object's identity as the generated code does, which merges metadata that occurs more than once.
// If first is set, it reads only the first metadata, and stops as soon as the identity is complete. If metadata is
// malformed, the identity is empty.
func peekProtobuf(raw []byte, first bool) (id Identity) {
	var err error
	_ = proto.Fields(raw, func(object proto.Field) bool {
		if object.Number != objectMetadata {
			return true
		}
		err = proto.Fields(object.Bytes, func(f proto.Field) bool {
			id.take(f)
			return !first || !id.complete()
		})
		return !first && err == nil
	})
	if err != nil {
		return Identity{}
	}
	return id
}

// take takes the part of the identity that a field of the metadata has.
func (id *Identity) take(f proto.Field) {
	switch f.Number {
	case metaName:
		id.Name = f.Bytes
	case metaNamespace:
		id.Namespace = f.Bytes
	case metaUID:
		id.UID = f.Bytes
	case metaRV:
		id.ResourceVersion = f.Bytes
	}
}

// managedJSON returns what to cut from an encoded object to remove metadata.managedFields. The result is zero if there
// is nothing to remove.
func managedJSON(raw []byte) (cut span) {
	jsonMetadata(raw, true, func(name, _ []byte, begin, end int) bool {
		if string(name) == "managedFields" {
			cut = memberSpan(raw, span{begin, end})
		}
		return cut == span{}
	})
	return cut
}

// memberSpan returns what to cut to remove member, a part of raw, and one of the commas around it. The rest is valid
// JSON only if raw is. The result is zero if the member cannot be removed.
func memberSpan(raw []byte, member span) span {
	before := member.from
	for before > 0 && isSpace(raw[before-1]) {
		before--
	}
	if before > 0 && raw[before-1] == ',' {
		return span{before - 1, member.to}
	}
	c, behind := cursor{b: raw, i: member.to}, byte('}')
	if c.take(',') {
		behind = '"'
	}
	if c.space() != behind {
		return span{}
	}
	return span{member.from, c.i}
}

// metadataOf returns the metadata field of an encoded object, or the zero Field if there is none.
func metadataOf(raw []byte) (meta proto.Field) {
	_ = proto.Fields(raw, func(f proto.Field) bool {
		if f.Number != objectMetadata || f.Wire != proto.Bytes {
			return true
		}
		meta = f
		return false
	})
	return meta
}

// cutProtobuf returns an encoded object without metadata.managedFields.
func cutProtobuf(raw, buf []byte) []byte {
	meta := metadataOf(raw)
	size := 0
	if err := withoutManagedFields(meta.Bytes, func(f []byte) { size += len(f) }); err != nil || size == len(meta.Bytes) {
		return raw
	}
	without := append(buf[:0], raw[:meta.From]...)
	without = proto.AppendHeader(without, objectMetadata, size)
	_ = withoutManagedFields(meta.Bytes, func(f []byte) { without = append(without, f...) })
	return append(without, raw[meta.To:]...)
}

// MetadataAlone returns an encoded object, in protobuf, that has only the metadata of raw, without managedFields. It
// returns nil if raw has none.
func MetadataAlone(raw []byte) []byte {
	meta := metadataOf(raw)
	if len(meta.Bytes) == 0 {
		return nil
	}
	return cutProtobuf(raw[meta.From:meta.To], nil)
}

// withoutManagedFields calls visit with each field of the metadata, except managedFields.
func withoutManagedFields(meta []byte, visit func(field []byte)) error {
	return proto.Fields(meta, func(f proto.Field) bool {
		if f.Number != metaManaged {
			visit(meta[f.From:f.To])
		}
		return true
	})
}

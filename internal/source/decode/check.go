package decode

import (
	"bytes"
	"reflect"
	"runtime"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// This file checks an encoded object without making the object. It has no grammar of its own: the decoders decode into
// nothing. Where they must know more, such as whether a key occurs twice, they accept less than for an object. So
// [Decoder.Check] accepts no object that [Decoder.Decode] rejects, and Decode decides about all others.

// Checked is what Check reads of an encoded object. It refers to the memory of that.
type Checked struct {
	Identity // as the methods of the decoded object return it; nil is empty

	format Format
	labels []byte // the entries in protobuf, or the object in JSON
}

// Check reports whether Decode would return an object for raw, and reads the identity and the labels of that. It takes
// less time than Decode, and mostly no memory. It returns false if it does not know: for an object as API servers do
// not write it, and for all objects of a type that embeds no metav1.ObjectMeta, or that has other methods in place of
// its methods.
func (d *Decoder) Check(f Format, raw []byte) (found Checked, ok bool) {
	d.found, d.alone = Checked{format: f}, extent{}
	switch {
	case !d.typ.plain:
		return found, false
	case d.typ.elem == unstructuredType:
		ok = f == JSON && d.checkMembers(d.without(f, raw))
	case f == JSON:
		ok = d.json.check(raw, d.typ.elem, &d.found)
	default:
		ok = d.wire.check(raw, d.typ.elem, &d.found)
	}
	if ok && d.typ.elem != unstructuredType {
		d.noteAlone(f, raw)
	}
	found = d.found
	d.found = Checked{} // releases raw
	return found, ok && len(found.Name) > 0
}

// Labels yields the labels in the order of their keys.
func (c *Checked) Labels(yield func(key, value []byte) bool) {
	if c.format == Protobuf {
		for i := 0; i < len(c.labels); {
			var key, value []byte
			if key, value, i = entryAt(c.labels, i); !yield(key, value) {
				return
			}
		}
		return
	}
	in := cursor{b: c.labels}
	in.members(func(key []byte, _ int) bool {
		return yield(key, unquoted(in.value(0)))
	})
}

// check decodes raw into nothing, and notes in found what it finds.
func (d *jsonDecoder) check(raw []byte, elem reflect.Type, found *Checked) bool {
	t := d.plans.of(elem)
	if t.json <= jsonMethod {
		return false
	}
	d.found = found
	ok := d.whole(raw, nil, nil, t, reuse{layout: noLayout}, nil)
	if cap(d.unused) > maxScratch {
		d.unused = nil
	}
	return ok && d.left >= 0
}

// check decodes raw into nothing, and notes in found what it finds.
func (d *protobufDecoder) check(raw []byte, elem reflect.Type, found *Checked) bool {
	t := d.plans.of(elem)
	if t.wire != wireMessage || !d.plans.learnWire(t) {
		return false
	}
	d.shared, d.reuse, d.left, d.found, d.managed = nil, reuse{layout: noLayout}, d.limit, found, span{}
	ok := d.message(raw, nil, nil, t, 1)
	d.found = nil
	return ok && d.left >= 0
}

// accepted remembers short values that the methods of Kubernetes' types have accepted in one format. Most of them
// repeat, such as quantities. Such a method always does the same with the same bytes.
type accepted struct{ values [64]acceptedValue }

type acceptedValue struct {
	typ *plan
	raw string
}

// at returns the place of raw, or nil if it has none.
func (a *accepted) at(t *plan, raw []byte) *acceptedValue {
	if t.retains || len(raw) == 0 || len(raw) > 32 {
		return nil
	}
	return &a.values[hashOf(raw)%uint64(len(a.values))]
}

// has reports whether the method of t has accepted raw.
func (a *accepted) has(t *plan, raw []byte) bool {
	known := a.at(t, raw)
	return known != nil && known.typ == t && known.raw == string(raw)
}

// add notes that the method of t has accepted raw.
func (a *accepted) add(t *plan, raw []byte) {
	if to := a.at(t, raw); to != nil {
		*to = acceptedValue{t, string(raw)}
	}
}

// noLayout is the layout of nothing: no part of it is unchanged.
var noLayout = new(layout)

// note notes a field of the metadata.
func (c *Checked) note(number int, body []byte) {
	switch number {
	case metaName:
		c.Name = body
	case metaNamespace:
		c.Namespace = body
	case metaUID:
		c.UID = body
	case metaRV:
		c.ResourceVersion = body
	case metaLabels:
		c.labels = body
	}
}

// at returns where the member name of the metadata is noted, or nil if it is not.
func (c *Checked) at(name string) *[]byte {
	switch name {
	case "namespace":
		return &c.Namespace
	case "name":
		return &c.Name
	case "uid":
		return &c.UID
	case "resourceVersion":
		return &c.ResourceVersion
	case "labels":
		return &c.labels
	}
	return nil
}

// member notes a member of the metadata, whose value is valid JSON. null changes nothing.
func (c *Checked) member(name string, value []byte) {
	to := c.at(name)
	switch {
	case to == nil || value[0] == 'n':
	case to == &c.labels:
		c.labels = value
	default:
		*to = unquoted(value)
	}
}

// tree notes the metadata of an unstructured object, whose value is valid JSON. It returns false if the methods of the
// object could return something else.
func (c *Checked) tree(metadata []byte) bool {
	in := cursor{b: metadata}
	return in.members(func(key []byte, _ int) bool {
		value := in.value(0)
		to := c.at(string(key))
		if !plainName(key) || to != nil && *to != nil || to == &c.labels && value[0] != 'n' && !plainLabels(value) {
			return false
		}
		c.member(string(key), value)
		return true
	})
}

// plainLabels reports whether value, which is valid JSON, is an object of plain strings in the order of their names.
func plainLabels(value []byte) bool {
	in := cursor{b: value}
	var last []byte
	return in.members(func(key []byte, _ int) bool {
		ok := plainName(key) && (last == nil || bytes.Compare(last, key) < 0)
		last = key
		_, plain := in.text()
		return ok && plain
	})
}

var (
	objectMetaType   = reflect.TypeFor[metav1.ObjectMeta]()
	unstructuredType = reflect.TypeFor[unstructured.Unstructured]()
)

// plain reports whether the identity and the labels of a *elem are those of its metadata: its methods are those of
// [metav1.ObjectMeta], which it embeds.
func plain(elem reflect.Type) bool {
	if elem == unstructuredType {
		return true
	}
	f, ok := elem.FieldByName("ObjectMeta")
	if !ok || !f.Anonymous || f.Type != objectMetaType || len(f.Index) != 1 || strings.Contains(elem.Name(), "[") {
		return false
	}
	known := fieldsOf(elem).fields
	index := slices.IndexFunc(known, func(f field) bool { return f.name == "metadata" })
	if index < 0 || !slices.Equal(known[index].index, f.Index) {
		return false
	}
	if numbers := numbersOf(elem); len(numbers) > objectMetadata && numbers[objectMetadata].index != f.Index[0] {
		return false
	}
	pointer := reflect.PointerTo(elem)
	// Names that are constants: the linker keeps methods of other names out of the program.
	namespace, _ := pointer.MethodByName("GetNamespace")
	name, _ := pointer.MethodByName("GetName")
	uid, _ := pointer.MethodByName("GetUID")
	version, _ := pointer.MethodByName("GetResourceVersion")
	labels, _ := pointer.MethodByName("GetLabels")
	_, a := elem.MethodByName("GetNamespace") // elem has only methods that are declared for it
	_, b := elem.MethodByName("GetName")
	_, c := elem.MethodByName("GetUID")
	_, d := elem.MethodByName("GetResourceVersion")
	_, e := elem.MethodByName("GetLabels")
	return !(a || b || c || d || e) && promoted(namespace) && promoted(name) && promoted(uid) && promoted(version) &&
		promoted(labels)
}

// promoted reports whether m, a method of a pointer, is the one of [metav1.ObjectMeta]: the compiler has written all of
// its code, or has copied it from there. A method that somebody has declared has a line of a file.
func promoted(m reflect.Method) bool {
	if !m.Func.IsValid() {
		return false
	}
	entry := m.Func.Pointer()
	for pc := entry; ; pc++ {
		f := runtime.FuncForPC(pc)
		if f == nil || f.Entry() != entry {
			return true
		}
		file, _ := f.FileLine(pc)
		copied := f.Name() == objectMetaMethods+m.Name
		if behind := file == "?"; !copied && !behind && file != "<autogenerated>" {
			return false
		}
	}
}

const objectMetaMethods = "k8s.io/apimachinery/pkg/apis/meta/v1.(*ObjectMeta)."

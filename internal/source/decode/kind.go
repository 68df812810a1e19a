package decode

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/source/decode/proto"
)

// ErrWrongKind indicates an object or a list of another kind than the collection has.
var ErrWrongKind = errors.New("the server sent another kind than requested")

// partial is the kind of an object that has only metadata.
const partial = "PartialObjectMetadata"

// Kind is the kind of the objects of a collection, as far as it is known. A request names a resource, such as "pods",
// and no kind. So the first response that names a kind determines it:
//
//   - A kind whose plural is the name of the resource is right.
//   - For any other, and for one that differs from the first, the API server's discovery decides; see [Ask].
//   - If discovery cannot tell, the kind must be the name of the Go type, if that is a kind whose plural is the
//     resource, or if the type is one of k8s.io/api. For other types, the kind of the first response counts.
//
// An object that names no kind, like an item of a list of a built-in type, has the kind of its list. A nil *Kind
// accepts every kind. It is safe for concurrent use.
type Kind struct {
	resource string
	typeName string // the kind that the Go type implies; empty for none
	metadata bool   // objects may come as PartialObjectMetadata

	known atomic.Pointer[kind] // of the objects so far; nil before the first

	mu   sync.Mutex // for changes of known; protects the field below
	list string     // the kind of the last accepted list; empty before that
}

// kind is a kind and its API group. The group is empty for the core group, and if it is not known.
type kind struct {
	name, group string
	grouped     bool // the group is known
}

// NewKind returns the kind of the objects of a resource, such as "pods", that are decoded into a t, a pointer.
func NewKind(t reflect.Type, resource string) *Kind {
	k := &Kind{resource: resource, metadata: t == reflect.TypeFor[*metav1.PartialObjectMetadata]()}
	name := t.Elem().Name()
	if strings.HasPrefix(t.Elem().PkgPath(), "k8s.io/api/") || k.isPlural(name) {
		k.typeName = name
	}
	return k
}

// WithMetadata returns another Kind of the same objects, which may also come as PartialObjectMetadata.
func (k *Kind) WithMetadata() *Kind {
	return &Kind{resource: k.resource, typeName: k.typeName, metadata: true}
}

// isPlural reports whether the name of the resource is the usual plural of kind.
func (k *Kind) isPlural(kind string) bool {
	resource, name := strings.ReplaceAll(k.resource, "-", ""), strings.ToLower(kind)
	if stem, ok := strings.CutSuffix(name, "y"); ok && resource == stem+"ies" {
		return true
	}
	ending, ok := strings.CutPrefix(resource, name)
	return ok && name != "" && (ending == "" || ending == "s" || ending == "es")
}

// Ask asks the server for the kind of a resource in its discovery documents. If they do not say it, the error says why.
type Ask func() (kind string, err error)

// check returns an error if an object that names a kind and an apiVersion does not belong to the collection.
func (k *Kind) check(name, version []byte, ask Ask) error {
	if len(name) == 0 || k.metadata && string(name) == partial {
		return nil
	}
	group := groupOf(version)
	if known := k.known.Load(); known != nil && known.grouped && string(name) == known.name &&
		(len(version) == 0 || string(group) == known.group) {
		return nil
	}
	return k.doubt(kind{string(name), string(group), len(version) > 0}, ask)
}

// doubt is check for a kind that differs from the known one. While it asks, other responses wait.
func (k *Kind) doubt(named kind, ask Ask) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var want kind
	if known := k.known.Load(); known != nil {
		want = *known
	}
	switch {
	case want.name == named.name && want.grouped && named.grouped && want.group != named.group:
		return fmt.Errorf("%w: %.100q of the API group %.100q instead of %q", ErrWrongKind, named.name, named.group,
			want.group)
	case want.name == named.name && want.grouped:
		return nil
	}
	if want.name != named.name && (want.name != "" || !k.isPlural(named.name)) {
		want.name = k.wantedLocked(want.name, named.name, ask)
		if want.name != "" && want.name != named.name {
			return fmt.Errorf("%w: %.100q instead of %.100q", ErrWrongKind, named.name, want.name)
		}
	}
	k.known.Store(&named)
	return nil
}

// wantedLocked returns the kind that objects must have, or "" for any. known is that of the objects so far, and named
// differs from it.
func (k *Kind) wantedLocked(known, named string, ask Ask) string {
	if ask != nil {
		if served, err := ask(); err == nil {
			return served
		}
	}
	switch {
	case known == "":
		return k.typeName
	case k.isPlural(named) && !k.isPlural(known): // known was a guess
		return named
	}
	return known
}

// groupOf returns the API group in an apiVersion.
func groupOf(version []byte) []byte {
	group, _, ok := bytes.Cut(version, []byte("/"))
	if !ok {
		return nil // the core group
	}
	return group
}

// kindCheck checks the kinds in one response. It is not safe for concurrent use.
type kindCheck struct {
	kind *Kind
	ask  Ask

	last    []byte // of the last object: the JSON up to its kind and apiVersion, or in protobuf its runtime.TypeMeta
	odd     error  // the kind of the list is wrong, unless its items name the right one
	list    string // the kind of the list
	named   bool   // an item has named its kind
	unnamed bool   // an item has named no kind
}

// object checks an object in JSON. Members of a frame may follow it.
func (c *kindCheck) object(raw []byte) error {
	if c.kind == nil || len(c.last) > 0 && bytes.HasPrefix(raw, c.last) {
		return nil
	}
	name, version, end := kindJSON(raw, false)
	if len(name) == 0 {
		return nil
	}
	if err := c.kind.check(name, version, c.ask); err != nil {
		return err
	}
	c.last = append(c.last[:0], raw[:end]...)
	return nil
}

// kindJSON returns the kind and apiVersion of an object. If they are the first two members, end is the offset after
// them, and otherwise 0. If first is set, kindJSON reads no other members.
func kindJSON(raw []byte, first bool) (name, version []byte, end int) {
	in, n := cursor{b: raw}, 0
	in.members(func(key []byte, _ int) bool {
		member := memberName(key)
		isName := string(member) == "kind"
		if first && !isName && string(member) != "apiVersion" {
			return false
		}
		value := in.value(-MaxObjectBytes)
		switch {
		case isName:
			name = unquoted(value)
		case string(member) == "apiVersion":
			version = unquoted(value)
		}
		if n++; n == 2 && name != nil && version != nil {
			end = in.i
		}
		return value != nil && end == 0
	})
	return name, version, end
}

// message checks an object in protobuf, whose envelope has the encoded runtime.TypeMeta meta.
func (c *kindCheck) message(meta []byte) error {
	if len(c.last) > 0 && bytes.Equal(meta, c.last) {
		return nil
	}
	var name, version []byte
	if err := typeMeta(meta, &name, &version); err != nil || c.kind == nil || len(name) == 0 {
		return err
	}
	if err := c.kind.check(name, version, c.ask); err != nil {
		return err
	}
	c.last = append(c.last[:0], meta...)
	return nil
}

// listOf notes the kind of the list. An error says that it is no list, or that its items have another kind.
func (c *kindCheck) listOf(info *ListInfo) {
	c.list, c.odd = info.Kind, nil
	name, isList := strings.CutSuffix(info.Kind, "List")
	switch {
	case info.Kind == "" || info.Kind == "List": // a list of any kind
	case !isList:
		c.odd = fmt.Errorf("%w: the server sent a %.100s instead of a list", ErrWrongKind, info.Kind)
	case c.kind != nil:
		if c.odd = c.kind.check([]byte(name), []byte(info.APIVersion), c.ask); c.odd != nil {
			c.odd = fmt.Errorf("a %.100s: %w", info.Kind, c.odd)
		}
	}
}

// item checks an item of the list, in JSON. named reports whether the item has a member "kind".
func (c *kindCheck) item(raw []byte, named bool) error {
	if !named {
		return c.unnamedItem()
	}
	err := c.object(raw)
	c.named = c.named || err == nil
	return err
}

// unnamedItem checks an item of the list that names no kind.
func (c *kindCheck) unnamedItem() error {
	c.unnamed = true
	return c.odd
}

// end checks the list after its last item. A list whose items name the right kind is right. Without items, so is a list
// of the same kind as the last one, and the first one of all if nothing implies another kind.
func (c *kindCheck) end() error {
	if c.odd != nil && (c.unnamed || !c.named && (c.kind == nil || !c.kind.acceptsEmpty(c.list))) {
		return c.odd
	}
	if c.kind != nil && c.list != "" {
		c.kind.mu.Lock()
		c.kind.list = c.list
		c.kind.mu.Unlock()
	}
	return nil
}

// acceptsEmpty reports whether to accept a list without items whose kind is not that of the objects.
func (k *Kind) acceptsEmpty(list string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return list == k.list || k.list == "" && k.typeName == "" && strings.HasSuffix(list, "List")
}

// Check returns an error if an encoded object, alone or from a list, does not belong to the collection. raw is without
// its envelope.
func (k *Kind) Check(e Encoded) error {
	if k == nil {
		return nil
	}
	if e.Format == JSON {
		if name, version, _ := kindJSON(e.Raw, true); name != nil {
			return k.check(name, version, nil)
		}
	}
	c := kindCheck{kind: k}
	if e.List != nil {
		c.listOf(e.List)
	}
	return c.odd
}

// typeMeta decodes a runtime.TypeMeta. It keeps the values of absent fields.
func typeMeta(b []byte, name, version *[]byte) error {
	return proto.Fields(b, func(f proto.Field) bool {
		switch f.Number {
		case typeMetaAPIVersion:
			*version = f.Bytes
		case typeMetaKind:
			*name = f.Bytes
		}
		return true
	})
}

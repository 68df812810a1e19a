package warmstart

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Identity is what a saved state and the collection that loads it must have in common.
type Identity struct {
	Server, CA, Cluster          string
	Resource                     schema.GroupVersionResource
	Namespace                    string
	LabelSelector, FieldSelector string
	Shard                        string
	Type, Fields                 string // the name of the Go type, and a checksum of its fields; see SetType
	ManagedFields                bool
	Transform, Filter            bool
	Revision                     string
}

// Header is the header of a saved state, in JSON.
type Header struct {
	Identity
	ResourceVersion string
	Time            time.Time
	Listed          time.Time // when the list began from which the objects come, with later changes
}

// SetType sets Type and Fields to those of t, a pointer.
func (i *Identity) SetType(t reflect.Type) { i.Type, i.Fields = nameOfType(t), sumOfFields(t) }

// name returns the name of the saved state in the storage.
func (i *Identity) name() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{i.Resource.Group, i.Resource.Version, i.Resource.Resource,
		i.Namespace, i.LabelSelector, i.FieldSelector, i.Type}))
	return i.Resource.Resource + "-" + hex.EncodeToString(sum[:8]) + ".snapshot"
}

// differs returns how the identity of a saved state differs from want, or "". It does not compare Cluster.
func (i *Identity) differs(want *Identity) string {
	switch {
	case i.Server != want.Server:
		return fmt.Sprintf("it is from the server %.200s, not %s", i.Server, want.Server)
	case i.CA != want.CA:
		return "it is from a server with another certificate authority"
	case i.Resource != want.Resource || i.Namespace != want.Namespace || i.LabelSelector != want.LabelSelector ||
		i.FieldSelector != want.FieldSelector:
		return "it is of another resource, namespace or selector"
	case i.Type != want.Type:
		return fmt.Sprintf("it is of the Go type %.200s, not %s", i.Type, want.Type)
	case i.Fields != want.Fields:
		return fmt.Sprintf("the fields of %s have changed", want.Type)
	case i.ManagedFields != want.ManagedFields:
		return "Config.KeepManagedFields has changed"
	case i.Transform != want.Transform:
		return "Config.Transform has changed"
	case i.Filter != want.Filter:
		return "Config.Filter has changed"
	case i.Revision != want.Revision:
		return fmt.Sprintf("it has the revision %.100q, not %q", i.Revision, want.Revision)
	case i.Shard != want.Shard:
		return "it is of another shard"
	}
	return ""
}

// nameOfType returns the name of a type with the path of its package.
func nameOfType(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return "*" + nameOfType(t.Elem())
	}
	if t.Name() == "" || t.PkgPath() == "" {
		return t.String()
	}
	return t.PkgPath() + "." + t.Name()
}

// sumOfFields returns a checksum of the names, types and tags of the fields of t, at any depth.
func sumOfFields(t reflect.Type) string {
	var text strings.Builder
	seen := map[reflect.Type]int{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		if n, ok := seen[t]; ok {
			fmt.Fprintf(&text, "#%d ", n)
			return
		}
		fmt.Fprintf(&text, "%s %v ", nameOfType(t), t.Kind())
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map, reflect.Struct:
			seen[t] = len(seen)
		}
		switch t.Kind() {
		case reflect.Array:
			fmt.Fprintf(&text, "%d ", t.Len())
			add(t.Elem())
		case reflect.Pointer, reflect.Slice:
			add(t.Elem())
		case reflect.Map:
			add(t.Key())
			add(t.Elem())
		case reflect.Struct:
			for i := range t.NumField() {
				f := t.Field(i)
				fmt.Fprintf(&text, "%s %q %v ", f.Name, f.Tag, f.Anonymous)
				add(f.Type)
			}
		}
	}
	add(t)
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:])
}

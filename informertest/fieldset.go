package informertest

import (
	"bytes"
	"encoding/json"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

// This file alone uses types of sigs.k8s.io/structured-merge-diff, and it names none. k8s.io/apimachinery takes that
// module's v6 before 0.38 and v7 from then on, and these have different import paths. The type parameters are inferred from the
// signatures of package managedfields, so one source compiles with both.

// fieldSet is *fieldpath.Set, a set of fields. P is fieldpath.Path.
type fieldSet[E, P any] interface {
	*E
	FromJSON(io.Reader) error
	Iterate(func(P))
	Difference(*E) *E
	RecursiveDifference(*E) *E
}

// buildManager is the type of the functions that build a FieldManager. V is fieldpath.APIVersion, F fieldpath.Filter.
type buildManager[V ~string, F any] = func(converter managedfields.TypeConverter, convertor runtime.ObjectConvertor,
	defaulter runtime.ObjectDefaulter, creater runtime.ObjectCreater, kind schema.GroupVersionKind, hub schema.GroupVersion,
	subresource string, resetFields map[V]F) (*managedfields.FieldManager, error)

// ownedFields says which fields a write can own. Its zero value means all.
type ownedFields struct {
	only   []string   // the path of the only field, with all below it, unless nil
	except [][]string // the paths of the fields, with all below them, that a write cannot own
}

func (o ownedFields) paths() [][]string {
	if o.only != nil {
		return [][]string{o.only}
	}
	return o.except
}

// newFieldManager calls build. All fields but the owned ones are reset.
func newFieldManager[V ~string, F interface{ Filter(S) S }, S fieldSet[E, P], E, P any](build buildManager[V, F],
	converter managedfields.TypeConverter, kind schema.GroupVersionKind, subresource string,
	owned ownedFields) (*managedfields.FieldManager, error) {
	var reset map[V]F
	if paths := owned.paths(); paths != nil {
		fields, err := newFieldSet[S](paths...)
		if err != nil {
			return nil, err
		}
		filter := ownedFilter[E, S, P]{fields, owned.only != nil}
		reset = map[V]F{V(kind.GroupVersion().String()): any(filter).(F)}
	}
	return build(converter, sameVersion{}, sameVersion{}, sameVersion{}, kind, kind.GroupVersion(), subresource, reset)
}

// ownedFilter implements fieldpath.Filter. It keeps only the fields with all below them, or all but these.
type ownedFilter[E any, S fieldSet[E, P], P any] struct {
	fields S
	only   bool
}

func (f ownedFilter[E, S, P]) Filter(set S) S {
	others := set.RecursiveDifference(f.fields)
	if f.only {
		return set.Difference(others)
	}
	return others
}

// newFieldSet returns the set of the fields at these paths. No path may be the beginning of another.
func newFieldSet[S fieldSet[E, P], E, P any](paths ...[]string) (S, error) {
	tree := map[string]any{}
	for _, path := range paths {
		node := tree
		for _, name := range path {
			below, ok := node["f:"+name].(map[string]any)
			if !ok {
				below = map[string]any{}
				node["f:"+name] = below
			}
			node = below
		}
	}
	b, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	set := S(new(E))
	return set, set.FromJSON(bytes.NewReader(b))
}

// replicasPath returns the mappings for a ScaleHandler of objects of this version.
func replicasPath[M ~map[string]P, V ~string, F interface{ Filter(S) S }, S fieldSet[E, P], E, P any](_ buildManager[V, F],
	version schema.GroupVersion, path []string) (M, error) {
	set, err := newFieldSet[S](path)
	if err != nil {
		return nil, err
	}
	mappings := M{}
	set.Iterate(func(path P) { mappings[version.String()] = path }) // the only path, so nothing reuses it
	return mappings, nil
}

package informer

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Object is what an [Informer] caches: a pointer to a struct with a Kubernetes identity.
// Every type that embeds metav1.ObjectMeta is one when used by pointer (*corev1.Pod, the Go type of a CRD,
// *unstructured.Unstructured, *metav1.PartialObjectMetadata), and so is a pointer to a struct of your own
// that holds just the fields you need.
//
// JSON is decoded as client-go decodes it, by the rules of sigs.k8s.io/json: those of encoding/json, but for names, which must
// match in case, and whole numbers in an any, which are int64. A type for which every object would fail is an error before the
// first request: the name must come from metadata, and a field that is tagged for JSON must be of a type that holds JSON. An
// exported field without a tag may be of any type; an object that has a value by its name cannot be decoded. A type that has
// UnmarshalJSON is not checked.
//
// Every reader shares the cached objects, and a new version of an object shares what did not change with the version before it:
// strings, slices, maps and what pointers point to. Cached objects must never be written to: copy first. In tests,
// informertest.DetectMutations finds code that writes to them.
type Object interface {
	comparable
	GetNamespace() string
	GetName() string
	GetUID() types.UID
	GetResourceVersion() string
}

// Key names one object of a collection. Namespace is empty for cluster-scoped resources.
type Key = types.NamespacedName

// KeyOf returns the key of obj.
func KeyOf[T Object](obj T) Key {
	return Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// older reports whether resource version a precedes b. The empty version and "0" mean unknown; they precede every known
// version. older returns false if it cannot compare a with b.
func older(a, b string) bool {
	if unknown := a == "" || a == "0"; unknown {
		return b != "" && b != "0"
	}
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}

// reached reports whether resource version have equals want or follows it. It returns false if it cannot compare them.
func reached(have, want string) bool {
	c, err := resourceversion.CompareResourceVersion(have, want)
	return err == nil && c >= 0
}

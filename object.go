package informer

import "github.com/typedinformer/informer/internal/object"

// Object is the type of the objects that an [Informer] caches: a pointer to a struct with a Kubernetes identity. Every
// pointer to a type that embeds metav1.ObjectMeta is one, such as *corev1.Pod or the Go type of a CRD. So are
// *unstructured.Unstructured, *metav1.PartialObjectMetadata, and a pointer to a struct of your own with only the fields
// that you need. An interface type whose values are such pointers is one, too; see Config.Prototype. Types for which ==
// is not defined make [NewStore] and [New] panic. The methods of an Object are GetNamespace, GetName, GetUID and
// GetResourceVersion, as metav1.Object declares them.
//
// JSON is decoded as in client-go, by the rules of sigs.k8s.io/json. These are the rules of encoding/json, except that
// names are case-sensitive and that whole numbers in an any are int64. A type for which every object would fail is an
// error before the first request: the name must come from metadata, and a field with a JSON tag must be of a type that
// JSON can represent. An exported field without a tag may be of any type. If such a field cannot hold JSON, an object
// that has a value for it cannot be decoded. A type that has UnmarshalJSON is not checked.
//
// Every reader shares the cached objects. A new version of an object shares unchanged strings, slices, maps and
// pointers with the previous version. Cached objects must never be written to: copy them first. In tests,
// informertest.DetectMutations finds code that writes to them.
type Object interface{ object.Object }

// Key is a types.NamespacedName. It names one object of a collection. Namespace is empty for cluster-scoped resources.
type Key = object.Key

// KeyOf returns the key of obj.
func KeyOf[T Object](obj T) Key { return object.KeyOf(obj) }

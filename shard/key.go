package shard

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer"
)

// Key is the key of an object with its UID, for controllers whose replicas share objects by UID. An object that is
// deleted and created again under the same name has another Key, which may belong to another replica.
//
// So two replicas may reconcile two keys with the same name at the same time: one cleans up after the deleted object
// while the other sets up the new one. If Reconcile manages something outside of the cluster, include the UID in its
// name, or share objects by namespace, with [informer.ShardByNamespace], [informer.EnqueueObject] and [ByNamespace].
// Inside the cluster, delete only objects owned by the UID of the key, each with its own UID as a precondition.
type Key struct {
	informer.Key
	UID types.UID
}

// String returns the namespace, the name and the UID, such as "shop/web@8a1f6d52".
func (k Key) String() string { return k.Key.String() + "@" + string(k.UID) }

// MarshalLog returns the fields that a logr.Logger logs, including the UID.
func (k Key) MarshalLog() any {
	return struct {
		Namespace string    `json:"namespace,omitempty"`
		Name      string    `json:"name"`
		UID       types.UID `json:"uid"`
	}{k.Namespace, k.Name, k.UID}
}

// KeyOf returns the key of obj. Pass it to [EnqueueObject].
func KeyOf[T informer.Object](obj T) Key { return Key{informer.KeyOf(obj), obj.GetUID()} }

// EnqueueObject is [informer.EnqueueObject] with keys that have the UID. If the store has no object of that name when
// Reconcile receives a key, or one with another UID, the object of the key has been deleted.
func EnqueueObject[T informer.Object](i *informer.Informer[T],
	predicates ...informer.Predicate[T]) informer.Source[Key] {
	return informer.Enqueue(i, func(obj T) []Key { return []Key{KeyOf(obj)} }, predicates...)
}

// EnqueueOwner is [informer.EnqueueOwner] with keys that have the UID of the owner. Owned objects have other hashes
// than their owner, so i must hold all of them: do not pass i to [Replica.Follow].
func EnqueueOwner[T informer.Owned](i *informer.Informer[T], owner informer.Owner,
	predicates ...informer.Predicate[T]) informer.Source[Key] {
	return informer.Enqueue(i, OwnerKeys[T](owner), predicates...)
}

// OwnerKeys is [informer.OwnerKeys] with keys that have the UID of the owner.
func OwnerKeys[T informer.Owned](owner informer.Owner) func(obj T) []Key {
	return func(obj T) []Key {
		var keys []Key
		for _, ref := range obj.GetOwnerReferences() {
			if key, ok := owner.Key(obj.GetNamespace(), ref); ok {
				keys = append(keys, Key{key, ref.UID})
			}
		}
		return keys
	}
}

// ByUID is the hash for [Control] if Config.Field is [informer.ShardByUID].
func ByUID(key Key) uint64 { return informer.HashOf(key.UID) }

// ByNamespace is the hash for [Control] if Config.Field is [informer.ShardByNamespace].
func ByNamespace(key informer.Key) uint64 { return informer.HashOf(key.Namespace) }

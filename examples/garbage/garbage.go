package main

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/kinds"
)

type object = *metav1.PartialObjectMetadata

// graph finds owners over all kinds.
type graph struct {
	set   *kinds.Set[object]
	byUID *kinds.Index[object, types.UID]
}

func newGraph(set *kinds.Set[object]) *graph {
	return &graph{set, kinds.NewIndex(set, func(_ schema.GroupResource, obj object) []types.UID {
		return []types.UID{obj.UID}
	})}
}

// garbage returns a line for each object that is garbage, in the order of the kinds and objects of the set.
func (g *graph) garbage() (reasons []string) {
	complete := g.complete()
	why := map[types.UID]string{} // of objects that are garbage
	// Each round finds the objects whose owners the rounds before have found.
	for found := true; found; {
		found = false
		for kind, obj := range g.set.Snapshot().All() {
			if why[obj.UID] != "" {
				continue
			}
			reason := g.judge(obj, complete, why)
			if reason == "" {
				continue
			}
			found, why[obj.UID] = true, reason
			reasons = append(reasons, fmt.Sprintf("%s: %s", kinds.KeyOf(kind, obj), reason))
		}
	}
	return reasons
}

// complete returns the kinds whose stores have all objects. An object of another kind may exist.
func (g *graph) complete() map[schema.GroupKind]bool {
	complete := map[schema.GroupKind]bool{}
	for _, member := range g.set.Status().Members {
		if member.State == kinds.Synced {
			complete[schema.GroupKind{Group: member.Kind.Group, Kind: member.Kind.Kind}] = true
		}
	}
	return complete
}

// judge returns why an object is garbage, or "": none of its owners exists, except those that are garbage.
func (g *graph) judge(obj object, complete map[schema.GroupKind]bool, why map[types.UID]string) (reason string) {
	for _, ref := range obj.OwnerReferences {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		switch owner, exists := g.owner(obj, ref); {
		case exists && why[owner.UID] == "":
			return "" // an owner keeps it
		case exists:
			reason = fmt.Sprintf("its owner %s %s is garbage", ref.Kind, ref.Name)
		case err != nil || !complete[schema.GroupKind{Group: gv.Group, Kind: ref.Kind}]:
			return "" // nobody knows
		case reason == "":
			reason = fmt.Sprintf("its owner %s %s does not exist", ref.Kind, ref.Name)
		}
	}
	return reason
}

// owner returns the owner of obj that ref names. It must be cluster-scoped, or in the namespace of obj.
func (g *graph) owner(obj object, ref metav1.OwnerReference) (owner object, exists bool) {
	for _, owner := range g.byUID.Lookup(ref.UID) {
		if owner.Namespace == "" || owner.Namespace == obj.Namespace {
			return owner, true
		}
	}
	return nil, false
}

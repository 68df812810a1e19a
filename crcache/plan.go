package crcache

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// plan says which collections the cache follows for a kind, and how.
type plan struct {
	// whole applies to the objects of all namespaces if namespaces is empty, and always to cluster-scoped objects.
	whole cache.Config
	// namespaces has the configuration of each namespace. That of [cache.AllNamespaces] applies to all other namespaces.
	namespaces map[string]cache.Config
}

// plans has the plan of each kind.
type plans struct {
	others plan
	byKind map[schema.GroupVersionKind]plan
}

func (p *plans) of(gvk schema.GroupVersionKind) plan {
	if special, ok := p.byKind[gvk]; ok {
		return special
	}
	return p.others
}

// newPlans reads opts, in which scheme and mapper are set. A setting comes from the first of these that has it: the
// namespace in ByObject, ByObject, the namespace in DefaultNamespaces, the defaults.
func newPlans(opts *cache.Options) (*plans, error) {
	defaults := cache.Config{
		LabelSelector:         opts.DefaultLabelSelector,
		FieldSelector:         opts.DefaultFieldSelector,
		Transform:             opts.DefaultTransform,
		UnsafeDisableDeepCopy: opts.DefaultUnsafeDisableDeepCopy,
		SyncPeriod:            opts.SyncPeriod,
	}
	p := &plans{
		others: plan{whole: defaults, namespaces: map[string]cache.Config{}},
		byKind: map[schema.GroupVersionKind]plan{},
	}
	for namespace, config := range opts.DefaultNamespaces {
		p.others.namespaces[namespace] = withDefaults(config, defaults)
	}
	p.others.excludeNamed()
	for obj, options := range opts.ByObject {
		gvk, err := apiutil.GVKForObject(obj, opts.Scheme)
		if err != nil {
			return nil, fmt.Errorf("cache.Options.ByObject[%T]: %w", obj, err)
		}
		namespaced, err := apiutil.IsGVKNamespaced(gvk, opts.Mapper)
		if err != nil {
			return nil, fmt.Errorf("cache.Options.ByObject[%T]: %w", obj, err)
		}
		if !namespaced && options.Namespaces != nil {
			return nil, fmt.Errorf("cache.Options.ByObject[%T].Namespaces is set, but the type is not namespaced", obj)
		}
		own := cache.Config{
			LabelSelector:         options.Label,
			FieldSelector:         options.Field,
			Transform:             options.Transform,
			UnsafeDisableDeepCopy: options.UnsafeDisableDeepCopy,
			SyncPeriod:            options.SyncPeriod,
		}
		special := plan{whole: withDefaults(own, defaults), namespaces: map[string]cache.Config{}}
		namespaces := options.Namespaces
		if namespaced && namespaces == nil {
			namespaces = opts.DefaultNamespaces
		}
		for namespace, config := range namespaces {
			special.namespaces[namespace] = withDefaults(config, own, opts.DefaultNamespaces[namespace], defaults)
		}
		special.excludeNamed()
		p.byKind[gvk] = special
	}
	return p, nil
}

// withDefaults returns c, with each setting that it lacks from the first of defaults that has it.
func withDefaults(c cache.Config, defaults ...cache.Config) cache.Config {
	for _, d := range defaults {
		if c.LabelSelector == nil {
			c.LabelSelector = d.LabelSelector
		}
		if c.FieldSelector == nil {
			c.FieldSelector = d.FieldSelector
		}
		if c.Transform == nil {
			c.Transform = d.Transform
		}
		if c.UnsafeDisableDeepCopy == nil {
			c.UnsafeDisableDeepCopy = d.UnsafeDisableDeepCopy
		}
		if c.SyncPeriod == nil {
			c.SyncPeriod = d.SyncPeriod
		}
	}
	return c
}

// excludeNamed makes the configuration of all other namespaces exclude the named ones.
func (p *plan) excludeNamed() {
	others, ok := p.namespaces[cache.AllNamespaces]
	if !ok {
		return
	}
	var terms []fields.Selector
	for _, namespace := range slices.Sorted(maps.Keys(p.namespaces)) {
		if namespace != cache.AllNamespaces {
			terms = append(terms, fields.OneTermNotEqualSelector("metadata.namespace", namespace))
		}
	}
	if others.FieldSelector != nil {
		terms = append(terms, others.FieldSelector)
	}
	others.FieldSelector = fields.AndSelectors(terms...)
	p.namespaces[cache.AllNamespaces] = others
}

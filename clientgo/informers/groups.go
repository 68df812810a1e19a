package informers

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/apiserverinternal"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/autoscaling"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/discovery"
	"k8s.io/client-go/informers/events"
	"k8s.io/client-go/informers/extensions"
	"k8s.io/client-go/informers/flowcontrol"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/informers/storagemigration"
)

// groups are the names of the packages in k8s.io/api of the groups below, which are those of client-go 0.36. A newer
// client-go has more, whose types 0.36 lacks.
var groups = []string{"admissionregistration", "apiserverinternal", "apps", "autoscaling", "batch", "certificates",
	"coordination", "core", "discovery", "events", "extensions", "flowcontrol", "networking", "node", "policy", "rbac",
	"resource", "scheduling", "storage", "storagemigration"}

// ofNewerGroup reports whether the informers of a type belong to a group that only a newer client-go has.
func ofNewerGroup(t reflect.Type) bool {
	if t == nil || t.Kind() != reflect.Pointer {
		return false
	}
	path, builtIn := strings.CutPrefix(t.Elem().PkgPath(), "k8s.io/api/")
	group, _, _ := strings.Cut(path, "/")
	return builtIn && !slices.Contains(groups, group)
}

// The groups are client-go's. They get each informer from f.

// Admissionregistration returns the informers of an API group.
func (f *sharedInformerFactory) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(f, f.namespace, f.tweak)
}

// Internal returns the informers of an API group.
func (f *sharedInformerFactory) Internal() apiserverinternal.Interface {
	return apiserverinternal.New(f, f.namespace, f.tweak)
}

// Apps returns the informers of an API group.
func (f *sharedInformerFactory) Apps() apps.Interface {
	return apps.New(f, f.namespace, f.tweak)
}

// Autoscaling returns the informers of an API group.
func (f *sharedInformerFactory) Autoscaling() autoscaling.Interface {
	return autoscaling.New(f, f.namespace, f.tweak)
}

// Batch returns the informers of an API group.
func (f *sharedInformerFactory) Batch() batch.Interface {
	return batch.New(f, f.namespace, f.tweak)
}

// Certificates returns the informers of an API group.
func (f *sharedInformerFactory) Certificates() certificates.Interface {
	return certificates.New(f, f.namespace, f.tweak)
}

// Coordination returns the informers of an API group.
func (f *sharedInformerFactory) Coordination() coordination.Interface {
	return coordination.New(f, f.namespace, f.tweak)
}

// Core returns the informers of an API group.
func (f *sharedInformerFactory) Core() core.Interface {
	return core.New(f, f.namespace, f.tweak)
}

// Discovery returns the informers of an API group.
func (f *sharedInformerFactory) Discovery() discovery.Interface {
	return discovery.New(f, f.namespace, f.tweak)
}

// Events returns the informers of an API group.
func (f *sharedInformerFactory) Events() events.Interface {
	return events.New(f, f.namespace, f.tweak)
}

// Extensions returns the informers of an API group.
func (f *sharedInformerFactory) Extensions() extensions.Interface {
	return extensions.New(f, f.namespace, f.tweak)
}

// Flowcontrol returns the informers of an API group.
func (f *sharedInformerFactory) Flowcontrol() flowcontrol.Interface {
	return flowcontrol.New(f, f.namespace, f.tweak)
}

// Networking returns the informers of an API group.
func (f *sharedInformerFactory) Networking() networking.Interface {
	return networking.New(f, f.namespace, f.tweak)
}

// Node returns the informers of an API group.
func (f *sharedInformerFactory) Node() node.Interface {
	return node.New(f, f.namespace, f.tweak)
}

// Policy returns the informers of an API group.
func (f *sharedInformerFactory) Policy() policy.Interface {
	return policy.New(f, f.namespace, f.tweak)
}

// Rbac returns the informers of an API group.
func (f *sharedInformerFactory) Rbac() rbac.Interface {
	return rbac.New(f, f.namespace, f.tweak)
}

// Resource returns the informers of an API group.
func (f *sharedInformerFactory) Resource() resource.Interface {
	return resource.New(f, f.namespace, f.tweak)
}

// Scheduling returns the informers of an API group.
func (f *sharedInformerFactory) Scheduling() scheduling.Interface {
	return scheduling.New(f, f.namespace, f.tweak)
}

// Storage returns the informers of an API group.
func (f *sharedInformerFactory) Storage() storage.Interface {
	return storage.New(f, f.namespace, f.tweak)
}

// Storagemigration returns the informers of an API group.
func (f *sharedInformerFactory) Storagemigration() storagemigration.Interface {
	return storagemigration.New(f, f.namespace, f.tweak)
}

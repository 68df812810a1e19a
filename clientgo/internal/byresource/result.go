package byresource

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SyncResult is client-go's cache.GVRSyncResult, which exists since 0.38.
type SyncResult struct {
	// Err is nil if all informers have synced, otherwise the cause of the context.
	Err error
	// Synced has the resources of the informers that run, with true for those that have synced.
	Synced map[schema.GroupVersionResource]bool
}

// syncResult are the types that have the fields of [SyncResult].
type syncResult interface {
	~struct {
		Err    error
		Synced map[schema.GroupVersionResource]bool
	}
}

// Before038 has the method that the interfaces of client-go's factories have since 0.38, with a result of a type that
// older versions lack. A go.mod file cannot choose a source file by the version of a module, so one source has to
// compile with all. In a struct such as
//
//	type complete struct {
//		dynamicinformer.DynamicSharedInformerFactory
//		older
//	}
//	type older struct{ byresource.Before038 }
//
// complete.WaitForCacheSyncWithContext is the method of the interface if it has one, and that of Before038, which is
// embedded one level deeper, otherwise. [New] infers from it the type that the method of a factory has to return.
type Before038 struct{}

// WaitForCacheSyncWithContext is never called.
func (Before038) WaitForCacheSyncWithContext(context.Context) SyncResult { return SyncResult{} }

// Package reconcile has helpers for a Reconcile function: finalizers, owner references, updates with conflict retry,
// and events. It has only what apimachinery and client-go lack, and it links no clientset and no scheme.
//
// From apimachinery and client-go, use these:
//
//	meta.SetStatusCondition, meta.FindStatusCondition    conditions; k8s.io/apimachinery/pkg/api/meta
//	metav1.NewControllerRef, metav1.IsControlledBy       the reference to the controlling owner, and a check for it
//	retry.RetryOnConflict                                a loop of your own; k8s.io/client-go/util/retry
//	record.EventCorrelator                               aggregation of events; Recorder uses it. k8s.io/client-go/tools/record
//	equality.Semantic.DeepEqual                          comparison of objects; k8s.io/apimachinery/pkg/api/equality
//
// Objects of a cache are shared, so the functions that change an object in place require a copy that belongs to the
// caller. [CreateOrUpdate], [Update] and [UpdateStatus] copy it themselves.
package reconcile

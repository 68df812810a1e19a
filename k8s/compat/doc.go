// Package compat holds client-go's listers of Kubernetes' own types, over informers and stores of this library. It has
// every lister common to k8s.io/client-go/listers v0.35, v0.36 and v0.37, in packages of the same names; for others, use
// codegen. Code that takes such a lister takes these, unchanged:
//
//	import (
//		corev1listers "k8s.io/client-go/listers/core/v1"
//
//		corev1compat "github.com/typedinformer/informer/k8s/compat/core/v1"
//		corev1informers "github.com/typedinformer/informer/k8s/core/v1"
//	)
//
//	pods := corev1informers.NewPodInformer(client, informer.Config[*corev1.Pod]{})
//	var lister corev1listers.PodLister = corev1compat.NewPodLister(pods)
//
// The names of the interfaces are here, too, so code may also import these packages in the place of client-go's.
//
// Lists are ordered by namespace, then name. If objects may be missing because they could not be decoded, a list also
// returns an error, and Get an *informer.DecodeError. The methods that client-go adds to some listers, such as
// GetPodDaemonSets, copy the list of the namespace on each call.
//
// The types are those of package k8s, and three that no informer can have, because nobody can watch them: Eviction and
// ImageReview, which clients only create, and ComponentStatus. Their listers read stores that the program fills. In code
// that can change, the listers of package k8s are simpler, and link less: a program with these packages links client-go's
// listers and caches.
package compat

//go:generate go run -C ../../codegen . -C ../k8s/compat -output-dir . -compat -listers k8s.io/client-go/listers -exclude k8s.io/api/autoscaling/v2beta1.HorizontalPodAutoscaler,k8s.io/api/autoscaling/v2beta2.HorizontalPodAutoscaler,k8s.io/api/scheduling/v1alpha1.PriorityClass,k8s.io/api/scheduling/v1alpha1.Workload k8s.io/api/...

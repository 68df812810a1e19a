// Package k8s holds informers and listers of the types of Kubernetes itself: a package for each version of each API
// group of k8s.io/api, with what codegen writes for it. A program links only those that it imports.
//
//	import (
//		corev1 "k8s.io/api/core/v1"
//
//		corev1informers "github.com/typedinformer/informer/k8s/core/v1"
//	)
//
//	pods := corev1informers.NewPodInformer(client, informer.Config[*corev1.Pod]{})
//	lister := corev1informers.NewPodLister(pods)
//
// The types are those that every k8s.io/api from v0.35 to v0.37 has; codegen generates the same for others. ComponentStatus
// is left out, because the API server has no watch of it, and so is what cannot be listed at all, such as TokenReview.
package k8s

//go:generate go run -C ../codegen . -C ../k8s -output-dir . -exclude k8s.io/api/autoscaling/v2beta1.HorizontalPodAutoscaler,k8s.io/api/autoscaling/v2beta2.HorizontalPodAutoscaler,k8s.io/api/core/v1.ComponentStatus,k8s.io/api/scheduling/v1alpha1.PriorityClass,k8s.io/api/scheduling/v1alpha1.Workload k8s.io/api/...

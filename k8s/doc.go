// Package k8s holds the generated informers and listers of Kubernetes' own types. It has a package for each version of
// each API group of k8s.io/api. A program links only the packages that it imports.
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
// The packages contain the types common to k8s.io/api v0.35, v0.36 and v0.37; for others, use codegen. ComponentStatus
// is missing because the API server cannot watch it. Types that cannot be listed, such as TokenReview, are missing too.
package k8s

//go:generate go run -C ../codegen . -C ../k8s -output-dir . -exclude k8s.io/api/autoscaling/v2beta1.HorizontalPodAutoscaler,k8s.io/api/autoscaling/v2beta2.HorizontalPodAutoscaler,k8s.io/api/core/v1.ComponentStatus,k8s.io/api/scheduling/v1alpha1.PriorityClass,k8s.io/api/scheduling/v1alpha1.Workload k8s.io/api/...

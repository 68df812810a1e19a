package informer_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/typedinformer/informer"
)

// This program finds the services of a pod.
func ExampleNewSelectorIndex() {
	services, writer := informer.NewStore[*corev1.Service]()
	for name, selector := range map[string]map[string]string{
		"web":      {"app": "web"},
		"frontend": {"app": "web", "tier": "front"},
		"db":       {"app": "db"},
		"external": nil, // somebody else writes its endpoints
	} {
		err := writer.Apply(informer.Delta[*corev1.Service]{Type: informer.Upserted, Object: &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       corev1.ServiceSpec{Selector: selector},
		}})
		if err != nil {
			fmt.Println(err)
		}
	}

	selectors := informer.NewSelectorIndex(services, func(s *corev1.Service) (string, labels.Selector) {
		if len(s.Spec.Selector) == 0 {
			return s.Namespace, nil // it selects no pods
		}
		return s.Namespace, labels.SelectorFromSet(s.Spec.Selector)
	})
	for service := range selectors.Matching("default", labels.Set{"app": "web", "tier": "front"}) {
		fmt.Println(service.Name)
	}
	// Unordered output:
	// web
	// frontend
}

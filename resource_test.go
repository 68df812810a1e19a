package informer_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
)

func TestInvalidResourceNamesTheField(t *testing.T) {
	bubble(t, func(w world) {
		for want, r := range map[string]informer.Resource{
			"Resource.Resource is empty":                       {},
			"Resource.Version of pods is empty":                {GroupVersionResource: podGVR.GroupResource().WithVersion("")},
			`"../../secrets"`:                                  {GroupVersionResource: corev1.SchemeGroupVersion.WithResource("../../secrets")},
			"Resource.Namespaces[1] of pods is empty":          {GroupVersionResource: podGVR, Namespaces: []string{"a", ""}},
			`Resource.Namespaces[1] of pods repeats "a"`:       {GroupVersionResource: podGVR, Namespaces: []string{"a", "a"}},
			"Resource.LabelSelector of pods":                   {GroupVersionResource: podGVR, LabelSelector: "a in"},
			"Resource.FieldSelector of pods: invalid selector": {GroupVersionResource: podGVR, FieldSelector: "a"},
		} {
			inf := informer.New(w.client(), r, quiet[*corev1.Pod]())
			if err := inf.Run(w.Context()); err == nil || !strings.Contains(err.Error(), want) {
				w.Errorf("Run: %v, want %s", err, want)
			}
		}
	})
}

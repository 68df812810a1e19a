package main

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/informertest"
)

// perNamespace is the number of objects of each resource in a namespace.
const perNamespace = 100

// serve runs the server process, which ends with the process that started it.
func serve(o options) error {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	secrets := informertest.Register[*corev1.Secret](server, informertest.Resource{GroupVersionResource: secretsResource})
	configMaps := informertest.Register[*corev1.ConfigMap](server, informertest.Resource{GroupVersionResource: configMapsResource})
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range o.objects / 2 {
		m := meta(n)
		if _, err := secrets.Create(&corev1.Secret{ObjectMeta: m, Type: corev1.SecretTypeOpaque,
			Data: map[string][]byte{"data": text(rng, o.bytes)}}); err != nil {
			return err
		}
		if _, err := configMaps.Create(&corev1.ConfigMap{ObjectMeta: m,
			Data: map[string]string{"data": string(text(rng, o.bytes))}}); err != nil {
			return err
		}
	}
	fmt.Println(server.URL)
	select {}
}

// meta returns metadata as those of an object that a controller made.
func meta(n int) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: fmt.Sprintf("team-%04d", n/perNamespace),
		Name:      fmt.Sprintf("app-%05d", n),
		Labels: map[string]string{
			"app.kubernetes.io/name": fmt.Sprintf("app-%d", n%300), "app.kubernetes.io/managed-by": "Helm",
		},
		Annotations: map[string]string{"meta.helm.sh/release-name": fmt.Sprintf("app-%05d", n)},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps.example.com/v1", Kind: "App", Name: fmt.Sprintf("app-%05d", n), UID: "0c5b1b1a-1111-4222-8333-000000000000",
		}},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "helm", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:data":{".":{},"f:data":{}},"f:metadata":{"f:annotations":{".":{},"f:meta.helm.sh/release-name":{}},"f:labels":{".":{},"f:app.kubernetes.io/managed-by":{},"f:app.kubernetes.io/name":{}}}}`)},
		}},
	}
}

// text returns text that does not compress well, as keys and certificates do not.
func text(rng *rand.Rand, n int) []byte {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[rng.IntN(len(letters))]
	}
	return b
}

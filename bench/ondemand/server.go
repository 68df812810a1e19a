package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

var (
	secretResource    = informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets")}
	configMapResource = informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps")}
)

// key returns the key of object i of a resource.
func key(i int) informer.Key {
	return informer.Key{Namespace: fmt.Sprintf("team-%02d", i%50), Name: fmt.Sprintf("settings-%05d", i)}
}

// size returns the size of the data of an object: most have less than 2 kB, a few, such as releases and bundles of
// certificates, up to 200 kB. The mean is about 5 kB.
func size(random *rand.Rand) int {
	return min(int(1000*math.Exp(1.6*random.NormFloat64())), 200_000)
}

// serve serves Secrets and ConfigMaps until it is killed.
func serve(objects int) error {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	secrets := informertest.Register[*corev1.Secret](server,
		informertest.Resource{GroupVersionResource: secretResource.GroupVersionResource})
	configMaps := informertest.Register[*corev1.ConfigMap](server,
		informertest.Resource{GroupVersionResource: configMapResource.GroupVersionResource})
	random := rand.New(rand.NewPCG(1, 2))
	for i := range objects / 2 {
		k := key(i)
		meta := metav1.ObjectMeta{
			Namespace: k.Namespace, Name: k.Name,
			Labels:      map[string]string{"app.kubernetes.io/name": k.Name, "app.kubernetes.io/managed-by": "Helm"},
			Annotations: map[string]string{"meta.helm.sh/release-name": k.Name, "meta.helm.sh/release-namespace": k.Namespace},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "helm", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:data":{".":{},"f:content":{}},"f:metadata":{"f:annotations":{".":{},` +
					`"f:meta.helm.sh/release-name":{},"f:meta.helm.sh/release-namespace":{}},"f:labels":{".":{},` +
					`"f:app.kubernetes.io/managed-by":{},"f:app.kubernetes.io/name":{}}}}`),
			}},
		}
		content := make([]byte, size(random))
		for i := range content {
			content[i] = byte('a' + random.IntN(26))
		}
		if _, err := secrets.Create(&corev1.Secret{ObjectMeta: *meta.DeepCopy(), Type: corev1.SecretTypeOpaque,
			Data: map[string][]byte{"content": content}}); err != nil {
			return err
		}
		if _, err := configMaps.Create(&corev1.ConfigMap{ObjectMeta: meta,
			Data: map[string]string{"content": string(content)}}); err != nil {
			return err
		}
	}
	fmt.Println(server.URL)
	select {}
}

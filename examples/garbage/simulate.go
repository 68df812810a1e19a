package main

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/informertest"
)

// simulate starts a server with a few kinds. Some objects have lost their owners.
func simulate() *informertest.Server {
	server := informertest.NewServer(informertest.Options{InMemory: true})
	serve := func(version, resource, kind string, objects ...*unstructured.Unstructured) {
		gv, err := schema.ParseGroupVersion(version)
		if err != nil {
			panic(err)
		}
		c := informertest.Register[*unstructured.Unstructured](server, informertest.Resource{
			GroupVersionResource: gv.WithResource(resource), Kind: kind,
			ClusterScoped: strings.HasSuffix(gv.Group, ".k8s.io")})
		for _, obj := range objects {
			obj.SetAPIVersion(version)
			obj.SetKind(kind)
			if _, err := c.Create(obj); err != nil {
				panic(err) // the names are valid and different
			}
		}
	}
	// the set watches these for new kinds
	serve("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition")
	serve("apiregistration.k8s.io/v1", "apiservices", "APIService")

	const apps, shop = "apps/v1", "shop.example.com/v1"
	serve("v1", "configmaps", "ConfigMap", newObject("settings"), newObject("theme", shop+" Shop flowers"))
	serve("v1", "secrets", "Secret", newObject("key", shop+" Shop books", shop+" Shop flowers"))
	serve("v1", "pods", "Pod", newObject("web-1", apps+" ReplicaSet web-5d"),
		newObject("old-1", apps+" ReplicaSet old-7f"))
	serve(apps, "deployments", "Deployment", newObject("web"))
	serve(apps, "replicasets", "ReplicaSet", newObject("web-5d", apps+" Deployment web"),
		newObject("old-7f", apps+" Deployment old"))
	serve(shop, "shops", "Shop", newObject("books"))
	return server
}

// newObject returns an object whose UID is its name, with owners such as "apps/v1 Deployment web".
func newObject(name string, owners ...string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetNamespace("default")
	obj.SetName(name)
	obj.SetUID(types.UID(name))
	var refs []metav1.OwnerReference
	for _, owner := range owners {
		parts := strings.Fields(owner)
		refs = append(refs, metav1.OwnerReference{APIVersion: parts[0], Kind: parts[1], Name: parts[2],
			UID: types.UID(parts[2])})
	}
	obj.SetOwnerReferences(refs)
	return obj
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
	Resource: "customresourcedefinitions"}

// NewCRD returns the definition of a namespaced resource with one version, which is served and stored, and a schema
// that accepts everything. kind is singular, such as Widget for the resource widgets.
func NewCRD(resource schema.GroupVersionResource, kind string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": resource.GroupResource().String()},
		"spec": map[string]any{
			"group": resource.Group,
			"scope": "Namespaced",
			"names": map[string]any{
				"plural":   resource.Resource,
				"singular": strings.ToLower(kind),
				"kind":     kind,
				"listKind": kind + "List",
			},
			"versions": []any{map[string]any{
				"name":    resource.Version,
				"served":  true,
				"storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type":                                 "object",
					"x-kubernetes-preserve-unknown-fields": true,
				}},
			}},
		},
	}}
}

// InstallCRD creates the definition of a custom resource, such as one from [NewCRD]. It returns when the definition is
// Established and the server answers a list of each served version. ctx bounds the wait, which usually takes well under
// a second. If another definition has the names, InstallCRD returns an error at once.
//
// To remove the resource with all its objects, delete the definition: the API server removes the objects itself.
func InstallCRD(ctx context.Context, config *rest.Config, crd *unstructured.Unstructured) error {
	name := crd.GetName()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("cluster: client to install CRD %s: %w", name, err)
	}
	created, err := client.Resource(crdResource).Create(ctx, crd, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cluster: create CRD %s: %w", name, err)
	}
	if err := waitEstablished(ctx, client, created); err != nil {
		return fmt.Errorf("cluster: wait for CRD %s to be established: %w", name, err)
	}
	if err := waitServed(ctx, client, created); err != nil {
		return fmt.Errorf("cluster: wait for the resource of CRD %s to be served: %w", name, err)
	}
	return nil
}

func waitEstablished(ctx context.Context, client dynamic.Interface, crd *unstructured.Unstructured) error {
	watcher, err := client.Resource(crdResource).Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector("metadata.name", crd.GetName()).String(),
		ResourceVersion: crd.GetResourceVersion(),
	})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		obj, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return apierrors.FromObject(event.Object)
		}
		conditions, _, err := unstructured.NestedSlice(obj.Object, "status", "conditions")
		if err != nil {
			return err
		}
		for _, c := range conditions {
			condition, _ := c.(map[string]any)
			switch {
			case condition["type"] == "Established" && condition["status"] == "True":
				return nil
			case condition["type"] == "NamesAccepted" && condition["status"] == "False":
				return fmt.Errorf("its names are not accepted: %v", condition["message"])
			}
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.New("the watch ended")
}

// waitServed is needed after waitEstablished: the handlers of the API server watch the condition themselves, and answer
// 404 until they see it.
func waitServed(ctx context.Context, client dynamic.Interface, crd *unstructured.Unstructured) error {
	group, _, err := unstructured.NestedString(crd.Object, "spec", "group")
	if err != nil {
		return err
	}
	plural, _, err := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	if err != nil {
		return err
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return err
	}
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if version["served"] != true {
			continue
		}
		name, _ := version["name"].(string)
		resource := client.Resource(schema.GroupVersionResource{Group: group, Version: name, Resource: plural})
		for {
			_, err := resource.List(ctx, metav1.ListOptions{Limit: 1})
			if err == nil {
				break
			}
			if !apierrors.IsNotFound(err) {
				return err
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return fmt.Errorf("%w; last response: %w", context.Cause(ctx), err)
			}
		}
	}
	return nil
}

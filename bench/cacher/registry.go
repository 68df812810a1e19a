package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/server/routine"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	etcdfeature "k8s.io/apiserver/pkg/storage/feature"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
)

const (
	prefix   = "/pods"
	nodeName = "spec.nodeName"
)

var podResource = corev1.SchemeGroupVersion.WithResource("pods")

// newCacher returns the handler of kube-apiserver for pods: its list and watch handlers, its generic registry, and its
// Cacher over an in-memory storage. The settings of the Cacher are those of kube-apiserver for pods, with the index by
// node. Three differences reduce its work: pods are stored in the version in which they are served, so nothing is
// converted; the storage hands out decoded objects; and nothing compares the cache with the storage.
func newCacher(start []*corev1.Pod, rv uint64) (*source, error) {
	if err := utilfeature.DefaultMutableFeatureGate.Set("DetectCacheInconsistency=false"); err != nil {
		return nil, err
	}
	etcdfeature.DefaultFeatureSupportChecker = everything{etcdfeature.DefaultFeatureSupportChecker}
	scheme, err := podScheme()
	if err != nil {
		return nil, err
	}
	codecs := serializer.NewCodecFactory(scheme, serializer.WithStreamingCollectionEncodingToJSON(),
		serializer.WithStreamingCollectionEncodingToProtobuf())
	stored := newMemory(start, rv)
	cached, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage:             stored,
		Versioner:           storage.APIObjectVersioner{},
		GroupResource:       podResource.GroupResource(),
		EventsHistoryWindow: cacher.DefaultEventFreshDuration,
		ResourcePrefix:      prefix,
		KeyFunc:             func(obj runtime.Object) (string, error) { return keyOf(obj.(*corev1.Pod)), nil },
		GetAttrsFunc:        attributes,
		IndexerFuncs: storage.IndexerFuncs{
			nodeName: func(obj runtime.Object) string { return obj.(*corev1.Pod).Spec.NodeName },
		},
		Indexers: &cache.Indexers{
			storage.FieldIndex(nodeName): func(obj any) ([]string, error) {
				return []string{obj.(*corev1.Pod).Spec.NodeName}, nil
			},
		},
		NewFunc:     func() runtime.Object { return &corev1.Pod{} },
		NewListFunc: func() runtime.Object { return &corev1.PodList{} },
		Codec:       codecs.LegacyCodec(corev1.SchemeGroupVersion),
	})
	if err != nil {
		return nil, err
	}
	for !cached.Ready() {
		time.Sleep(time.Millisecond)
	}
	pods := &registry.Store{
		NewFunc:                  func() runtime.Object { return &corev1.Pod{} },
		NewListFunc:              func() runtime.Object { return &corev1.PodList{} },
		DefaultQualifiedResource: podResource.GroupResource(),
		KeyRootFunc:              func(ctx context.Context) string { return registry.NamespaceKeyRootFunc(ctx, prefix) },
		KeyFunc: func(ctx context.Context, name string) (string, error) {
			return registry.NamespaceKeyFunc(ctx, prefix, name)
		},
		PredicateFunc: func(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
			return storage.SelectionPredicate{
				Label: label, Field: field, GetAttrs: attributes, IndexFields: []string{nodeName},
			}
		},
		Storage: registry.DryRunnableStorage{Storage: cacher.NewCacheDelegator(cached, stored)},
	}
	scope := &handlers.RequestScope{
		Namer:            handlers.ContextBasedNaming{Namer: runtime.Namer(meta.NewAccessor())},
		Serializer:       codecs,
		ParameterCodec:   runtime.NewParameterCodec(scheme),
		Creater:          scheme,
		Convertor:        scheme,
		Defaulter:        scheme,
		Typer:            scheme,
		UnsafeConvertor:  runtime.UnsafeObjectConvertor(scheme),
		TableConvertor:   rest.NewDefaultTableConvertor(podResource.GroupResource()),
		Resource:         podResource,
		Kind:             corev1.SchemeGroupVersion.WithKind("Pod"),
		MetaGroupVersion: metav1.SchemeGroupVersion,
		HubGroupVersion:  corev1.SchemeGroupVersion,
	}
	handler := withRequestInfo(handlers.ListResource(pods, pods, scope, false, 30*time.Minute))
	return &source{handler: handler, put: stored.put}, nil
}

// everything is an etcd with all features.
type everything struct {
	etcdfeature.FeatureSupportChecker
}

func (everything) Supports(storage.Feature) bool { return true }

// podScheme returns a scheme with version 1 of the core group, in memory as on the wire.
func podScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	known := attributesOf(&corev1.Pod{})
	return scheme, scheme.AddFieldLabelConversionFunc(corev1.SchemeGroupVersion.WithKind("Pod"),
		func(label, value string) (string, string, error) {
			if !known.Has(label) {
				return "", "", fmt.Errorf("field label not supported: %s", label)
			}
			return label, value, nil
		})
}

// attributes returns what a request may select pods by, like kube-apiserver's registry of pods.
func attributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	pod := obj.(*corev1.Pod)
	return pod.Labels, attributesOf(pod), nil
}

func attributesOf(pod *corev1.Pod) fields.Set {
	hostNetwork := pod.Spec.HostNetwork
	return fields.Set{
		"metadata.name":            pod.Name,
		"metadata.namespace":       pod.Namespace,
		nodeName:                   pod.Spec.NodeName,
		"spec.restartPolicy":       string(pod.Spec.RestartPolicy),
		"spec.schedulerName":       pod.Spec.SchedulerName,
		"spec.serviceAccountName":  pod.Spec.ServiceAccountName,
		"spec.hostNetwork":         strconv.FormatBool(hostNetwork),
		"status.phase":             string(pod.Status.Phase),
		"status.podIP":             pod.Status.PodIP,
		"status.nominatedNodeName": pod.Status.NominatedNodeName,
	}
}

// withRequestInfo is the part of kube-apiserver's chain of handlers that list and watch need: it parses the path, and
// lets a watch go on with a small stack.
func withRequestInfo(next http.Handler) http.Handler {
	factory := &request.RequestInfoFactory{
		APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
	}
	next = routine.WithRoutine(next, func(_ *http.Request, info *request.RequestInfo) bool { return info.Verb == "watch" })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := factory.NewRequestInfo(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r.WithContext(request.WithRequestInfo(r.Context(), info)))
	})
}

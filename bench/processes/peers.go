package main

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/bench/internal/canned"
)

// peer is an implementation in one configuration.
type peer struct {
	name    string
	what    string // its description
	connect func(*rest.Config) (follow, error)
	formats []string // the formats that it decodes; nil means whole pods in JSON and protobuf
	env     []string
	next    bool // in the program that go.next.mod builds
}

func (p *peer) decodes(format string) bool {
	if p.formats == nil {
		return format != canned.Metadata
	}
	return slices.Contains(p.formats, format)
}

// Names of the peers that the goals compare.
const (
	clientGo            = "client-go"
	clientGoLIST        = "client-go, LIST"
	clientGoDropped     = "client-go, managedFields dropped"
	clientGoLISTDropped = "client-go, LIST, managedFields dropped"
	clientGoSlim        = "client-go, slim transform"
	clientGoMeta        = "client-go, metadata only"
	own                 = "informer"
	ownKept             = "informer, managedFields kept"
	ownLIST             = "informer, LIST"
	ownSeparate         = "informer, separate"
	ownCompact          = "informer, Compact"
	ownSlim             = "informer, slim struct"
	ownMeta             = "informer, metadata only"
)

// peers are all compared peers, in the order of the tables.
var peers = []peer{
	{name: "controller-runtime", what: "its cache with default settings: managedFields kept",
		connect: connectControllerRuntime(nil)},
	{name: "controller-runtime, managedFields dropped", what: "by TransformStripManagedFields",
		connect: connectControllerRuntime(cache.TransformStripManagedFields())},
	{name: clientGo, what: "SharedInformerFactory of a clientset with default settings: a streaming list, managedFields kept", connect: connectClientGo(nil)},
	{name: clientGoLIST, what: "the same with the feature gate WatchListClient off", connect: connectClientGo(nil),
		env: []string{"KUBE_FEATURE_WatchListClient=false"}},
	{name: clientGoDropped, what: "by a transform", connect: connectClientGo(dropManagedFields)},
	{name: clientGoLISTDropped, what: "both", connect: connectClientGo(dropManagedFields),
		env: []string{"KUBE_FEATURE_WatchListClient=false"}},
	{name: clientGoSlim, what: "a transform to a pod with namespace, name, uid, resourceVersion, labels, node and phase only", connect: connectClientGo(slimTransform)},
	{name: clientGoMeta, what: "SharedInformerFactory of its metadata client, managedFields kept", connect: connectMetadata,
		formats: []string{canned.Metadata}},
	{name: ownKept, what: "Config.KeepManagedFields",
		connect: connectInformer(informer.Config[*corev1.Pod]{KeepManagedFields: true})},
	{name: own, what: "default settings: a streaming list, managedFields dropped, objects share equal parts",
		connect: connectInformer(informer.Config[*corev1.Pod]{})},
	{name: ownSeparate, what: "default settings and LayoutSeparate",
		connect: connectInformer(informer.Config[*corev1.Pod]{Layout: informer.LayoutSeparate})},
	{name: ownCompact, what: "default settings and LayoutCompact",
		connect: connectInformer(informer.Config[*corev1.Pod]{Layout: informer.LayoutCompact})},
	{name: ownLIST, what: "default settings and Config.PagedList",
		connect: connectInformer(informer.Config[*corev1.Pod]{PagedList: true})},
	{name: ownSlim, what: "a custom struct with these fields only; in JSON, because it is not a protobuf message",
		connect: connectInformer(informer.Config[*slimPod]{}), formats: []string{canned.JSON}},
	{name: ownMeta, what: "default settings and metav1.PartialObjectMetadata: the server sends nothing else",
		connect: connectInformer(informer.Config[*metav1.PartialObjectMetadata]{}), formats: []string{canned.Metadata}},
}

package informertest

import (
	"cmp"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"k8s.io/apimachinery/pkg/version"

	"github.com/typedinformer/informer/watchcache"
)

// serverVersion is the version of Kubernetes that the server emulates.
var serverVersion = version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.2", GoVersion: "go1.26", Compiler: "gc",
	Platform: "linux/amd64"}

// names are the other names of a kind of Kubernetes itself.
type names struct {
	short      []string
	categories []string
}

var builtinNames = map[schema.GroupKind]names{
	{Kind: "ComponentStatus"}:       {short: []string{"cs"}},
	{Kind: "ConfigMap"}:             {short: []string{"cm"}},
	{Kind: "Endpoints"}:             {short: []string{"ep"}},
	{Kind: "Event"}:                 {short: []string{"ev"}},
	{Kind: "LimitRange"}:            {short: []string{"limits"}},
	{Kind: "Namespace"}:             {short: []string{"ns"}},
	{Kind: "Node"}:                  {short: []string{"no"}},
	{Kind: "PersistentVolume"}:      {short: []string{"pv"}},
	{Kind: "PersistentVolumeClaim"}: {short: []string{"pvc"}},
	{Kind: "Pod"}:                   {short: []string{"po"}, categories: []string{"all"}},
	{Kind: "ReplicationController"}: {short: []string{"rc"}, categories: []string{"all"}},
	{Kind: "ResourceQuota"}:         {short: []string{"quota"}},
	{Kind: "Service"}:               {short: []string{"svc"}, categories: []string{"all"}},
	{Kind: "ServiceAccount"}:        {short: []string{"sa"}},
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: {short: []string{"crd", "crds"},
		categories: []string{"api-extensions"}},
	{Group: "apps", Kind: "DaemonSet"}: {short: []string{"ds"},
		categories: []string{"all"}},
	{Group: "apps", Kind: "Deployment"}: {short: []string{"deploy"},
		categories: []string{"all"}},
	{Group: "apps", Kind: "ReplicaSet"}: {short: []string{"rs"},
		categories: []string{"all"}},
	{Group: "apps", Kind: "StatefulSet"}: {short: []string{"sts"},
		categories: []string{"all"}},
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: {short: []string{"hpa"},
		categories: []string{"all"}},
	{Group: "batch", Kind: "CronJob"}: {short: []string{"cj"},
		categories: []string{"all"}},
	{Group: "batch", Kind: "Job"}:                                     {categories: []string{"all"}},
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}: {short: []string{"csr"}},
	{Group: "networking.k8s.io", Kind: "Ingress"}:                     {short: []string{"ing"}},
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:               {short: []string{"netpol"}},
	{Group: "policy", Kind: "PodDisruptionBudget"}:                    {short: []string{"pdb"}},
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:               {short: []string{"pc"}},
	{Group: "storage.k8s.io", Kind: "StorageClass"}:                   {short: []string{"sc"}},
}

// serveOther serves paths outside of the registered resources. It returns false for an unknown path.
func (s *Server) serveOther(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet {
		return false
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) == 1 && slices.Contains([]string{"healthz", "livez", "readyz"}, parts[0]):
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(w, "ok")
	case len(parts) == 1 && parts[0] == "version":
		writeJSON(w, serverVersion)
	case len(parts) == 1 && (parts[0] == "api" || parts[0] == "apis"):
		s.serveGroups(w, r, parts[0] == "api")
	case len(parts) == 2 && parts[0] == "openapi" && parts[1] == "v3":
		writeJSON(w, s.openAPIIndex())
	case len(parts) > 3 && parts[0] == "openapi" && parts[1] == "v3":
		document, err := s.openAPIDocument(strings.Join(parts[2:], "/"))
		switch {
		case err != nil:
			watchcache.WriteError(w, r, err)
		case document == nil:
			return false
		default:
			writeJSON(w, document)
		}
	case len(parts) == 2 && parts[0] == "api":
		return s.serveVersion(w, r, schema.GroupVersion{Version: parts[1]})
	case len(parts) == 2 && parts[0] == "apis":
		return s.serveGroup(w, r, parts[1])
	case len(parts) == 3 && parts[0] == "apis":
		return s.serveVersion(w, r, schema.GroupVersion{Group: parts[1], Version: parts[2]})
	default:
		return false
	}
	return true
}

// Resources returns the resources that the server serves, ordered by group, then version with the newest first, then
// name.
func (s *Server) Resources() []Resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Resource
	for _, c := range s.collections {
		all = append(all, c.resource)
	}
	for _, r := range s.reviews {
		all = append(all, r.resource)
	}
	slices.SortFunc(all, func(a, b Resource) int {
		return cmp.Or(
			cmp.Compare(a.Group, b.Group),
			-version.CompareKubeAwareVersionStrings(a.Version, b.Version),
			cmp.Compare(a.Resource, b.Resource),
		)
	})
	return all
}

// errAway is what kube-apiserver answers for an APIService whose API server does not answer.
var errAway = apierrors.NewServiceUnavailable("service unavailable")

// SetAway makes the registered resources of an API version behave as those of an APIService whose API server does not
// answer, or does again. Meanwhile, their requests and the document of the version fail with 503 Service Unavailable,
// and aggregated discovery has the resources that it knew, with the freshness Stale. Open watches of them end.
func (s *Server) SetAway(gv schema.GroupVersion, away bool) {
	s.eachCollection(func(c *collection) {
		if c.resource.GroupVersion() != gv {
			return
		}
		if c.away = away; away {
			c.cache.EndWatches()
		}
	})
}

// isAway reports whether SetAway holds for a version.
func (s *Server) isAway(gv schema.GroupVersion) (away bool) {
	s.eachCollection(func(c *collection) { away = away || c.away && c.resource.GroupVersion() == gv })
	return away
}

// groups returns the API groups of the resources.
func groups(all []Resource) (groups []metav1.APIGroup) {
	for _, r := range all {
		if len(groups) == 0 || groups[len(groups)-1].Name != r.Group {
			groups = append(groups, metav1.APIGroup{Name: r.Group})
		}
		group := &groups[len(groups)-1]
		v := metav1.GroupVersionForDiscovery{GroupVersion: r.GroupVersion().String(), Version: r.Version}
		if !slices.Contains(group.Versions, v) {
			group.Versions = append(group.Versions, v)
		}
		group.PreferredVersion = group.Versions[0]
	}
	return groups
}

// serveGroups serves /api for the core group, or /apis for the others.
func (s *Server) serveGroups(w http.ResponseWriter, r *http.Request, core bool) {
	all := slices.DeleteFunc(s.Resources(), func(r Resource) bool { return (r.Group == "") != core })
	if accepts(r, "APIGroupDiscoveryList") {
		s.serveAggregated(w, r, aggregated(all))
		return
	}
	if core {
		versions := metav1.APIVersions{
			Versions:                   []string{},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: r.Host}},
		}
		for _, group := range groups(all) {
			for _, v := range group.Versions {
				versions.Versions = append(versions.Versions, v.Version)
			}
		}
		// without a version, as kube-apiserver
		writeTyped(w, r, http.StatusOK, schema.GroupVersionKind{Kind: "APIVersions"}, &versions)
		return
	}
	list := metav1.APIGroupList{Groups: groups(all)}
	if list.Groups == nil {
		list.Groups = []metav1.APIGroup{}
	}
	writeTyped(w, r, http.StatusOK, schema.GroupVersionKind{Version: "v1", Kind: "APIGroupList"}, &list)
}

// serveAggregated serves an aggregated document, unless the client has it.
func (s *Server) serveAggregated(w http.ResponseWriter, r *http.Request, list *apidiscovery.APIGroupDiscoveryList) {
	for _, group := range list.Items {
		for i := range group.Versions {
			if s.isAway(schema.GroupVersion{Group: group.Name, Version: group.Versions[i].Version}) {
				group.Versions[i].Freshness = apidiscovery.DiscoveryFreshnessStale
			}
		}
	}
	body, err := json.Marshal(list)
	if err != nil {
		panic(err) // it is no type of the user's
	}
	tag := fmt.Sprintf(`"%X"`, sha512.Sum512(body))
	w.Header().Set("ETag", tag)
	w.Header().Set("Vary", "Accept")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	w.Write(body)
}

func (s *Server) serveGroup(w http.ResponseWriter, r *http.Request, name string) bool {
	for _, group := range groups(s.Resources()) {
		if group.Name == name && name != "" {
			writeTyped(w, r, http.StatusOK, schema.GroupVersionKind{Version: "v1", Kind: "APIGroup"}, &group)
			return true
		}
	}
	return false
}

func (s *Server) serveVersion(w http.ResponseWriter, r *http.Request, gv schema.GroupVersion) bool {
	if s.isAway(gv) {
		watchcache.WriteError(w, r, errAway)
		return true
	}
	list := metav1.APIResourceList{GroupVersion: gv.String()}
	for _, r := range s.Resources() {
		if r.GroupVersion() == gv {
			list.APIResources = append(list.APIResources, r.discovery()...)
		}
	}
	if list.APIResources == nil {
		return false
	}
	writeTyped(w, r, http.StatusOK, schema.GroupVersionKind{Version: "v1", Kind: "APIResourceList"}, &list)
	return true
}

var (
	resourceVerbs = metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	statusVerbs   = metav1.Verbs{"get", "patch", "update"}
)

// discovery returns the resource's entries in an APIResourceList: the resource itself, and its status.
func (r Resource) discovery() []metav1.APIResource {
	entries := []metav1.APIResource{{
		Name:         r.Resource,
		SingularName: r.singular(),
		Namespaced:   !r.ClusterScoped,
		Kind:         r.Kind,
		Verbs:        r.allVerbs(),
		ShortNames:   r.ShortNames,
		Categories:   r.categories(),
	}}
	if r.StatusSubresource {
		entries = append(entries, metav1.APIResource{Name: r.Resource + "/status", Namespaced: !r.ClusterScoped, Kind: r.Kind,
			Verbs: statusVerbs})
	}
	for _, s := range r.subresources() {
		entries = append(entries, s.discovery(r))
	}
	slices.SortFunc(entries, func(a, b metav1.APIResource) int { return cmp.Compare(a.Name, b.Name) })
	return entries
}

func (r Resource) allVerbs() metav1.Verbs {
	if r.verbs != nil {
		return r.verbs
	}
	return resourceVerbs
}

func (r Resource) singular() string { return cmp.Or(r.Singular, strings.ToLower(r.Kind)) }

func (r Resource) categories() []string {
	if r.Categories != nil {
		return r.Categories
	}
	return builtinNames[schema.GroupKind{Group: r.Group, Kind: r.Kind}].categories
}

// aggregated returns aggregated discovery of the resources (KEP-3352).
func aggregated(all []Resource) *apidiscovery.APIGroupDiscoveryList {
	list := &apidiscovery.APIGroupDiscoveryList{Items: []apidiscovery.APIGroupDiscovery{}}
	list.SetGroupVersionKind(apidiscovery.SchemeGroupVersion.WithKind("APIGroupDiscoveryList"))
	for _, r := range all {
		if n := len(list.Items); n == 0 || list.Items[n-1].Name != r.Group {
			list.Items = append(list.Items, apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: r.Group}})
		}
		group := &list.Items[len(list.Items)-1]
		if n := len(group.Versions); n == 0 || group.Versions[n-1].Version != r.Version {
			group.Versions = append(group.Versions, apidiscovery.APIVersionDiscovery{Version: r.Version,
				Freshness: apidiscovery.DiscoveryFreshnessCurrent})
		}
		version := &group.Versions[len(group.Versions)-1]
		kind := &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
		entry := apidiscovery.APIResourceDiscovery{
			Resource:         r.Resource,
			ResponseKind:     kind,
			Scope:            apidiscovery.ScopeNamespace,
			SingularResource: r.singular(),
			Verbs:            r.allVerbs(),
			ShortNames:       r.ShortNames,
			Categories:       r.categories(),
		}
		if r.ClusterScoped {
			entry.Scope = apidiscovery.ScopeCluster
		}
		for _, sub := range r.discovery()[1:] {
			entry.Subresources = append(entry.Subresources, aggregatedSubresource(r, sub))
		}
		version.Resources = append(version.Resources, entry)
	}
	return list
}

func aggregatedSubresource(r Resource, entry metav1.APIResource) apidiscovery.APISubresourceDiscovery {
	kind := metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: entry.Kind}
	if entry.Version != "" {
		kind.Group, kind.Version = entry.Group, entry.Version
	}
	_, name, _ := strings.Cut(entry.Name, "/")
	return apidiscovery.APISubresourceDiscovery{Subresource: name, ResponseKind: &kind, Verbs: entry.Verbs}
}

// accepts reports whether a request accepts JSON of that kind of apidiscovery.k8s.io/v2.
func accepts(r *http.Request, kind string) bool {
	for text := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		mediaType, params, err := mime.ParseMediaType(text)
		if err == nil && mediaType == runtime.ContentTypeJSON &&
			params["g"] == apidiscovery.GroupName && params["v"] == "v2" && params["as"] == kind {
			return true
		}
	}
	return false
}

// writeTyped writes an object of a generated type, in protobuf if the request accepts only that.
func writeTyped(w http.ResponseWriter, r *http.Request, code int, kind schema.GroupVersionKind, obj interface {
	runtime.Object
	Marshal() ([]byte, error)
}) {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if !strings.Contains(accept, runtime.ContentTypeProtobuf) || strings.Contains(accept, runtime.ContentTypeJSON) ||
		strings.Contains(accept, "*/*") {
		obj.GetObjectKind().SetGroupVersionKind(kind)
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(obj)
		return
	}
	raw, err := obj.Marshal()
	if err != nil {
		panic(err) // it is no type of the user's
	}
	body := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind},
		Raw: raw}
	encoded, err := body.Marshal()
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	w.WriteHeader(code)
	w.Write(append([]byte("k8s\x00"), encoded...))
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	json.NewEncoder(w).Encode(value)
}

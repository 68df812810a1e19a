package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/health"
	"github.com/typedinformer/informer/status"
	"github.com/typedinformer/informer/watchcache"
)

// proxy follows collections of one API server and serves them to GET requests.
type proxy struct {
	collections []*collection // in the order of their API groups
	version     *version.Info
	client      *informer.Client
	metrics     *metrics
	log         *slog.Logger
}

// collection is a watchcache.Cache of some type and the Reflector that fills it.
type collection struct {
	schema.GroupVersionResource
	info metav1.APIResource

	fresh  *freshness
	run    func(ctx context.Context) error
	status func() status.Reflector
	list   func(w http.ResponseWriter, r *http.Request, namespace string)
	get    func(w http.ResponseWriter, r *http.Request, key informer.Key)
	rv     func() string
	len    func() int
	stats  func() watchcache.Stats

	endWatches func()
}

// informerStatus returns the status for package informerprom.
func (c *collection) informerStatus() informer.InformerStatus {
	reflector := c.status()
	return informer.InformerStatus{
		Resource: informer.Resource{GroupVersionResource: c.GroupVersionResource}, Synced: c.rv() != "0",
		ResourceVersion: c.rv(), Objects: c.len(), Reflectors: []status.Reflector{reflector},
	}
}

// newProxy discovers the resources on the API server. It follows nothing before run.
func newProxy(ctx context.Context, config *rest.Config, resources []schema.GroupVersionResource, window int,
	log *slog.Logger, m *metrics) (*proxy, error) {
	client, err := informer.NewClient(config)
	if err != nil {
		return nil, err
	}
	discover, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	p := &proxy{client: client, metrics: m, log: log}
	if p.version, err = discover.ServerVersion(); err != nil {
		return nil, fmt.Errorf("get the version of %s: %w", config.Host, err)
	}
	for _, gvr := range resources {
		if slices.ContainsFunc(p.collections, func(c *collection) bool { return c.GroupVersionResource == gvr }) {
			return nil, fmt.Errorf("%s is named twice", gvr.GroupResource())
		}
		list, err := discover.ServerResourcesForGroupVersion(gvr.GroupVersion().String())
		if err != nil {
			return nil, fmt.Errorf("get the resources of %[2]s from %[1]s: %[3]w", config.Host, gvr.GroupVersion(), err)
		}
		i := slices.IndexFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == gvr.Resource })
		if i < 0 {
			return nil, fmt.Errorf("%s has no resource %s in %s", config.Host, gvr.Resource, gvr.GroupVersion())
		}
		// Typed collections are also read and served in protobuf, which is several times cheaper. They lose fields that are
		// newer than the Go type.
		var c *collection
		switch info := list.APIResources[i]; gvr {
		case corev1.SchemeGroupVersion.WithResource("pods"):
			c, err = follow[*corev1.Pod](client, gvr, info, window, log)
		case corev1.SchemeGroupVersion.WithResource("configmaps"):
			c, err = follow[*corev1.ConfigMap](client, gvr, info, window, log)
		case corev1.SchemeGroupVersion.WithResource("nodes"):
			c, err = follow[*corev1.Node](client, gvr, info, window, log)
		case corev1.SchemeGroupVersion.WithResource("services"):
			c, err = follow[*corev1.Service](client, gvr, info, window, log)
		default:
			c, err = follow[*unstructured.Unstructured](client, gvr, info, window, log)
		}
		if err != nil {
			return nil, err
		}
		base, _, err := rest.DefaultServerUrlFor(config)
		if err != nil {
			return nil, err
		}
		if gvr.Group == "" {
			base = base.JoinPath("api", gvr.Version, gvr.Resource)
		} else {
			base = base.JoinPath("apis", gvr.Group, gvr.Version, gvr.Resource)
		}
		fresh, err := newFreshness(config, base)
		if err != nil {
			return nil, err
		}
		fresh.cached, fresh.advance, c.fresh = c.fresh.cached, c.fresh.advance, fresh
		p.collections = append(p.collections, c)
	}
	slices.SortStableFunc(p.collections, func(a, b *collection) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), -version.CompareKubeAwareVersionStrings(a.Version, b.Version))
	})
	return p, nil
}

// follow prepares a collection of objects of type T.
func follow[T watchcache.Object](client *informer.Client, gvr schema.GroupVersionResource, info metav1.APIResource,
	window int, log *slog.Logger) (*collection, error) {
	cache := watchcache.New[T](watchcache.Config{GroupVersionResource: gvr, Kind: info.Kind, Window: window})
	reflector, err := informer.NewReflector(client, informer.Resource{GroupVersionResource: gvr}, cache,
		informer.Config[T]{
			KeepManagedFields: true, // serve objects unchanged
			Logger:            log,
		})
	if err != nil {
		return nil, err
	}
	info.Verbs = metav1.Verbs{"get", "list", "watch"}
	cached := func() uint64 {
		rv, _ := strconv.ParseUint(cache.ResourceVersion(), 10, 64) // it is a number
		return rv
	}
	return &collection{
		GroupVersionResource: gvr, info: info,
		fresh: &freshness{cached: cached, advance: func(from, to uint64) {
			if cached() == from {
				// it is a number
				_ = cache.Put(context.Background(), informer.Delta[T]{Type: informer.Bookmarked,
					ResourceVersion: strconv.FormatUint(to, 10)})
			}
		}},
		run: reflector.Run, status: reflector.Status,
		list: cache.ServeList, get: cache.ServeObject,
		rv: cache.ResourceVersion, len: cache.Len, stats: cache.Stats, endWatches: cache.EndWatches,
	}, nil
}

// run follows the collections until ctx ends.
func (p *proxy) run(ctx context.Context) error {
	tasks, taskCtx := errgroup.WithContext(ctx)
	for _, c := range p.collections {
		tasks.Go(func() error { return c.run(taskCtx) })
	}
	err := tasks.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// probes returns the checks of the probes. A collection that is ready once stays ready even if the API server fails:
// the proxy then serves the last known state.
func (p *proxy) probes() (config health.Config) {
	for _, c := range p.collections {
		config.ReadyChecks = append(config.ReadyChecks, health.Check{Name: c.GroupResource().String(),
			Func: func(*http.Request) error {
				if c.rv() == "0" {
					return errors.New("not listed yet")
				}
				return nil
			}})
	}
	return config
}

// report prints the state, one line per collection.
func (p *proxy) report(out io.Writer) {
	for _, c := range p.collections {
		status := c.status()
		fmt.Fprintf(out, "%s: %d objects at %s, %v for %v; %d watchers\n",
			c.GroupResource(), c.len(), c.rv(), status.State, time.Since(status.Since).Round(time.Second), c.stats().Watchers)
	}
}

// route is the target of a request.
type route struct {
	*collection              // nil for discovery, and for unfollowed resources
	verb        string       // get, list or watch
	key         informer.Key // without a name for a list or watch
	parts       []string     // of the path
}

// route returns the target of a request: /api/VERSION/ or /apis/GROUP/VERSION/, then
// [namespaces/NAMESPACE/]RESOURCE[/NAME].
func (p *proxy) route(r *http.Request) route {
	to := route{parts: strings.Split(strings.Trim(r.URL.Path, "/"), "/")}
	var gv schema.GroupVersion
	parts := to.parts
	switch {
	case parts[0] == "api" && len(parts) > 2:
		gv, parts = schema.GroupVersion{Version: parts[1]}, parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		gv, parts = schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	default:
		return to
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		to.key.Namespace, parts = parts[1], parts[2:]
	}
	for _, c := range p.collections {
		namespaced := to.key.Namespace != ""
		switch {
		case c.GroupVersionResource != gv.WithResource(parts[0]) || len(parts) > 2 || namespaced && !c.info.Namespaced:
		case len(parts) == 1:
			to.collection, to.verb = c, "list"
			if isWatch(r) {
				to.verb = "watch"
			}
		case namespaced == c.info.Namespaced && parts[1] != "":
			to.collection, to.verb, to.key.Name = c, "get", parts[1]
		}
	}
	return to
}

// serve answers a request that was routed.
func (p *proxy) serve(w http.ResponseWriter, r *http.Request, to route) {
	out := &writer{ResponseWriter: w}
	defer out.observe(p.metrics, to)
	if to.verb == "watch" {
		out.timeout = writeTimeout
	} else {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(listTimeout)) // ends with the request
	}
	if to.collection == nil {
		p.discover(out, r, to.parts)
		return
	}
	if err := to.freshen(r); err != nil {
		p.log.Warn("cannot get the newest version from the API server", "resource", to.GroupResource(), "err", err)
		watchcache.WriteError(out, r, apierrors.NewServiceUnavailable("cannot get the newest version from the API server"))
		return
	}
	if to.verb == "get" {
		to.get(out, r, to.key)
		return
	}
	to.list(out, r, to.key.Namespace)
}

// freshen gives a request without a resource version the newest one: the cache then waits until it has that version.
func (to *route) freshen(r *http.Request) error {
	query := r.URL.Query()
	opts, err := listOptions(query)
	switch {
	case err != nil, opts.ResourceVersion != "" || opts.Continue != "" || to.rv() == "0",
		to.verb == "list" && opts.ResourceVersionMatch != "",                                   // an error
		to.verb == "watch" && opts.SendInitialEvents != nil && !*opts.SendInitialEvents,        // it may begin at any version
		to.verb == "watch" && opts.SendInitialEvents == nil && opts.ResourceVersionMatch != "": // an error
		return nil
	}
	newest, err := to.fresh.newest(r.Context())
	if err != nil {
		return err
	}
	query.Set("resourceVersion", strconv.FormatUint(newest, 10))
	if to.verb == "watch" && opts.SendInitialEvents == nil { // without a version, a watch begins with the objects
		query.Set("sendInitialEvents", "true")
	}
	if to.verb != "get" && opts.ResourceVersionMatch == "" {
		query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchNotOlderThan))
	}
	r.URL.RawQuery = query.Encode()
	return nil
}

func listOptions(query url.Values) (opts metav1.ListOptions, err error) {
	err = metav1.Convert_url_Values_To_v1_ListOptions(&query, &opts, nil)
	return opts, err
}

func isWatch(r *http.Request) bool {
	opts, err := listOptions(r.URL.Query())
	return err == nil && opts.Watch
}

// discover answers discovery requests, such as kubectl's.
func (p *proxy) discover(w http.ResponseWriter, r *http.Request, parts []string) {
	var answer any
	switch {
	case len(parts) == 1 && parts[0] == "version":
		answer = p.version
	case len(parts) == 1 && parts[0] == "api":
		versions := []string{}
		for _, g := range p.groups() {
			for _, v := range g.Versions {
				if g.Name == "" {
					versions = append(versions, v.Version)
				}
			}
		}
		answer = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: versions}
	case len(parts) == 1 && parts[0] == "apis":
		groups := slices.DeleteFunc(p.groups(), func(g metav1.APIGroup) bool { return g.Name == "" })
		answer = metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: groups}
	case len(parts) == 2 && parts[0] == "api":
		answer = p.resources(schema.GroupVersion{Version: parts[1]})
	case len(parts) == 3 && parts[0] == "apis":
		answer = p.resources(schema.GroupVersion{Group: parts[1], Version: parts[2]})
	}
	if list, isList := answer.(*metav1.APIResourceList); answer == nil || isList && list.APIResources == nil {
		watchcache.WriteError(w, r, notFound())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(answer)
}

// notFound is the error for unfollowed resources and unknown paths.
func notFound() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusNotFound,
		Reason:  metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource",
	}}
}

func (p *proxy) groups() []metav1.APIGroup {
	groups := []metav1.APIGroup{}
	for _, c := range p.collections {
		if n := len(groups); n == 0 || groups[n-1].Name != c.Group {
			groups = append(groups, metav1.APIGroup{Name: c.Group})
		}
		group := &groups[len(groups)-1]
		v := metav1.GroupVersionForDiscovery{GroupVersion: c.GroupVersion().String(), Version: c.Version}
		if !slices.Contains(group.Versions, v) {
			group.Versions = append(group.Versions, v)
		}
		group.PreferredVersion = group.Versions[0]
	}
	return groups
}

func (p *proxy) resources(gv schema.GroupVersion) *metav1.APIResourceList {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: gv.String()}
	for _, c := range p.collections {
		if c.GroupVersion() == gv {
			list.APIResources = append(list.APIResources, c.info)
		}
	}
	return list
}

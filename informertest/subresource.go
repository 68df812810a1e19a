package informertest

import (
	"encoding/json"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/watchcache"
)

// subresource is a subresource of a kind of Kubernetes itself, other than status.
type subresource struct {
	name  string
	kind  schema.GroupVersionKind // what it takes and returns; empty means the kind of the resource
	verbs metav1.Verbs
	// part, if not nil, returns old with what a write to the subresource takes from obj. The subresource is then read and
	// written like the object itself.
	part func(c *collection, old, obj object) (object, error)
	// serve, if part is nil, serves every verb.
	serve func(c *collection, w http.ResponseWriter, r *http.Request, req Request, opts writeOptions) error
}

var createVerb = metav1.Verbs{"create"}

// subresources returns the subresources of the resource, other than status.
func (r Resource) subresources() []subresource {
	var all []subresource
	switch r.GroupResource() {
	case schema.GroupResource{Resource: "pods"}:
		all = []subresource{bindingSubresource, ephemeralContainersSubresource, evictionSubresource}
	case namespaces.GroupResource():
		all = []subresource{finalizeSubresource}
	case schema.GroupResource{Resource: "serviceaccounts"}:
		all = []subresource{tokenSubresource}
	case schema.GroupResource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}:
		all = []subresource{approvalSubresource}
	}
	if r.scalePaths() != nil {
		all = append(all, scaleSubresource)
	}
	return all
}

// subresource returns the subresource of that name.
func (r Resource) subresource(name string) (subresource, bool) {
	all := r.subresources()
	if i := slices.IndexFunc(all, func(s subresource) bool { return s.name == name }); i >= 0 {
		return all[i], true
	}
	return subresource{}, false
}

// discovery returns the entry of the subresource in an APIResourceList.
func (s subresource) discovery(r Resource) metav1.APIResource {
	entry := metav1.APIResource{
		Name:       r.Resource + "/" + s.name,
		Namespaced: !r.ClusterScoped,
		Kind:       r.Kind,
		Verbs:      s.verbs,
	}
	if s.kind.Kind != "" {
		entry.Kind = s.kind.Kind
		if s.kind.GroupVersion() != r.GroupVersion() {
			entry.Group, entry.Version = s.kind.Group, s.kind.Version
		}
	}
	return entry
}

func (c *collection) serveSubresource(w http.ResponseWriter, r *http.Request, req Request, opts writeOptions,
	s subresource) error {
	if !slices.Contains(s.verbs, req.Verb) {
		return apierrors.NewMethodNotSupported(c.resource.GroupResource(), req.Verb)
	}
	if s.part == nil {
		return s.serve(c, w, r, req, opts)
	}
	opts.part = func(old, obj object) (object, error) { return s.part(c, old, obj) }
	return c.serveVerb(w, r, req, opts)
}

// readCreate decodes the body of a request that creates a subresource, and adds its options to opts.
func readCreate(r *http.Request, req Request, into any, opts *writeOptions) error {
	var options metav1.CreateOptions
	err := metav1.Convert_url_Values_To_v1_CreateOptions(&req.Query, &options, nil)
	if err := checkOptions("CreateOptions", err, validation.ValidateCreateOptions(&options)); err != nil {
		return err
	}
	opts.dryRun = len(options.DryRun) > 0
	body, mediaType, err := readBody(r)
	if err != nil {
		return err
	}
	return decode(body, mediaType, into)
}

// writeCreated writes the status that says that a subresource was created.
func writeCreated(w http.ResponseWriter, r *http.Request) {
	watchcache.WriteStatus(w, r, metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated})
}

// into decodes an object into another type of its kind, which may be the type that it has.
func (c *collection) into(obj object, typed any) error {
	b, err := c.marshal(obj)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, typed)
}

// from returns an object of the collection with the content of another type.
func (c *collection) from(typed any) (object, error) {
	b, err := json.Marshal(typed)
	if err != nil {
		return nil, err
	}
	obj := c.newObject()
	return obj, decode(b, runtime.ContentTypeJSON, obj)
}

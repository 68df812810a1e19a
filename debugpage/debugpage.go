package debugpage

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/leader"
	"github.com/typedinformer/informer/manager"
	"github.com/typedinformer/informer/shard"
	"github.com/typedinformer/informer/status"
)

// Config says what the page shows. The handler calls its functions at each request, concurrently. Do not change it
// after [New]. The zero value shows the memory of the process, and nothing else.
type Config struct {
	// Name is the title of the page. Empty means the name of the program's file.
	Name string
	// Informers are the Status methods of informers outside of groups.
	Informers []func() informer.InformerStatus
	// Groups are the Status methods of groups. Informers that join later are shown, too.
	Groups []func() []informer.InformerStatus
	// Sets are the Members methods of sets of informers, such as those of packages fleet and kinds, by names that you choose.
	// Of each set, the page shows the informers of 100 members at most, those with problems first.
	Sets map[string]func() []informer.MemberStatus
	// Controllers are the Status methods of controllers. They have the status of their queues.
	Controllers []func() status.Controller
	// Queues are the Status methods of queues that no controller uses.
	Queues []func() status.Queue
	// Clients are the Status methods of clients.
	Clients []func() status.Client
	// Replicas are the Status methods of replicas that share objects.
	Replicas []func() shard.Status
	// Hosts are the hosts that the URL of the page may have, beside localhost and the addresses of loopback: names such as
	// "debug.example.com" or "web.shop.svc", addresses, and ranges of addresses such as "10.244.0.0/16". Ports do not
	// matter. Nil means loopback only, which is enough for kubectl port-forward. Requests with another Host header receive
	// 421, except on a Unix socket: otherwise any web page could have a browser read this one (DNS rebinding).
	Hosts []string
	// Managers are the Status methods of managers. They have the status of their electors.
	Managers []func() manager.Status
	// Electors are the Status methods of electors that no manager uses.
	Electors []func() leader.Status
	// Objects are the informers whose objects the page may show to callers whom Authorize admits. See [Objects].
	Objects []Source
	// Authorize reports whether the sender of a request may see objects, the keys of objects, indexes and queues, and the
	// text of errors. Nil means that nobody may. Others see the rest of the page: whoever reaches the handler may see
	// that. Package review has one that asks the API server, as the components of Kubernetes do.
	Authorize func(*http.Request) bool
	// Mask are resources whose content is masked like that of Secrets and ConfigMaps.
	Mask []schema.GroupResource
	// Unmask reports whether the sender of a request, whom Authorize has admitted, may see the masked values of a
	// resource, and the keys of indexes of such objects. For a Secret or ConfigMap in the store of another resource, it is
	// called with the resource secrets or configmaps, too, and must return true for both. It is also asked for the keys of
	// masked objects that audits have found. It is called at most once for each request and resource. Nil means that
	// nobody may.
	Unmask func(r *http.Request, resource schema.GroupResource) bool
	// MaxObjectBytes is the size of an object's JSON that the page shows at most. Zero means 1 MiB. Negative means no
	// limit.
	MaxObjectBytes int
}

const (
	maxRequests    = 8                // JSON answers at a time
	writeTimeout   = 10 * time.Second // for a client to read an answer
	maxObjectBytes = 1 << 20          // the default of Config.MaxObjectBytes
)

// New returns a handler for the page and its JSON. Mount it at a path that ends in a slash, with or without
// http.StripPrefix. It starts no goroutine, and is safe for concurrent use.
//
// At most 8 JSON answers are under way. Further requests receive 503, and the page repeats them. A client has 10
// seconds to read an answer. So clients that do not read hold a bounded amount of memory. If middleware wraps the
// http.ResponseWriter, the wrapper needs an Unwrap method for that deadline.
func New(config Config) http.Handler {
	if config.Name == "" {
		config.Name = filepath.Base(os.Args[0])
	}
	if config.MaxObjectBytes == 0 {
		config.MaxObjectBytes = maxObjectBytes
	}
	return &handler{config: config, hosts: newHosts(config.Hosts), stores: storesOf(config.Objects),
		slots: make(chan struct{}, maxRequests)}
}

// handler serves the page. The last element of a request's path selects what it answers.
type handler struct {
	config Config
	hosts  hosts
	stores []store
	slots  chan struct{} // one for each JSON answer under way
}

//go:embed page
var page embed.FS

// policy allows the files of the page, and nothing else: no inline script or style, no frame, and no string as HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	// An error means that w has no deadlines, as in a test.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	if !h.hosts.allow(r) {
		writeError(w, failure(http.StatusMisdirectedRequest,
			"the host of this URL is not localhost, and debugpage.Config.Hosts does not have it: add it there, or use kubectl port-forward"))
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		writeError(w, failure(http.StatusMethodNotAllowed, "only GET and HEAD are allowed"))
		return
	}
	if r.URL.Path == "" && redirected(w, r) { // http.StripPrefix removed the whole path
		return
	}
	switch name := lastElement(r.URL.Path); name {
	case "status.json":
		h.serveJSON(w, r, h.status)
	case "keys.json":
		h.serveJSON(w, r, h.keys)
	case "objects.json":
		h.serveJSON(w, r, h.objects)
	case "object.json":
		h.serveJSON(w, r, h.object)
	case "":
		writeFile(w, "index.html")
	default:
		writeFile(w, name)
	}
}

// lastElement returns what follows the last slash of a path.
func lastElement(p string) string {
	_, name := path.Split(p)
	return name
}

// redirected adds a slash to the path that the client requested, because the links of the page are relative. It reports
// whether that was needed.
func redirected(w http.ResponseWriter, r *http.Request) bool {
	requested, err := url.ParseRequestURI(r.RequestURI)
	if err != nil || lastElement(requested.Path) == "" {
		return false
	}
	w.Header().Set("Location", "./"+url.PathEscape(lastElement(requested.Path))+"/")
	w.WriteHeader(http.StatusMovedPermanently)
	return true
}

// contentTypes are the types of the files of the page. Those of package mime depend on the machine.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// writeFile writes a file of the page.
func writeFile(w http.ResponseWriter, name string) {
	content, err := page.ReadFile("page/" + name)
	if err != nil {
		writeError(w, failure(http.StatusNotFound, "not found"))
		return
	}
	write(w, http.StatusOK, contentTypes[path.Ext(name)], content)
}

// serveJSON writes what answer returns.
func (h *handler) serveJSON(w http.ResponseWriter, r *http.Request, answer func(*request) (any, error)) {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		w.Header().Set("Retry-After", "1")
		writeError(w, failure(http.StatusServiceUnavailable, "too many requests are under way"))
		return
	}
	value, err := answer(&request{r, map[schema.GroupResource]bool{}})
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, value)
}

// request is a request for JSON.
type request struct {
	*http.Request
	unmasked map[schema.GroupResource]bool // the answers of Config.Unmask, which is called once for each resource
}

// unmask reports whether the sender of r may see the masked values of a resource.
func (h *handler) unmask(r *request, resource schema.GroupResource) bool {
	if _, asked := r.unmasked[resource]; !asked {
		r.unmasked[resource] = h.config.Unmask != nil && h.config.Unmask(r.Request, resource)
	}
	return r.unmasked[resource]
}

// authorized reports whether the sender of r may see objects.
func (h *handler) authorized(r *http.Request) bool {
	return h.config.Authorize != nil && h.config.Authorize(r)
}

// Error is the JSON of each answer that is not a success, as {"error": {"code": 404, "message": "not found"}}. The
// message has no text of the request, of an object or of the API server.
type Error struct {
	// Code is the HTTP status.
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

func failure(code int, format string, args ...any) error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

func writeError(w http.ResponseWriter, err error) {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{http.StatusInternalServerError, "internal error"} // err may have the content of an object
	}
	writeJSON(w, e.Code, map[string]*Error{"error": e})
}

func writeJSON(w http.ResponseWriter, code int, value any) {
	content, err := json.Marshal(value)
	if err != nil {
		code, content = http.StatusInternalServerError, []byte(`{"error":{"code":500,"message":"the answer cannot be encoded"}}`)
	}
	write(w, code, "application/json", append(content, '\n'))
}

func write(w http.ResponseWriter, code int, contentType string, content []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(code)
	_, _ = w.Write(content) // an error means that the client has gone
}

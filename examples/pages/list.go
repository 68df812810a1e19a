package main

import (
	"bytes"
	"cmp"
	"crypto/rand"
	_ "embed"
	"fmt"
	"html/template"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
)

const (
	pageSize     = 50
	keptLists    = 64              // a list keeps its snapshot in memory
	keptListsFor = 5 * time.Minute // after that, the next page is one of a new list
	maxReviews   = 8               // questions about access that a request asks at once
	maxValue     = 253             // bytes of a parameter: the longest name of Kubernetes
)

// parameters are those of a page, and that of simulatedAccess. Links to other pages repeat them.
var parameters = []string{"namespace", "phase", "sort", "order", "page", "list", "user"}

// row is a key of a pod in a sorted index. A pod has four: in all namespaces and in its own, with any phase and with its
// own. So each combination of both filters is one range of the index.
type row struct {
	namespace, phase string // empty for all
	column           int64
}

func compareRows(a, b row) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.phase, b.phase), cmp.Compare(a.column, b.column))
}

// columns are the values by which pods can be sorted. Pods with equal ones are sorted by namespace and name.
var columns = map[string]func(*corev1.Pod) int64{
	"name":     func(*corev1.Pod) int64 { return 0 },
	"age":      func(p *corev1.Pod) int64 { return -p.CreationTimestamp.Unix() },
	"restarts": restarts,
}

func restarts(p *corev1.Pod) (n int64) {
	for i := range p.Status.ContainerStatuses {
		n += int64(p.Status.ContainerStatuses[i].RestartCount)
	}
	return n
}

type (
	sorted   = informer.OrderedIndex[*corev1.Pod, row]
	snapshot = informer.Snapshot[*corev1.Pod]
)

// list serves the pods of a store as pages.
type list struct {
	store   *informer.Store[*corev1.Pod]
	synced  func() bool        // false while the first list is under way
	indexes map[string]*sorted // by column
	access  access

	mu     sync.Mutex
	kept   map[string]kept // the lists that users look at, by id
	expiry *time.Timer     // calls expire; nil while no list is kept
}

type kept struct {
	snap  *snapshot
	until time.Time
}

func newList(pods *informer.Informer[*corev1.Pod], access access) *list {
	l := &list{store: pods.Store(), synced: pods.HasSynced, indexes: map[string]*sorted{}, access: access,
		kept: map[string]kept{}}
	for name, column := range columns {
		l.indexes[name] = informer.NewOrderedIndexFunc(pods, func(p *corev1.Pod) []row {
			value, phase := column(p), string(p.Status.Phase)
			return []row{{"", "", value}, {p.Namespace, "", value}, {"", phase, value}, {p.Namespace, phase, value}}
		}, compareRows)
	}
	return l
}

// find returns the snapshot of the list with that id. If that list is no longer kept, find returns the current snapshot
// and the id of a new list.
func (l *list) find(id string) (*snapshot, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k, ok := l.kept[id]; ok && time.Now().Before(k.until) {
		return k.snap, id
	}
	return l.store.Snapshot(), rand.Text()
}

// keep keeps the list that somebody looks at, and drops the one that nobody has looked at for longest if there are too
// many.
func (l *list) keep(id string, snap *snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept[id] = kept{snap, time.Now().Add(keptListsFor)}
	if len(l.kept) > keptLists {
		delete(l.kept, slices.MinFunc(slices.Collect(maps.Keys(l.kept)), func(a, b string) int {
			return l.kept[a].until.Compare(l.kept[b].until)
		}))
	}
	if l.expiry == nil {
		l.expiry = time.AfterFunc(keptListsFor, l.expire)
	}
}

// expire drops the lists that nobody has looked at for keptListsFor, and comes back when the next one is due.
func (l *list) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	wait := keptListsFor
	for id, k := range l.kept {
		if left := time.Until(k.until); left > 0 {
			wait = min(wait, left)
		} else {
			delete(l.kept, id)
		}
	}
	if len(l.kept) == 0 {
		l.expiry = nil
		return
	}
	l.expiry.Reset(wait)
}

// group is a namespace or a phase, with the number of its pods. An empty name means all.
type group struct {
	Name string
	Pods int
}

// page is what page.html shows.
type page struct {
	url.Values                 // of the parameters
	Namespaces, Phases []group // from which the user can choose
	Number, Pages      int
	Pods               int // on all pages
	Rows               []*corev1.Pod
	ResourceVersion    string
}

// With returns the link to the first page, or to that with the number if name is "page", with one value changed.
func (p *page) With(name, value string) string {
	values := url.Values{}
	for name := range p.Values {
		values.Set(name, p.Get(name))
	}
	values.Del("page")
	values.Set(name, value)
	return "?" + values.Encode()
}

// known returns the values of the parameters in a query.
func known(query url.Values) (url.Values, error) {
	values := url.Values{}
	for _, name := range parameters {
		value := query.Get(name)
		if len(value) > maxValue {
			return nil, fmt.Errorf("the %s is longer than %d bytes", name, maxValue)
		}
		if query.Has(name) {
			values.Set(name, value)
		}
	}
	return values, nil
}

// ServeHTTP serves the page that the query asks for: namespace, phase, sort, order, page, and the list that it is of.
func (l *list) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !l.synced() {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the pods are not listed yet", http.StatusServiceUnavailable)
		return
	}
	values, err := known(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	snap, id := l.find(values.Get("list"))
	p := &page{Values: values, ResourceVersion: snap.ResourceVersion()}
	p.Set("list", id)
	if err := l.groups(p, r, snap); err != nil {
		slog.Error("access cannot be reviewed", "err", err)
		http.Error(w, "access cannot be reviewed", http.StatusServiceUnavailable)
		return
	}
	if !slices.ContainsFunc(p.Namespaces, func(g group) bool { return g.Name == p.Get("namespace") }) {
		http.Error(w, "you may not list the pods of this namespace, or it has none", http.StatusForbidden)
		return
	}
	index, ok := l.indexes[cmp.Or(p.Get("sort"), "name")]
	if !ok {
		http.Error(w, "there is no such column", http.StatusBadRequest)
		return
	}
	l.keep(id, snap)
	key := row{namespace: p.Get("namespace"), phase: p.Get("phase"), column: math.MinInt64}
	pods := index.RangeIn(snap).AtLeast(key)
	key.column = math.MaxInt64
	pods = pods.AtMost(key)
	if p.Get("order") == "desc" {
		pods = pods.Descending()
	}
	number, _ := strconv.Atoi(p.Get("page"))
	p.Pods, p.Pages = pods.Len(), (pods.Len()+pageSize-1)/pageSize
	p.Number = max(min(number, p.Pages), 1)
	p.Rows = pods.Skip((p.Number - 1) * pageSize).Limit(pageSize).List()
	var body bytes.Buffer
	if err := html.Execute(&body, p); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(body.Bytes())
}

// groups sets the namespaces that the sender of r may list, and the phases in the one that they chose. If they chose
// none, it is the first.
func (l *list) groups(p *page, r *http.Request, snap *snapshot) error {
	names := l.indexes["name"].RangeIn(snap) // a key for each group: all have the same column
	all := namespacesOf(names)
	allowed, err := l.allowed(r, all)
	if err != nil {
		return err
	}
	for n, namespace := range all {
		if allowed[n] {
			p.Namespaces = append(p.Namespaces, namespace)
		}
	}
	if len(p.Namespaces) == 0 {
		return nil
	}
	if !p.Has("namespace") {
		p.Set("namespace", p.Namespaces[0].Name)
	}
	chosen := p.Get("namespace")
	for key, pods := range names.AtLeast(row{namespace: chosen}).Below(row{namespace: next(chosen)}).Keys() {
		p.Phases = append(p.Phases, group{key.phase, pods})
	}
	return nil
}

// namespacesOf returns the groups of the namespaces, beginning with that of all.
func namespacesOf(names informer.OrderedRange[*corev1.Pod, row]) (all []group) {
	for names.Len() > 0 {
		for key, pods := range names.Keys() { // the first one is of any phase
			all = append(all, group{key.namespace, pods})
			names = names.AtLeast(row{namespace: next(key.namespace)})
			break
		}
	}
	return all
}

// next returns the lowest string above s.
func next(s string) string { return s + "\x00" }

// allowed returns which of the namespaces the sender of r may list. It asks about each, unless they may list all.
func (l *list) allowed(r *http.Request, namespaces []group) ([]bool, error) {
	everywhere, err := l.access(r, "")
	if err != nil {
		return nil, err
	}
	answers := slices.Repeat([]bool{everywhere}, len(namespaces))
	if everywhere {
		return answers, nil
	}
	asking, ctx := errgroup.WithContext(r.Context())
	asking.SetLimit(maxReviews)
	for n, namespace := range namespaces {
		if namespace.Name != "" {
			asking.Go(func() (err error) {
				answers[n], err = l.access(r.WithContext(ctx), namespace.Name)
				return err
			})
		}
	}
	return answers, asking.Wait()
}

//go:embed page.html
var source string

var html = template.Must(template.New("page").Funcs(template.FuncMap{
	"restarts": restarts,
	"age":      func(p *corev1.Pod) time.Duration { return time.Since(p.CreationTimestamp.Time).Truncate(time.Second) },
	"add":      func(a, b int) string { return strconv.Itoa(a + b) },
}).Parse(source))

// Package pages compares three ways to serve a sorted list of pods page by page: an ordered index of this library, a
// list of client-go's indexer that is sorted for each request, and a table of SQLite with indexes and encoded objects, as
// Rancher has it.
//
//	cd bench/pages && go test -run '^$' -bench . -count 6 . -args -pods 20000
//
// All of them serve pods with a phase, or with any, the youngest first.
package pages

import (
	"cmp"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
)

// implementation holds pods and serves pages of them. An empty phase means any.
type implementation interface {
	// put adds pods or replaces them by other versions.
	put(pods []*corev1.Pod) error
	// page returns size pods at most, the youngest first, after skipping some.
	page(phase corev1.PodPhase, skip, size int) ([]*corev1.Pod, error)
	// count returns the number of pods.
	count(phase corev1.PodPhase) (int, error)
	close() error
}

// implementations make empty ones, by name. dir is for files.
var implementations = map[string]func(dir string) (implementation, error){
	"informer":  func(string) (implementation, error) { return newOrdered(), nil },
	"client-go": func(string) (implementation, error) { return newSorted(), nil },
	"sqlite":    func(dir string) (implementation, error) { return newTable(dir + "/pods.db") },
}

// ordered is this library's: a store with an ordered index.
type ordered struct {
	writer informer.StoreWriter[*corev1.Pod]
	index  *informer.OrderedIndex[*corev1.Pod, row]
}

// row is a key. Each pod has two: with any phase, and with its own.
type row struct {
	phase   corev1.PodPhase
	created time.Time
}

func newOrdered() *ordered {
	store, writer := informer.NewStore[*corev1.Pod]()
	index := informer.NewOrderedIndexFunc(store, func(p *corev1.Pod) []row {
		created := p.CreationTimestamp.Time
		return []row{{"", created}, {p.Status.Phase, created}}
	}, func(a, b row) int { return cmp.Or(cmp.Compare(a.phase, b.phase), a.created.Compare(b.created)) })
	return &ordered{writer, index}
}

func (o *ordered) put(pods []*corev1.Pod) error {
	for _, p := range pods {
		if err := o.writer.Apply(informer.Delta[*corev1.Pod]{Type: informer.Upserted, Object: p}); err != nil {
			return err
		}
	}
	return nil
}

var never, always = time.Unix(0, 0), time.Unix(1<<40, 0)

func (o *ordered) of(phase corev1.PodPhase) informer.OrderedRange[*corev1.Pod, row] {
	return o.index.Range().AtLeast(row{phase, never}).AtMost(row{phase, always})
}

func (o *ordered) page(phase corev1.PodPhase, skip, size int) ([]*corev1.Pod, error) {
	return o.of(phase).Descending().Skip(skip).Limit(size).List(), nil
}

func (o *ordered) count(phase corev1.PodPhase) (int, error) { return o.of(phase).Len(), nil }
func (o *ordered) close() error                             { return nil }

// sorted is client-go's indexer, with an index by phase. Each request lists and sorts.
type sorted struct{ indexer cache.Indexer }

func newSorted() *sorted {
	return &sorted{cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{"phase": func(obj any) ([]string, error) {
		return []string{string(obj.(*corev1.Pod).Status.Phase)}, nil
	}})}
}

func (s *sorted) put(pods []*corev1.Pod) error {
	for _, p := range pods {
		if err := s.indexer.Update(p); err != nil {
			return err
		}
	}
	return nil
}

func (s *sorted) list(phase corev1.PodPhase) ([]any, error) {
	if phase == "" {
		return s.indexer.List(), nil
	}
	return s.indexer.ByIndex("phase", string(phase))
}

func (s *sorted) page(phase corev1.PodPhase, skip, size int) ([]*corev1.Pod, error) {
	list, err := s.list(phase)
	if err != nil {
		return nil, err
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := list[i].(*corev1.Pod), list[j].(*corev1.Pod)
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name)) > 0
	})
	var page []*corev1.Pod
	for _, obj := range list[min(skip, len(list)):min(skip+size, len(list))] {
		page = append(page, obj.(*corev1.Pod))
	}
	return page, nil
}

func (s *sorted) count(phase corev1.PodPhase) (int, error) {
	if phase == "" {
		return len(s.indexer.ListKeys()), nil
	}
	keys, err := s.indexer.IndexKeys("phase", string(phase))
	return len(keys), err
}

func (s *sorted) close() error { return nil }

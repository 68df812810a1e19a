package fleet

import (
	"slices"
	"strconv"
	"strings"
)

// kind is the kind of a workload.
type kind uint8

const (
	deployment kind = iota
	statefulSet
	daemonSet
	job
)

// workload has the minimal common data of its pods. The template is drawn again from seed whenever a pod is built.
type workload struct {
	seed      uint64
	cluster   uint64 // Config.Cluster
	kind      kind
	namespace string
	name      string
	hash      string // pod-template-hash of a Deployment, controller-revision-hash of a StatefulSet or DaemonSet
	prefix    string // prefix of its pods' names, including the last "-"
	first     int    // number of its first pod
	replicas  int
}

// newWorkloads returns workloads with c.Pods pods in total, in the order of their pods' keys.
func newWorkloads(r *rng, c Config, namespaces []string) []workload {
	p := planner{rng: r, namespaces: namespaces, taken: make(map[string]bool)}
	// DaemonSets have a pod on each node. They get up to a sixth of the pods, like in clusters with 30 pods per node.
	left := c.Pods
	for i := range min(c.Pods/6/c.Nodes, len(daemons)) {
		p.add(daemonSet, namespaces[0], daemons[i], c.Nodes)
		left -= c.Nodes
	}
	// In small fleets, limit the size of a workload, so that there are enough of them.
	largest := max(c.Pods/25, 2)
	for left > 0 {
		k := kind(r.weighted(83, 10, 0, 7))
		n := min(p.replicas(k), largest, left)
		p.add(k, p.namespace(), p.name(k), n)
		left -= n
	}

	ws := p.workloads
	slices.SortFunc(ws, func(a, b workload) int {
		// etcd sorts by whole keys, in which "/" follows the namespace: "a-b/x" precedes "a/x".
		return strings.Compare(a.namespace+"/"+a.prefix, b.namespace+"/"+b.prefix)
	})
	first := 0
	for i := range ws {
		ws[i].first = first
		first += ws[i].replicas
	}
	return slices.Clip(ws)
}

// planner chooses the workloads.
type planner struct {
	*rng
	namespaces []string
	workloads  []workload
	taken      map[string]bool // namespace/name of workloads
}

func (p *planner) add(k kind, namespace, name string, replicas int) {
	// Two workloads of a namespace never share a name, whatever their kinds, because the names of pods contain it.
	unique := name
	for i := 2; p.taken[namespace+"/"+unique]; i++ {
		unique = name + "-" + strconv.Itoa(i)
	}
	p.taken[namespace+"/"+unique] = true
	w := workload{seed: p.uint64(), kind: k, namespace: namespace, name: unique, hash: p.hash(10), prefix: unique + "-",
		replicas: replicas}
	if k == deployment {
		w.prefix += w.hash + "-"
	}
	p.workloads = append(p.workloads, w)
}

// namespace first gives each namespace a workload, and then prefers the first ones: the k-th has about 1/k of the first
// one's pods.
func (p *planner) namespace() string {
	others := p.namespaces
	if len(others) > 1 {
		others = others[1:] // kube-system is for DaemonSets
	}
	if n := len(p.workloads); n < len(others) {
		return others[n]
	}
	sum := 0
	for i := range others {
		sum += 1_000_000 / (i + 1)
	}
	left := p.n(sum)
	for i, name := range others {
		left -= 1_000_000 / (i + 1)
		if left < 0 {
			return name
		}
	}
	return others[0]
}

func (p *planner) name(k kind) string {
	switch k {
	case statefulSet:
		return pick(p.rng, subjects) + "-" + pick(p.rng, stores)
	case job:
		// CronJobs name their Jobs by the scheduled minute.
		return pick(p.rng, subjects) + "-" + pick(p.rng, jobs) + "-" + strconv.Itoa(29_470_000+p.n(9_000))
	}
	return pick(p.rng, subjects) + "-" + pick(p.rng, roles)
}

// replicas draws from a long-tailed distribution: half of the Deployments have one or two pods, a few have hundreds.
func (p *planner) replicas(k kind) int {
	switch k {
	case statefulSet:
		return pick(p.rng, []int{1, 1, 2, 3, 3, 3, 3, 5, 6, 9}) // at most 9, so that "-10" never sorts before "-2"
	case job:
		return pick(p.rng, []int{1, 1, 1, 1, 1, 2, 3, 4})
	}
	ranges := [...][2]int{{1, 1}, {2, 2}, {3, 3}, {4, 6}, {7, 15}, {16, 40}, {41, 120}, {121, 400}}
	span := ranges[p.weighted(190, 240, 200, 140, 120, 66, 34, 10)]
	return p.between(span[0], span[1])
}

// spread draws from sizes near the index around, so that a workload with much memory tends to have much CPU as well.
func spread[T any](r *rng, sizes []T, around int) (T, int) {
	i := min(max(around+r.between(-1, 1), 0), len(sizes)-1)
	return sizes[i], i
}

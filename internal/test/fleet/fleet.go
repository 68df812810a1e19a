// Package fleet generates the pods for the quickstart, the tests and the benchmarks of this project: a whole cluster of
// pods, shaped like those of real clusters, and always the same for the same seed.
//
// Measurements of cached objects depend on what pods share and where they differ. So:
//
//   - Pods come from workloads (Deployments, and some StatefulSets, DaemonSets and Jobs). Pods of one workload share
//     their labels, annotations, images, environment and most of their spec; different workloads differ in all of
//     these. There are many workloads: most have one to three pods, a few have hundreds; the mean is about twelve.
//   - Each pod has its own name, UID, resourceVersion, IP, times, container IDs and kube-api-access volume, which the
//     mounts of every container name. Within one Fleet, no two pods share any of these, except for times.
//   - managedFields are present, as from kube-controller-manager and kubelet: more than a third of each pod.
//   - On average a pod has 6.6 kB of JSON and 4.5 kB of protobuf, with 3% of variation between seeds.
//
// You may rely on this: the same Config gives the same encoded bytes on every machine and in every run. You must not
// rely on certain pods or sizes across versions of this package.
//
// [Fleet.Changes] continues from there, with an endless stream of changes to these pods. The encoders ([WriteListJSON],
// [AppendWatchEventJSON] and so on) write the bytes that kube-apiserver would send, for canned servers.
package fleet

import (
	"fmt"
	"iter"
	"slices"
	"sort"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Config selects a fleet. The zero value is a good fleet for a test: 1,000 pods.
type Config struct {
	// Seed selects one of the fleets of the same size. Zero is a seed like any other.
	Seed uint64
	// Cluster selects one of the clusters that run the same workloads, with the same templates. Its pods have names, UIDs,
	// nodes, IPs and times of their own. Zero is a cluster like any other.
	Cluster uint64
	// Pods is the number of pods. Zero means 1,000.
	Pods int
	// Namespaces is the number of namespaces, which have different numbers of pods. One of them is kube-system, if there
	// are two or more. Zero means one per 100 pods, but at least 4 and at most 200. If there are fewer workloads than
	// namespaces, some namespaces stay empty.
	Namespaces int
	// Nodes is the number of nodes. Zero means one per 30 pods, but at least 3.
	Nodes int
}

// withDefaults returns c with each zero replaced. It panics if a field is invalid: a Config comes from a programmer,
// not from a user.
func (c Config) withDefaults() Config {
	for _, field := range []struct {
		name  string
		value int
	}{{"Pods", c.Pods}, {"Namespaces", c.Namespaces}, {"Nodes", c.Nodes}} {
		if field.value < 0 {
			panic(fmt.Sprintf("fleet: Config.%s is %d, must not be negative", field.name, field.value))
		}
	}
	if c.Pods == 0 {
		c.Pods = 1000
	}
	if c.Namespaces == 0 {
		c.Namespaces = min(max(c.Pods/100, 4), 200)
	}
	if c.Nodes == 0 {
		c.Nodes = max(c.Pods/30, 3)
	}
	if c.Nodes > maxNodes {
		panic(fmt.Sprintf("fleet: Config.Nodes is %d, but there are IP addresses for only %d", c.Nodes, maxNodes))
	}
	if c.Pods > maxPods {
		panic(fmt.Sprintf("fleet: Config.Pods is %d, but there are names and IP addresses for only %d", c.Pods, maxPods))
	}
	return c
}

const (
	// maxNodes is the size of 172.16.0.0/12, which has the nodes' addresses.
	maxNodes = 1 << 20
	// maxPods leaves a reserve in the sets that pods draw from without repetition: addresses from 10.0.0.0/8, and
	// generated suffixes.
	maxPods = 4_000_000
)

// Fleet is a set of pods that are not kept in memory. It has the data to build each of them: about 200 bytes per
// workload. It is immutable, and safe for concurrent use.
type Fleet struct {
	config     Config
	namespaces []string
	workloads  []workload // in the order of their pods' keys
	nodeSalt   uint64     // the start of the nodes in the range of addresses
	podSalt    uint64     // the start of the pods
	firstRV    uint64
	seed       uint64 // of what distinguishes pods
}

// New returns the fleet for c. It takes about a microsecond per workload, and builds no pods.
func New(c Config) *Fleet {
	c = c.withDefaults()
	r := newRNG(c.Seed, domainFleet, 0)
	f := &Fleet{
		config:     c,
		namespaces: namespaceNames(&r, c.Namespaces),
		nodeSalt:   r.uint64(),
		podSalt:    r.uint64(),
		firstRV:    uint64(r.between(120_000_000, 480_000_000)),
	}
	f.workloads = newWorkloads(&r, c, f.namespaces)
	f.seed = c.Seed
	if c.Cluster > 0 {
		own := newRNG(c.Seed, domainCluster, c.Cluster)
		f.seed, f.nodeSalt, f.podSalt = own.uint64(), own.uint64(), own.uint64()
		for i := range f.workloads {
			f.workloads[i].cluster = c.Cluster
		}
	}
	return f
}

// Len returns the number of pods.
func (f *Fleet) Len() int { return f.config.Pods }

// Namespaces returns the names of the namespaces, sorted. The caller may modify the slice.
func (f *Fleet) Namespaces() []string { return slices.Sorted(slices.Values(f.namespaces)) }

// Nodes returns the names of the nodes. The caller may modify the slice.
func (f *Fleet) Nodes() []string {
	names := make([]string, f.config.Nodes)
	for i := range names {
		names[i], _ = f.node(i)
	}
	return names
}

// Workloads returns the number of Deployments, StatefulSets, DaemonSets and Jobs.
func (f *Fleet) Workloads() int { return len(f.workloads) }

// Pod builds pod number i, which must be in [0, Len()). Pods are in the order of their keys in etcd (namespace/name),
// like in a list from kube-apiserver. Their resourceVersions increase in the same order, with gaps.
//
// Each call builds a new pod, in about 20 microseconds, and the caller owns it. As in a list, its kind and apiVersion
// are empty. Its times are in the local time zone, like those of decoded objects, so reflect.DeepEqual holds between a
// pod and its encoded and decoded copy.
func (f *Fleet) Pod(i int) *corev1.Pod {
	s := f.initialState(i)
	return f.build(&s)
}

// All returns an iterator over all pods in the order of their numbers. See [Fleet.Pod].
func (f *Fleet) All() iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		for i := range f.Len() {
			if !yield(f.Pod(i)) {
				return
			}
		}
	}
}

// ResourceVersion returns the resourceVersion of a list of the whole fleet: greater than that of every pod, less than
// that of every change.
func (f *Fleet) ResourceVersion() string { return strconv.FormatUint(f.listRV(), 10) }

// rvStride is the mean distance between the resourceVersions of consecutive pods: etcd counts the writes to all
// resources, not only to pods.
const rvStride = 7

func (f *Fleet) listRV() uint64 { return f.firstRV + rvStride*uint64(f.config.Pods) + 11 }

// workloadOf returns the number of pod i's workload.
func (f *Fleet) workloadOf(i int) int {
	return sort.Search(len(f.workloads), func(w int) bool { return f.workloads[w].first > i }) - 1
}

// node returns the name and the IP address of node i. Like on EKS, the name contains the address.
func (f *Fleet) node(i int) (name, ip string) {
	// An odd factor makes this a permutation of the range, so no two nodes share an address.
	x := (uint64(i)*0xb5297 + f.nodeSalt) & (maxNodes - 1)
	ip = dotted(172, byte(16+x>>16), byte(x>>8), byte(x))
	return "ip-" + strings.ReplaceAll(ip, ".", "-") + ".eu-west-1.compute.internal", ip
}

// podIP returns the address of the pod with this id. Ids that differ by 16,777,216 share one.
func (f *Fleet) podIP(id uint64) string {
	x := id*0x9e3779b1 + f.podSalt // odd, see node
	return dotted(10, byte(x>>16), byte(x>>8), byte(x))
}

// volumeSuffix returns the suffix of the pod's kube-api-access volume. Ids that differ by 14,348,907 share one.
func (f *Fleet) volumeSuffix(id uint64) string {
	// The factor has no common divisor with 27^5, so this is a permutation too.
	return suffix(uint32((id%suffixes*6_180_340 + f.podSalt%suffixes) % suffixes))
}

func dotted(a, b, c, d byte) string {
	buf := make([]byte, 0, 15)
	for i, part := range [...]byte{a, b, c, d} {
		if i > 0 {
			buf = append(buf, '.')
		}
		buf = strconv.AppendUint(buf, uint64(part), 10)
	}
	return string(buf)
}

// namespaceNames returns n different names, kube-system first.
func namespaceNames(r *rng, n int) []string {
	if n == 1 {
		return []string{"default"}
	}
	names := []string{"kube-system"}
	for round := 0; len(names) < n; round++ {
		// Each round gives every team a namespace, so few namespaces belong to many teams. The order of the teams is random,
		// because the first ones get the most pods.
		order := slices.Clone(teams)
		for i := len(order) - 1; i > 0; i-- {
			j := r.n(i + 1)
			order[i], order[j] = order[j], order[i]
		}
		for _, team := range order {
			if len(names) == n {
				break
			}
			name := team + stages[round%len(stages)]
			if round >= len(stages) {
				name += "-" + strconv.Itoa(round/len(stages)+1)
			}
			names = append(names, name)
		}
	}
	return names
}

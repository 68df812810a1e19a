// Package fleet generates the pods that the quickstart, the tests and the benchmarks of this project work on: a
// cluster's worth of them, shaped like those of real clusters, and always the same ones for the same seed.
//
// What a measurement on cached objects depends on is what pods have in common and what they have not. So:
//
//   - Pods come from workloads (Deployments, and some StatefulSets, DaemonSets and Jobs). Pods of one workload share
//     their labels, annotations, images, environment and most of their spec; different workloads differ in all of it.
//     There are many workloads: most have one to three pods, a few have hundreds; the mean is about twelve.
//   - Each pod has its own name, UID, resourceVersion, IP, times, container IDs and kube-api-access volume, which is
//     named in the mounts of every container. Within one Fleet, none of these is ever given to two pods, save the times.
//   - managedFields are there, as kube-controller-manager and kubelet leave them: more than a third of each pod.
//   - On average a pod is 6.6 kB of JSON and 4.5 kB of protobuf, give or take 3% from seed to seed.
//
// You may rely on this: the same Config gives the same bytes, when pods are encoded, on every machine and in every
// run. You must not rely on a certain pod or size outside of one version of this package.
//
// [Fleet.Changes] goes on from there: an endless stream of what would happen to these pods. The encoders
// ([WriteListJSON], [AppendWatchEventJSON] and so on) write the bytes that kube-apiserver would send, for canned servers.
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

// Config says which fleet to generate. The zero value is a good fleet for a test: 1,000 pods.
type Config struct {
	// Seed chooses among the fleets of the same size. Zero is a seed like any other.
	Seed uint64
	// Pods is how many pods there are. Zero means 1,000.
	Pods int
	// Namespaces is how many namespaces the pods are spread over, unevenly. One of them is kube-system, when there
	// are two or more. Zero means one for 100 pods, but at least 4 and at most 200. Where there are fewer workloads
	// than namespaces, some namespaces stay empty.
	Namespaces int
	// Nodes is how many nodes the pods run on. Zero means one for 30 pods, but at least 3.
	Nodes int
}

// withDefaults returns c with each zero replaced. It panics when a field makes no sense: a Config is written by a
// programmer, not by a user.
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
		panic(fmt.Sprintf("fleet: Config.Nodes is %d, there are IP addresses for %d", c.Nodes, maxNodes))
	}
	if c.Pods > maxPods {
		panic(fmt.Sprintf("fleet: Config.Pods is %d, there are names and IP addresses for %d", c.Pods, maxPods))
	}
	return c
}

const (
	// maxNodes is the size of 172.16.0.0/12, which the nodes' addresses are from.
	maxNodes = 1 << 20
	// maxPods keeps pods away from the ends of what they draw from without repetition: addresses from 10.0.0.0/8, and
	// generated suffixes.
	maxPods = 4_000_000
)

// Fleet is a set of pods that is not kept in memory: it holds what is needed to build each of them, which is about
// 200 bytes for a workload. It is immutable, and safe for use by many goroutines.
type Fleet struct {
	config     Config
	namespaces []string
	workloads  []workload // in the order of their pods' keys
	nodeSalt   uint64     // where nodes start in the range of addresses
	podSalt    uint64     // and pods
	firstRV    uint64
}

// New returns the fleet that c describes. It takes about a microsecond for a workload; pods are not built before they
// are asked for.
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
	return f
}

// Len returns how many pods there are.
func (f *Fleet) Len() int { return f.config.Pods }

// Namespaces returns the names of the namespaces, sorted. The slice is the caller's.
func (f *Fleet) Namespaces() []string { return slices.Sorted(slices.Values(f.namespaces)) }

// Nodes returns the names of the nodes. The slice is the caller's.
func (f *Fleet) Nodes() []string {
	names := make([]string, f.config.Nodes)
	for i := range names {
		names[i], _ = f.node(i)
	}
	return names
}

// Workloads returns how many Deployments, StatefulSets, DaemonSets and Jobs there are.
func (f *Fleet) Workloads() int { return len(f.workloads) }

// Pod builds the pod with number i, which must be in [0, Len()). The order of pods is that of their keys in etcd
// (namespace/name), in which kube-apiserver lists them; their resourceVersions increase in the same order, with gaps.
//
// Each call builds the pod anew, in about 20 microseconds, and the caller owns it wholly. As in a list, its kind and
// apiVersion are empty. Its times are in the local time zone, like those of decoded objects, so that
// reflect.DeepEqual holds between a pod and what became of it on its way through an encoder and a decoder.
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

// ResourceVersion returns the resourceVersion that a list of the whole fleet would carry: greater than that of every
// pod, less than that of every change.
func (f *Fleet) ResourceVersion() string { return strconv.FormatUint(f.listRV(), 10) }

// rvStride is the mean distance between the resourceVersions of two pods that follow each other: etcd counts the
// writes to all resources, and pods are not alone.
const rvStride = 7

func (f *Fleet) listRV() uint64 { return f.firstRV + rvStride*uint64(f.config.Pods) + 11 }

// workloadOf returns the number of the workload that pod i belongs to.
func (f *Fleet) workloadOf(i int) int {
	return sort.Search(len(f.workloads), func(w int) bool { return f.workloads[w].first > i }) - 1
}

// node returns name and IP address of node i. Names are those of EKS, which are made of the address.
func (f *Fleet) node(i int) (name, ip string) {
	// An odd factor makes this a permutation of the range: no two nodes get the same address.
	x := (uint64(i)*0xb5297 + f.nodeSalt) & (maxNodes - 1)
	ip = dotted(172, byte(16+x>>16), byte(x>>8), byte(x))
	return "ip-" + strings.ReplaceAll(ip, ".", "-") + ".eu-west-1.compute.internal", ip
}

// podIP returns the address of the pod with this id. Ids 16,777,216 apart share one.
func (f *Fleet) podIP(id uint64) string {
	x := id*0x9e3779b1 + f.podSalt // odd, see node
	return dotted(10, byte(x>>16), byte(x>>8), byte(x))
}

// volumeSuffix returns the end of the name of the pod's kube-api-access volume. Ids 14,348,907 apart share one.
func (f *Fleet) volumeSuffix(id uint64) string {
	// The factor has no divisor in common with 27^5, so this is a permutation as well.
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
		// Each round gives every team a namespace, so that few namespaces are of many teams; the teams' order is
		// chance, because the first ones get the most pods.
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

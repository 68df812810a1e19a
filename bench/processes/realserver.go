package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/bench/internal/canned"
	"github.com/typedinformer/informer/bench/internal/measure"
)

// realServer is the name of the server that e2e/cluster starts. It compresses lists of more than 128 kB, and first
// lists that are streams, for clients that accept gzip, as Go's do by default.
const realServer = "kube-apiserver"

// realPeers are the peers that a real server compares, in the order of the tables.
var realPeers = []peer{
	{name: "controller-runtime, managedFields dropped", what: "its cache, with TransformStripManagedFields",
		connect: peerOf("controller-runtime, managedFields dropped").connect},
	{name: clientGo, what: "SharedInformerFactory of a clientset with default settings: a streaming list, managedFields kept",
		connect: connectClientGo(nil)},
	{name: clientGoDropped, what: "by a transform", connect: connectClientGo(dropManagedFields)},
	{name: clientGoLISTDropped, what: "the same with the feature gate WatchListClient off: one LIST",
		connect: connectClientGo(dropManagedFields), env: []string{"KUBE_FEATURE_WatchListClient=false"}},
	{name: "client-go, LIST, not compressed", what: "the same with rest.Config.DisableCompression",
		connect: uncompressed(connectClientGo(dropManagedFields)), env: []string{"KUBE_FEATURE_WatchListClient=false"}},
	{name: "client-go 0.38, managedFields dropped", what: "a beta of the next version, which decodes streams in several goroutines",
		connect: connectClientGo(dropManagedFields), next: true},
	{name: own, what: "default settings: a streaming list, which asks for identity", connect: connectInformer(informer.Config[*corev1.Pod]{})},
	{name: "informer, not compressed", what: "the same with rest.Config.DisableCompression",
		connect: uncompressed(connectInformer(informer.Config[*corev1.Pod]{}))},
	{name: ownLIST, what: "Config.PagedList: pages of 500", connect: connectInformer(informer.Config[*corev1.Pod]{PagedList: true})},
	{name: "informer, LIST, not compressed", what: "the same with rest.Config.DisableCompression",
		connect: uncompressed(connectInformer(informer.Config[*corev1.Pod]{PagedList: true}))},
	{name: ownSeparate, what: "LayoutSeparate",
		connect: connectInformer(informer.Config[*corev1.Pod]{Layout: informer.LayoutSeparate})},
	{name: ownCompact, what: "LayoutCompact",
		connect: connectInformer(informer.Config[*corev1.Pod]{Layout: informer.LayoutCompact})},
	{name: ownSlim, what: "a struct with namespace, name, uid, resourceVersion, labels, node and phase only, in JSON",
		connect: connectInformer(informer.Config[*slimPod]{}), formats: []string{canned.JSON}},
}

func peerOf(name string) peer {
	return peers[slices.IndexFunc(peers, func(p peer) bool { return p.name == name })]
}

// buildNext builds this program with the next version of client-go, in dir. It returns the path of the program.
func buildNext(dir string) (string, error) {
	program := filepath.Join(dir, "processes-next")
	cmd := exec.Command("go", "build", "-modfile=go.next.mod", "-o", program, "./processes")
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN=go1.27.4")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build with go.next.mod: %w", err)
	}
	return program, nil
}

// uncompressed makes a peer ask for answers without compression.
func uncompressed(connect func(*rest.Config) (follow, error)) func(*rest.Config) (follow, error) {
	return func(server *rest.Config) (follow, error) {
		server = rest.CopyConfig(server)
		server.DisableCompression = true
		return connect(server)
	}
}

// realMarkdown returns the report of a real server.
func (r *results) realMarkdown() string {
	var b strings.Builder
	say := func(format string, args ...any) { b.WriteString(wrap(fmt.Sprintf(format+"\n", args...))) }
	o, m := r.Options, r.Machine
	say("# A real kube-apiserver\n")
	say("    cd bench && go run ./processes%s\n", strings.TrimRight(" "+o.Command, " "))
	say("Each client is a process of its own, with one handler. It follows %s pods of `internal/test/fleet` that were created on a"+
		" kube-apiserver of the version of e2e/apiserver with one etcd, over HTTP/2 with TLS; all share the processors. Each process"+
		" checks the number of pods, events and versions that its handler received. Medians of %d alternating runs; ± is half of the"+
		" distance between the best and the worst.\n", measure.Number(float64(o.Pods)), o.Runs)
	say("- **Machine.** Linux %s, %d cores of %s, %s of memory; load at the beginning: %s. %s.", m.Kernel, m.Cores, m.CPU,
		measure.Bytes(float64(m.Memory)), m.Load, m.Date)
	say("- **Versions.** Go %s, client-go %s, controller-runtime %s.", m.Go, m.Peers["k8s.io/client-go"],
		m.Peers["sigs.k8s.io/controller-runtime"])
	say("- **first list** is the time from before the client is made until the handler has received each pod, **peak** the peak" +
		" resident memory of the process until then, **heap** the live heap afterwards, per pod. **of the server** is the processor" +
		" time of kube-apiserver and etcd, **its memory** what the resident memory of kube-apiserver grows meanwhile, at its peak.")
	say("- **events** are %s changes of statuses at %s a second. The server's processor time includes that of writing them. **p50,"+
		" p99** are the times from before the writer's request to the handler, so they have the time of the write. The last column is"+
		" the rate at which the events arrived.", measure.Number(float64(o.Paced)), measure.Number(float64(o.Rate)))
	say("- **relist** follows a restart of kube-apiserver, without changes: processor time of the client until a change that comes" +
		" afterwards, allocated memory, and events to the handler for unchanged pods.")
	for _, p := range realPeers {
		if slices.ContainsFunc(r.Runs, func(run processRun) bool { return run.Peer == p.name }) {
			say("- **%s**: %s.", p.name, p.what)
		}
	}
	for _, format := range o.Formats {
		say("\n## %s\n", canned.Name(format))
		r.tableOf(realPeers, say, format, []column{
			{"first list", syncTime, measure.Seconds}, {"CPU", syncCPU, measure.Seconds}, {"of the server", syncServerCPU, measure.Seconds}, {"its memory", syncServerMemory, measure.Bytes},
			{"peak", peakMemory, measure.Bytes}, {"heap a pod", liveHeap, measure.Bytes}})
		r.tableOf(realPeers, say, format, []column{
			{"CPU an event", pacedCPU, measure.Seconds}, {"of the server", pacedServerCPU, measure.Seconds},
			{"p50", latency50, measure.Seconds}, {"p99", latency99, measure.Seconds},
			{"of " + measure.Number(float64(o.Rate)) + "/s", pacedRate, measure.Number}})
		r.tableOf(realPeers, say, format, []column{
			{"relist: CPU", relistCPU, measure.Seconds}, {"allocated", relistBytes, measure.Bytes}, {"events", relistEvents, measure.Number}})
	}
	return b.String()
}

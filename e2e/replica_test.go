package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/e2e/cluster"
	"github.com/typedinformer/informer/internal/test/testkit"
)

var (
	replicaPods = flag.Int("replicas.pods", 1_000, "number of pods in TestReplicas")
	replicaRate = flag.Int("replicas.rate", 100, "changes a second in TestReplicas")
	replicaFor  = flag.Duration("replicas.for", 22*time.Second, "how long replicas are killed and added in TestReplicas")
)

const (
	killEvery = 20 * time.Second
	// ownedWithin is the longest time from the last kill to the next reconcile of a pod of a killed replica: the lease, the
	// time by which the others delete it later, and that for the lists, the Leases and the reconciles of all pods that move,
	// which a busy machine needs three times as long for.
	ownedWithin = 15*time.Second + 3*time.Second + 15*time.Second
)

// Three replicas share pods that change all the time. Every 20 s, one of them is killed and another one added. No pod is reconciled by two
// replicas at a time. The pods of a killed replica are reconciled by others soon after its lease has ended. At the end, the newest version
// of each pod was reconciled, and the objects that the replicas own are together equal to a list.
//
// The full size: go test -run TestReplicas -args -replicas.pods 20000 -replicas.rate 500 -replicas.for 5m
//
// Guarantees: S3
func TestReplicas(t *testing.T) {
	t.Run("gate off", func(t *testing.T) { testReplicas(t, server, false) })
	if !testkit.Whole() {
		return // TestShards has a server with the gate
	}
	t.Run("gate on", func(t *testing.T) {
		gated, err := startCluster(t.Context(), cluster.Config{FeatureGates: map[string]bool{"ShardedListAndWatch": true}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := gated.Stop(); err != nil {
				t.Error(err)
			}
		}()
		testReplicas(t, gated, true)
	})
}

// replicas are the processes of a test.
type replicas struct {
	*testing.T
	config replicaConfig
	log    *os.File
	live   []*replicaProcess // the oldest first
	count  int
}

// replicaProcess is a process that runs replicaMain.
type replicaProcess struct {
	name    string
	cmd     *exec.Cmd
	in      *bufio.Writer
	out     *json.Decoder
	closeIn func() error
}

func (r *replicas) start() *replicaProcess {
	r.Helper()
	p := &replicaProcess{name: fmt.Sprint("r", r.count)}
	r.count++
	config := r.config
	config.Name = p.name
	value, err := json.Marshal(config)
	if err != nil {
		r.Fatal(err)
	}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), replicaEnv+"="+string(value))
	p.cmd.Stderr = r.Output()
	in, err := p.cmd.StdinPipe()
	if err != nil {
		r.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		r.Fatal(err)
	}
	p.in, p.out, p.closeIn = bufio.NewWriter(in), json.NewDecoder(out), in.Close
	if err := p.cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.live = append(r.live, p)
	r.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	return p
}

// kill ends the oldest replica by SIGKILL.
func (r *replicas) kill() {
	r.Helper()
	p := r.live[0]
	r.live = r.live[1:]
	if err := p.cmd.Process.Kill(); err != nil {
		r.Fatal(err)
	}
	_ = p.cmd.Wait()
	if _, err := fmt.Fprintf(r.log, "%d kill %s - -\n", time.Now().UnixNano(), p.name); err != nil {
		r.Fatal(err)
	}
}

// leave ends a replica that hands over its pods.
func (r *replicas) leave(p *replicaProcess) {
	r.Helper()
	if err := p.closeIn(); err != nil {
		r.Error(err)
	}
	if err := p.cmd.Wait(); err != nil {
		r.Error(err)
	}
	r.live = slices.DeleteFunc(r.live, func(other *replicaProcess) bool { return other == p })
}

func (r *replicas) report(p *replicaProcess) (report replicaReport) {
	r.Helper()
	_, err := p.in.WriteString("report\n")
	if err == nil {
		err = p.in.Flush()
	}
	if err == nil {
		err = p.out.Decode(&report)
	}
	if err != nil {
		r.Fatal(p.name, err)
	}
	return report
}

// settle waits until each slot has an owner, the replicas have reconciled all their pods, and what they own is together equal to want. It
// returns their reports.
//
// Replicas keep objects that have moved away for a minute. If dropped is true, settle waits until they have not.
func (r *replicas) settle(when string, dropped bool, want func() (objects int, digest uint64)) []replicaReport {
	r.Helper()
	ctx := within(r.T, 2*patience)
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		objects, owned, settled, digest := 0, 0, true, uint64(0)
		var reports []replicaReport
		for _, p := range r.live {
			report := r.report(p)
			reports = append(reports, report)
			objects, owned, digest = objects+report.Objects, owned+report.Status.Owned, digest+report.Digest
			settled = settled && report.QueueIsEmpty && report.Status.Owned == report.Status.Planned && (!dropped || report.Stored == report.Objects)
		}
		n, sum := want()
		if settled && owned == 256 && objects == n && digest == sum {
			return reports
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			r.Fatalf("%s: %d pods and %d slots of %d and 256; equal: %v; reports: %+v", when, objects, owned, n, digest == sum, reports)
		}
	}
}

func testReplicas(t *testing.T, c *cluster.Cluster, gate bool) {
	ctx := t.Context()
	namespace, err := cluster.CreateNamespace(ctx, c.Config(), "replicas")
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.CreatePods(ctx, c.Config(), cluster.Pods(namespace, *replicaPods), 0); err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(t.TempDir(), "log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	rest := c.Config()
	r := &replicas{T: t, log: log, config: replicaConfig{Namespace: namespace, Log: log.Name(), Host: rest.Host, Token: rest.BearerToken, CA: rest.CAData}}

	// An informer without shards, for comparison.
	client, err := informer.NewClient(r.config.rest())
	if err != nil {
		t.Fatal(err)
	}
	whole := informer.New(client, informer.Resource{GroupVersionResource: podsResource, Namespaces: []string{namespace}}, informer.Config[*corev1.Pod]{})
	running, stop := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() { _ = whole.Run(running) })
	defer func() { stop(); ended.Wait() }()
	if err := whole.WaitSynced(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	digest := func() (n int, sum uint64) {
		for pod := range whole.Store().All() {
			n++
			sum += digestOf(pod)
		}
		return n, sum
	}
	received := func() int64 { return whole.Status().Reflectors[0].Traffic.Bytes }

	alone := r.start()
	single := r.settle("alone", false, digest)[0]
	r.leave(alone)
	for range 3 {
		r.start()
	}
	three := r.settle("three replicas", true, digest)
	for i, report := range three {
		t.Logf("%s of three has %.2f of the pods, and %.2f of the live heap: %.1f of %.1f MB", r.live[i].name,
			float64(report.Objects)/float64(single.Objects), float64(report.Heap)/float64(single.Heap), float64(report.Heap)/1e6, float64(single.Heap)/1e6)
	}

	changes := startChanges(t, c, namespace, *replicaPods, *replicaRate)
	bytes := received()
	kills := 0
	for end, tick := time.After(*replicaFor), time.NewTicker(killEvery); ; {
		select {
		case <-tick.C:
			if kills == 0 {
				for i, p := range r.live {
					report := r.report(p)
					t.Logf("%s received %.2f of the bytes of all changes", p.name, float64(report.Bytes-three[i].Bytes)/float64(received()-bytes))
					if (report.OutsideShard == 0) != gate {
						t.Errorf("%s received %d objects from outside its shard", p.name, report.OutsideShard)
					}
				}
			}
			r.kill()
			r.start()
			kills++
			continue
		case <-end:
		}
		tick.Stop()
		break
	}
	made := changes.stop()
	t.Logf("%d kills, %d changes, %.0f/s", kills, made, float64(made)/replicaFor.Seconds())
	last, err := informer.NewTypedClient[*corev1.Pod](client, podsResource).Get(ctx, informer.Key{Namespace: namespace, Name: "pod-000000"}, metav1.GetOptions{})
	if err == nil {
		err = whole.WaitForObject(within(t, patience), last)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.settle("at the end", false, digest)
	r.checkLog(whole.Store())
}

// changes changes pods at a rate.
type changes struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
	made   int
}

func startChanges(t *testing.T, c *cluster.Cluster, namespace string, pods, rate int) *changes {
	t.Helper()
	client, err := informer.NewClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	api := informer.NewTypedClient[*corev1.Pod](client, podsResource)
	ctx, cancel := context.WithCancel(t.Context())
	s := &changes{cancel: cancel}
	due := make(chan int)
	s.ended.Go(func() {
		defer close(due)
		for tick := time.NewTicker(time.Second / time.Duration(rate)); ; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				tick.Stop()
				return
			}
			select {
			case due <- s.made:
				s.made++
			case <-ctx.Done():
			}
		}
	})
	for range 16 {
		s.ended.Go(func() {
			for i := range due {
				patch := fmt.Sprintf(`{"metadata":{"labels":{"change":"%d"}}}`, i)
				key := informer.Key{Namespace: namespace, Name: fmt.Sprintf("pod-%06d", i%pods)}
				if _, err := api.Patch(context.WithoutCancel(ctx), key, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	return s
}

// stop ends the changes, and returns their number.
func (s *changes) stop() int {
	s.cancel()
	s.ended.Wait()
	return s.made
}

// checkLog reads the log of all replicas.
func (r *replicas) checkLog(store *informer.Store[*corev1.Pod]) {
	file, err := os.Open(r.log.Name())
	if err != nil {
		r.Fatal(err)
	}
	defer file.Close()
	working := map[string]string{}     // by UID: the replica that is reconciling the pod
	last := map[string]string{}        // by UID: the replica that has reconciled it last
	version := map[string]string{}     // by UID: the version that the last reconcile saw
	orphaned := map[string]time.Time{} // by UID: when its last replica was killed
	var without []time.Duration        // times from a kill to the next reconcile of a pod
	var killed time.Time               // when the last replica was killed
	calls, twice, long, late := 0, 0, 0, 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var nanos int64
		var what, name, uid, rv string
		if _, err := fmt.Sscan(lines.Text(), &nanos, &what, &name, &uid, &rv); err != nil {
			r.Fatalf("the log has %q: %v", lines.Text(), err)
		}
		switch what {
		case "begin":
			calls++
			if other := working[uid]; other != "" {
				if twice++; twice <= 10 {
					r.Errorf("%s reconciles %s while %s does", name, uid, other)
				}
			}
			working[uid], last[uid] = name, name
			if since, ok := orphaned[uid]; ok {
				took := time.Unix(0, nanos).Sub(since)
				without = append(without, took)
				delete(orphaned, uid)
				if took > ownedWithin {
					long++
				}
				// Another kill may have been that of the new owner. A third one, which is even later, extends the limit no more.
				if limit := ownedWithin + min(killed.Sub(since), ownedWithin); took > limit {
					if late++; late <= 10 {
						r.Errorf("%s was without an owner for %v, want at most %v", uid, took, limit)
					}
				}
			}
		case "end":
			delete(working, uid)
			version[uid] = rv
		case "kill":
			killed = time.Unix(0, nanos)
			maps.DeleteFunc(working, func(_, worker string) bool { return worker == name })
			for uid, owner := range last {
				if owner == name {
					orphaned[uid] = killed
				}
			}
		}
	}
	if len(orphaned) > 0 {
		r.Errorf("%d pods of killed replicas were not reconciled again", len(orphaned))
	}
	for pod := range store.All() {
		if got := version[string(pod.UID)]; got != pod.ResourceVersion {
			r.Errorf("%s was reconciled at %q, and is at %s", pod.Name, got, pod.ResourceVersion)
		}
	}
	slices.Sort(without)
	if len(without) == 0 {
		r.Fatal("no pod belonged to a killed replica")
	}
	r.Logf("%d calls of Reconcile; from a kill to the next reconcile of a pod: median %v, most %v (%d pods)", calls,
		without[len(without)/2].Round(time.Millisecond), without[len(without)-1].Round(time.Millisecond), len(without))
	if long > len(without)/20 {
		r.Errorf("%d of %d pods were without an owner for more than %v", long, len(without), ownedWithin)
	}
}

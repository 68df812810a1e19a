package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/shard"
)

// replicaEnv is the environment variable that makes the test's binary a replica of TestReplicas. Its value is a replicaConfig.
const replicaEnv = "E2E_REPLICA"

// replicaConfig is the configuration of a replica.
type replicaConfig struct {
	Name, Namespace, Log string
	Host, Token          string
	CA                   []byte
}

func (c replicaConfig) rest() *rest.Config {
	return &rest.Config{
		Host: c.Host, BearerToken: c.Token, TLSClientConfig: rest.TLSClientConfig{CAData: c.CA}, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"},
	}
}

// replicaReport is what a replica prints for each line of its input.
type replicaReport struct {
	Objects       int    // that the replica owns
	Stored        int    // that its informer holds
	Digest        uint64 // of these objects
	Heap          uint64 // live bytes
	Bytes         int64  // received for the pods
	OutsideShard  int64  // objects that the server sent and that are not in the shard
	Status        shard.Status
	Lists         int
	QueueIsEmpty  bool
	LastErrorText string
}

// digestOf returns a number that changes with every change of the object. The digest of a store is the sum over its objects.
func digestOf(pod *corev1.Pod) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, pod.Namespace, "/", pod.Name, " ", pod.UID, " ", pod.ResourceVersion)
	return h.Sum64()
}

// replicaMain is a program that shares the pods of a namespace with other replicas. For each call of Reconcile it writes two lines to the
// log: the time, "begin" or "end", its name, the UID of the pod, and the resource version that it sees. For each line of its input it
// prints a report. It ends with its input.
func replicaMain(value string) error {
	var config replicaConfig
	if err := json.Unmarshal([]byte(value), &config); err != nil {
		return err
	}
	log, err := os.OpenFile(config.Log, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	write := func(what string, key shard.Key, version string) {
		// One write of a short line to the end of a file is atomic.
		if _, err := fmt.Fprintf(log, "%d %s %s %s %s\n", time.Now().UnixNano(), what, config.Name, key.UID, version); err != nil {
			panic(err)
		}
	}
	client, err := informer.NewClient(config.rest())
	if err != nil {
		return err
	}
	leases, err := informer.NewClient(config.rest())
	if err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	r, err := shard.New(leases, shard.Config{Namespace: config.Namespace, Name: "replicas", Identity: config.Name, Logger: quiet})
	if err != nil {
		return err
	}
	pods := informer.New(client, informer.Resource{GroupVersionResource: podsResource, Namespaces: []string{config.Namespace}}, informer.Config[*corev1.Pod]{Logger: quiet})
	ctl := &informer.Controller[shard.Key]{Name: "pods", MaxConcurrentReconciles: 8, Logger: quiet}
	ctl.Reconcile = func(ctx context.Context, key shard.Key) (informer.Result, error) {
		pod, ok := pods.Store().Get(key.Key)
		if !ok || pod.UID != key.UID {
			return informer.Result{}, nil
		}
		write("begin", key, pod.ResourceVersion)
		select {
		case <-time.After(time.Millisecond): // the work
		case <-ctx.Done():
		}
		write("end", key, pod.ResourceVersion)
		return informer.Result{}, nil
	}
	r.Follow(pods)
	shard.Control(r, ctl, shard.ByUID)
	ctl.Watch(shard.EnqueueObject(pods))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			if err := json.NewEncoder(os.Stdout).Encode(report(r, pods, ctl)); err != nil {
				return
			}
		}
	}()
	err = r.Run(ctx, func(ctx context.Context) error {
		go func() { _ = pods.Run(ctx) }()
		return ctl.Run(ctx)
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func report(r *shard.Replica, pods *informer.Informer[*corev1.Pod], ctl *informer.Controller[shard.Key]) replicaReport {
	var report replicaReport
	report.Stored = pods.Store().Len()
	for pod := range pods.Store().All() {
		if !r.Owns(informer.HashOf(pod.UID)) {
			continue
		}
		report.Objects++
		report.Digest += digestOf(pod)
	}
	report.Status = r.Status()
	if err := report.Status.LastError; err != nil {
		report.LastErrorText, report.Status.LastError = err.Error(), nil
	}
	watch := pods.Status().Reflectors[0]
	report.Bytes, report.OutsideShard, report.Lists = watch.Traffic.Bytes, watch.OutsideShard, int(watch.Traffic.Lists)
	queue := ctl.Status().Queue
	report.QueueIsEmpty = queue.InWork == 0 && queue.Depth.Low+queue.Depth.Normal == 0
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	report.Heap = m.HeapAlloc
	return report
}

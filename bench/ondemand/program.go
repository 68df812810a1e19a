package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientmetadata "k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/bench/internal/measure"
	"github.com/typedinformer/informer/readthrough"
)

var (
	secretsResource    = corev1.SchemeGroupVersion.WithResource("secrets")
	configMapsResource = corev1.SchemeGroupVersion.WithResource("configmaps")
)

// job is the work of a process.
type job struct {
	Server, Way      string
	Objects, Percent int
}

// reader reads a Secret and a ConfigMap of the same name, and returns the size of their data.
type reader func(ctx context.Context, key informer.Key) (int, error)

// way is a way to read: start returns once it can be read from.
type way struct {
	name  string
	start func(ctx context.Context, config *rest.Config) (reader, error)
}

var ways = []way{
	{"client-go, informers", startClientGo},
	{"client-go, metadata and live reads", startLive},
	{"informer", startInformer},
	{"informer/readthrough", startReadThrough},
}

// work does a job, and prints the figures.
func work(of string) error {
	var j job
	if err := json.Unmarshal([]byte(of), &j); err != nil {
		return err
	}
	for _, w := range ways {
		if w.name != j.Way {
			continue
		}
		f, err := j.measure(w)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(f)
	}
	return fmt.Errorf("there is no way %q", j.Way)
}

// counted counts requests.
type counted struct {
	next     http.RoundTripper
	requests atomic.Int64
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	return c.next.RoundTrip(r)
}

// parallel is the number of workers that read.
const parallel = 4

func (j *job) measure(w way) (figures, error) {
	var f figures
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	transport := &counted{next: &http.Transport{MaxIdleConnsPerHost: 2 * parallel}}
	config := &rest.Config{Host: j.Server, QPS: -1, Transport: transport}
	config.ContentType, config.AcceptContentTypes = protobuf, protobuf+",application/json"
	read, err := w.start(ctx, config)
	if err != nil {
		return f, err
	}
	f.Synced = float64(measure.LiveHeap())
	requests, cpu, began := transport.requests.Load(), measure.CPU(), time.Now()
	pairs, total := j.Objects/2*j.Percent/100, atomic.Int64{}
	var failed atomic.Pointer[error]
	for range rounds {
		var reading sync.WaitGroup
		for worker := range parallel {
			reading.Go(func() {
				for n := worker; n < pairs && failed.Load() == nil; n += parallel {
					m := meta(n * 100 / j.Percent)
					size, err := read(ctx, informer.Key{Namespace: m.Namespace, Name: m.Name})
					if err != nil {
						failed.Store(&err)
					}
					total.Add(int64(size))
				}
			})
		}
		reading.Wait()
	}
	if err := failed.Load(); err != nil {
		return f, *err
	}
	if total.Load() == 0 {
		return f, errors.New("the objects have no data")
	}
	reads := float64(2 * pairs * rounds)
	f.Get = time.Since(began).Seconds() * parallel / reads
	f.CPU = (measure.CPU() - cpu).Seconds()
	f.Requests = float64(transport.requests.Load() - requests)
	f.Read, f.Peak = float64(measure.LiveHeap()), float64(measure.PeakMemory())
	runtime.KeepAlive(read)
	return f, nil
}

const protobuf = "application/vnd.kubernetes.protobuf"

// startClientGo holds everything in client-go's informers.
func startClientGo(ctx context.Context, config *rest.Config) (reader, error) {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(clientset, 0)
	secrets, configMaps := factory.Core().V1().Secrets().Lister(), factory.Core().V1().ConfigMaps().Lister()
	factory.Start(ctx.Done())
	for of, ok := range factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return nil, fmt.Errorf("%v has not synced", of)
		}
	}
	return func(_ context.Context, key informer.Key) (int, error) {
		s, err := secrets.Secrets(key.Namespace).Get(key.Name)
		if err != nil {
			return 0, err
		}
		c, err := configMaps.ConfigMaps(key.Namespace).Get(key.Name)
		if err != nil {
			return 0, err
		}
		return size(s, c), nil
	}, nil
}

func size(s *corev1.Secret, c *corev1.ConfigMap) int {
	return len(s.Data["data"]) + len(c.Data["data"])
}

// startLive holds metadata in client-go's informers, and sends a request for each read.
func startLive(ctx context.Context, config *rest.Config) (reader, error) {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	metadata, err := clientmetadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := metadatainformer.NewSharedInformerFactory(metadata, 0)
	dropManagedFields := func(obj any) (any, error) {
		obj.(*metav1.PartialObjectMetadata).ManagedFields = nil
		return obj, nil
	}
	for _, resource := range []informer.Resource{{GroupVersionResource: secretsResource}, {GroupVersionResource: configMapsResource}} {
		if err := factory.ForResource(resource.GroupVersionResource).Informer().SetTransform(dropManagedFields); err != nil {
			return nil, err
		}
	}
	factory.Start(ctx.Done())
	for of, ok := range factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return nil, fmt.Errorf("%v has not synced", of)
		}
	}
	return func(ctx context.Context, key informer.Key) (int, error) {
		s, err := clientset.CoreV1().Secrets(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		if err != nil {
			return 0, err
		}
		c, err := clientset.CoreV1().ConfigMaps(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		if err != nil {
			return 0, err
		}
		return size(s, c), nil
	}, nil
}

// startInformer holds everything in informers of this library.
func startInformer(ctx context.Context, config *rest.Config) (reader, error) {
	client, err := informer.NewClient(config)
	if err != nil {
		return nil, err
	}
	secrets := informer.New(client, informer.Resource{GroupVersionResource: secretsResource}, informer.Config[*corev1.Secret]{})
	configMaps := informer.New(client, informer.Resource{GroupVersionResource: configMapsResource}, informer.Config[*corev1.ConfigMap]{})
	go secrets.Run(ctx)
	go configMaps.Run(ctx)
	if err := errors.Join(secrets.WaitSynced(ctx), configMaps.WaitSynced(ctx)); err != nil {
		return nil, err
	}
	return func(_ context.Context, key informer.Key) (int, error) {
		s, held := secrets.Store().Get(key)
		c, alsoHeld := configMaps.Store().Get(key)
		if !held || !alsoHeld {
			return 0, fmt.Errorf("no %s", key)
		}
		return size(s, c), nil
	}, nil
}

// startReadThrough holds metadata, and the objects that are read.
func startReadThrough(ctx context.Context, config *rest.Config) (reader, error) {
	client, err := informer.NewClient(config)
	if err != nil {
		return nil, err
	}
	secrets := readthrough.New(client, informer.Resource{GroupVersionResource: secretsResource}, readthrough.Config[*corev1.Secret]{})
	configMaps := readthrough.New(client, informer.Resource{GroupVersionResource: configMapsResource}, readthrough.Config[*corev1.ConfigMap]{})
	go secrets.Run(ctx)
	go configMaps.Run(ctx)
	if err := errors.Join(secrets.WaitSynced(ctx), configMaps.WaitSynced(ctx)); err != nil {
		return nil, err
	}
	return func(ctx context.Context, key informer.Key) (int, error) {
		s, err := secrets.Get(ctx, key)
		if err != nil {
			return 0, err
		}
		c, err := configMaps.Get(ctx, key)
		if err != nil {
			return 0, err
		}
		return size(s, c), nil
	}, nil
}

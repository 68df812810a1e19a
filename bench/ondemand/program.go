package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/bench/internal/measure"
	"github.com/typedinformer/informer/readthrough"
)

// job is the work of a program.
type job struct {
	Server  string // its address
	Peer    string
	Objects int // on the server
	Percent int // of them to read
}

// figures are the results of a program.
type figures struct {
	Read              int
	Heap, Peak        float64 // B
	SyncTime, Reading float64 // s
	Requests          float64 // of the reads
}

func (f figures) heap() float64     { return f.Heap }
func (f figures) peak() float64     { return f.Peak }
func (f figures) sync() float64     { return f.SyncTime }
func (f figures) reads() float64    { return f.Reading }
func (f figures) requests() float64 { return f.Requests }

// reader reads the object of each resource with a key, and returns the size of its data.
type reader struct {
	secret, configMap func(ctx context.Context, key informer.Key) (int, error)
	keep              any // what has to stay in memory
}

// peers are the programs to compare. start returns when the program has synced.
var peers = []struct {
	name  string
	start func(ctx context.Context, config *rest.Config) (reader, error)
}{
	{"client-go", startClientGo},
	{"informer", func(ctx context.Context, config *rest.Config) (reader, error) {
		return startInformer(ctx, config, informer.LayoutShared)
	}},
	{"informer, separate", func(ctx context.Context, config *rest.Config) (reader, error) {
		return startInformer(ctx, config, informer.LayoutSeparate)
	}},
	{"readthrough", func(ctx context.Context, config *rest.Config) (reader, error) {
		return startReadThrough(ctx, config, 0)
	}},
	{"readthrough, no limit", func(ctx context.Context, config *rest.Config) (reader, error) {
		return startReadThrough(ctx, config, 1<<40)
	}},
}

// work does the job of a program.
func work(spec string) error {
	var j job
	if err := json.Unmarshal([]byte(spec), &j); err != nil {
		return err
	}
	var requests atomic.Int64
	config := &rest.Config{Host: j.Server, QPS: -1, ContentConfig: rest.ContentConfig{
		ContentType: "application/vnd.kubernetes.protobuf",
	}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return counting{next, &requests}
	})
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Minute)
	defer stop()
	for _, p := range peers {
		if p.name != j.Peer {
			continue
		}
		began := time.Now()
		r, err := p.start(ctx, config)
		if err != nil {
			return err
		}
		f := figures{SyncTime: time.Since(began).Seconds()}
		if err := f.read(ctx, r, j, &requests); err != nil {
			return err
		}
		f.Heap, f.Peak = float64(measure.LiveHeap()), float64(measure.PeakMemory())
		runtime.KeepAlive(r)
		return json.NewEncoder(os.Stdout).Encode(f)
	}
	return fmt.Errorf("no program %q", j.Peer)
}

// read reads the objects of j that are to be read.
func (f *figures) read(ctx context.Context, r reader, j job, requests *atomic.Int64) error {
	before, began := requests.Load(), time.Now()
	for i := range j.Objects / 2 {
		if i%100 >= j.Percent {
			continue
		}
		for name, read := range map[string]func(context.Context, informer.Key) (int, error){
			"Secret": r.secret, "ConfigMap": r.configMap,
		} {
			n, err := read(ctx, key(i))
			if err != nil || n == 0 {
				return fmt.Errorf("%s %s has %d bytes: %w", name, key(i), n, err)
			}
			f.Read++
		}
	}
	f.Reading, f.Requests = time.Since(began).Seconds(), float64(requests.Load()-before)
	return nil
}

// counting counts requests.
type counting struct {
	next     http.RoundTripper
	requests *atomic.Int64
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	return c.next.RoundTrip(r)
}

// startClientGo starts client-go's informers, with managedFields dropped.
func startClientGo(ctx context.Context, config *rest.Config) (reader, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return reader{}, err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(func(obj any) (any, error) {
		obj.(metav1.Object).SetManagedFields(nil)
		return obj, nil
	}))
	secrets, configMaps := factory.Core().V1().Secrets().Lister(), factory.Core().V1().ConfigMaps().Lister()
	factory.Start(ctx.Done())
	for resource, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return reader{}, fmt.Errorf("%v did not sync", resource)
		}
	}
	return reader{
		secret: func(_ context.Context, key informer.Key) (int, error) {
			return secretSize(secrets.Secrets(key.Namespace).Get(key.Name))
		},
		configMap: func(_ context.Context, key informer.Key) (int, error) {
			return configMapSize(configMaps.ConfigMaps(key.Namespace).Get(key.Name))
		},
		keep: factory,
	}, nil
}

// startInformer starts informers of whole objects.
func startInformer(ctx context.Context, config *rest.Config, layout informer.Layout) (reader, error) {
	client, err := informer.NewClient(config)
	if err != nil {
		return reader{}, err
	}
	secrets := informer.New(client, secretResource, informer.Config[*corev1.Secret]{Layout: layout})
	configMaps := informer.New(client, configMapResource, informer.Config[*corev1.ConfigMap]{Layout: layout})
	go secrets.Run(ctx)
	go configMaps.Run(ctx)
	if err := secrets.WaitSynced(ctx); err != nil {
		return reader{}, err
	}
	return reader{
		secret: func(_ context.Context, key informer.Key) (int, error) {
			return secretSize(found(secrets.Store().Get(key)))
		},
		configMap: func(_ context.Context, key informer.Key) (int, error) {
			return configMapSize(found(configMaps.Store().Get(key)))
		},
		keep: []any{secrets, configMaps},
	}, configMaps.WaitSynced(ctx)
}

// startReadThrough starts informers of metadata, which hold maxBytes of whole objects for each resource.
func startReadThrough(ctx context.Context, config *rest.Config, maxBytes int64) (reader, error) {
	client, err := informer.NewClient(config)
	if err != nil {
		return reader{}, err
	}
	secrets := readthrough.New(client, secretResource, readthrough.Config[*corev1.Secret]{MaxBytes: maxBytes})
	configMaps := readthrough.New(client, configMapResource, readthrough.Config[*corev1.ConfigMap]{MaxBytes: maxBytes})
	go secrets.Run(ctx)
	go configMaps.Run(ctx)
	if err := secrets.WaitSynced(ctx); err != nil {
		return reader{}, err
	}
	return reader{
		secret: func(ctx context.Context, key informer.Key) (int, error) {
			return secretSize(secrets.Get(ctx, key))
		},
		configMap: func(ctx context.Context, key informer.Key) (int, error) {
			return configMapSize(configMaps.Get(ctx, key))
		},
		keep: []any{secrets, configMaps},
	}, configMaps.WaitSynced(ctx)
}

func found[T any](obj T, ok bool) (T, error) {
	if !ok {
		return obj, errors.New("not in the store")
	}
	return obj, nil
}

func secretSize(s *corev1.Secret, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return len(s.Data["content"]), nil
}

func configMapSize(m *corev1.ConfigMap, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return len(m.Data["content"]), nil
}

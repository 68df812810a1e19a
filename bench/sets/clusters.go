package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/bench/internal/canned"
	"github.com/typedinformer/informer/bench/internal/measure"
	"github.com/typedinformer/informer/fleet"
)

// directory is what the server of clusters says about them.
type directory struct {
	Hosts []string // the hanging ones first
	CA    []byte
}

// serveClusters serves the clusters until the process ends, each at a port of its own, and prints the URL of the
// directory. All have the same pods. The first ones accept requests and never answer.
func serveClusters(o options) error {
	pods, err := canned.New(canned.Config{Pods: o.Pods, Formats: []string{canned.JSON, canned.Protobuf}})
	if err != nil {
		return err
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	d := directory{CA: certificate}
	ended := make(chan error, 1)
	for i := range o.Clusters {
		server := &http.Server{Handler: pods, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}}
		if i < o.Hanging {
			server.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		d.Hosts = append(d.Hosts, "https://"+listener.Addr().String())
		go func() { ended <- server.ServeTLS(listener, "", "") }()
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		ended <- http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(d)
		}))
	}()
	fmt.Println("http://" + listener.Addr().String())
	return <-ended
}

// readDirectory returns the configurations of the clusters, by name, and the names of those that answer.
func readDirectory(url string, hanging int) (configs map[string]*rest.Config, healthy []string, err error) {
	resp, err := http.Get(url)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	var d directory
	if err := json.NewDecoder(resp.Body).Decode(&d); err != nil {
		return nil, nil, err
	}
	http.DefaultClient.CloseIdleConnections()
	configs = map[string]*rest.Config{}
	for i, host := range d.Hosts {
		name := "cluster-" + strconv.Itoa(i)
		configs[name] = &rest.Config{Host: host, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: d.CA},
			ContentConfig: rest.ContentConfig{
				ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
			}}
		if i >= hanging {
			healthy = append(healthy, name)
		}
	}
	return configs, healthy, nil
}

// follower starts to follow the pods of clusters. wait waits until those with these names have synced, and len
// returns the number of their pods. stop ends everything that was started.
type follower func(ctx context.Context, configs map[string]*rest.Config) (f *followed, err error)

type followed struct {
	wait func(ctx context.Context, names []string) error
	len  func(names []string) (int, error)
	stop func() error
}

const (
	byFleet        = "fleet"
	byCompactFleet = "fleet, compact"
	byClientGo     = "client-go"
	byRuntime      = "controller-runtime"
)

var followers = map[string]follower{
	byFleet:        followFleet(informer.LayoutShared),
	byCompactFleet: followFleet(informer.LayoutCompact),
	byClientGo:     followFactories,
	byRuntime:      followCaches,
}

func followFleet(layout informer.Layout) follower {
	return func(ctx context.Context, configs map[string]*rest.Config) (*followed, error) {
		quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
		pods, err := fleet.New(fleet.Config[*corev1.Pod]{
			Clusters: fleet.NewMap(configs),
			Resource: informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")},
			Informer: func(string) informer.Config[*corev1.Pod] {
				return informer.Config[*corev1.Pod]{Layout: layout, Logger: quiet}
			},
			Logger: quiet,
		})
		if err != nil {
			return nil, err
		}
		pods.Subscribe(fleet.HandlerFuncs[*corev1.Pod]{}, fleet.SubscriptionConfig{})
		ctx, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		running.Go(func() { _ = pods.Run(ctx) })
		return &followed{
			wait: func(ctx context.Context, names []string) error { return pods.WaitSynced(ctx, names...) },
			len: func(names []string) (n int, err error) {
				for _, name := range names {
					store, err := pods.Store(name)
					if err != nil {
						return 0, err
					}
					n += store.Len()
				}
				return n, nil
			},
			stop: func() error {
				cancel()
				running.Wait()
				return nil
			},
		}, nil
	}
}

// untilSynced waits until the clusters with these names have synced.
func untilSynced(ctx context.Context, names []string, synced func(name string) bool) error {
	for _, name := range names {
		if err := until(ctx, func() bool { return synced(name) }); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// followFactories has a factory of client-go for each cluster.
func followFactories(_ context.Context, configs map[string]*rest.Config) (*followed, error) {
	stopped := make(chan struct{})
	factories := map[string]informers.SharedInformerFactory{}
	pods := map[string]toolscache.SharedIndexInformer{}
	for name, config := range configs {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		factories[name] = informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(cache.TransformStripManagedFields()))
		pods[name] = factories[name].Core().V1().Pods().Informer()
		if _, err := pods[name].AddEventHandler(toolscache.ResourceEventHandlerFuncs{}); err != nil {
			return nil, err
		}
		factories[name].Start(stopped)
	}
	return &followed{
		wait: func(ctx context.Context, names []string) error {
			return untilSynced(ctx, names, func(name string) bool { return pods[name].HasSynced() })
		},
		len: func(names []string) (n int, err error) {
			for _, name := range names {
				n += len(pods[name].GetStore().ListKeys())
			}
			return n, nil
		},
		stop: func() error {
			close(stopped)
			for _, factory := range factories {
				factory.Shutdown()
			}
			return nil
		},
	}, nil
}

// followCaches has a cache of controller-runtime for each cluster, as programs on multicluster-runtime do.
func followCaches(ctx context.Context, configs map[string]*rest.Config) (*followed, error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	pods := map[string]cache.Informer{}
	caches := map[string]cache.Cache{}
	gv := corev1.SchemeGroupVersion
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{gv}) // so that a cluster that hangs does not keep the others from a mapper
	mapper.Add(gv.WithKind("Pod"), meta.RESTScopeNamespace)
	for name, config := range configs {
		c, err := cache.New(config, cache.Options{Mapper: mapper, DefaultTransform: cache.TransformStripManagedFields()})
		if err != nil {
			cancel()
			return nil, err
		}
		caches[name] = c
		if pods[name], err = c.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false)); err != nil {
			cancel()
			return nil, err
		}
		if _, err := pods[name].AddEventHandler(toolscache.ResourceEventHandlerFuncs{}); err != nil {
			cancel()
			return nil, err
		}
		running.Go(func() { _ = c.Start(ctx) })
	}
	return &followed{
		wait: func(ctx context.Context, names []string) error {
			return untilSynced(ctx, names, func(name string) bool { return pods[name].HasSynced() })
		},
		len: func(names []string) (n int, err error) {
			for _, name := range names {
				var list corev1.PodList
				if err := caches[name].List(ctx, &list); err != nil {
					return 0, err
				}
				n += len(list.Items)
			}
			return n, nil
		},
		stop: func() error {
			cancel()
			running.Wait()
			return nil
		},
	}, nil
}

// clusterFigures are those of a process that follows clusters.
type clusterFigures struct {
	Sync, CPU, Stop float64 // seconds; stop until everything has ended
	Each            usage   // of a cluster
	Heap, Peak      float64 // of the process
}

func followClusters(j job) (f clusterFigures, err error) {
	configs, healthy, err := readDirectory(j.Server, j.Options.Hanging)
	if err != nil {
		return f, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	before, cpu, began := usageNow(), measure.CPU(), time.Now()
	all, err := followers[j.Program](ctx, configs)
	if err != nil {
		return f, err
	}
	if err := all.wait(ctx, healthy); err != nil {
		return f, err
	}
	f.Sync, f.CPU, f.Peak = time.Since(began).Seconds(), (measure.CPU() - cpu).Seconds(), float64(measure.PeakMemory())
	switch n, err := all.len(healthy); {
	case err != nil:
		return f, err
	case n != len(healthy)*j.Options.Pods:
		return f, fmt.Errorf("%d pods of %d clusters with %d each", n, len(healthy), j.Options.Pods)
	}
	time.Sleep(time.Second) // for what ends after the start
	now := usageNow()
	f.Each, f.Heap = now.perEach(before, len(configs)), now.Heap-before.Heap
	began = time.Now()
	err = all.stop()
	f.Stop = time.Since(began).Seconds()
	return f, err
}

// compareClusters compares the programs.
func compareClusters(o options) error {
	if o.Hanging < 0 || o.Hanging >= o.Clusters {
		return fmt.Errorf("-hanging is %d: it must be less than -clusters", o.Hanging)
	}
	fmt.Printf("\nThe pods of %d clusters, the same %d in each.\n\n", o.Clusters, o.Pods)
	fmt.Println("| | hang | sync of the others | CPU | stop | heap each | goroutines each | sockets | peak |")
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	programs := []string{byClientGo, byRuntime, byFleet, byCompactFleet}
	for _, hanging := range slices.Compact([]int{0, o.Hanging}) {
		o.Hanging = hanging
		all, err := measureClusters(programs, o)
		if err != nil {
			return err
		}
		for _, program := range programs {
			runs := all[program]
			fmt.Printf("| %s | %d | %s | %s | %s | %s | %.1f | %.0f | %s |\n", program, hanging,
				measure.Seconds(median(runs, func(f clusterFigures) float64 { return f.Sync })),
				measure.Seconds(median(runs, func(f clusterFigures) float64 { return f.CPU })),
				measure.Seconds(median(runs, func(f clusterFigures) float64 { return f.Stop })),
				measure.Bytes(median(runs, func(f clusterFigures) float64 { return f.Each.Heap })),
				median(runs, func(f clusterFigures) float64 { return f.Each.Goroutines }),
				median(runs, func(f clusterFigures) float64 { return f.Each.Sockets }),
				measure.Bytes(median(runs, func(f clusterFigures) float64 { return f.Peak })))
		}
	}
	return compareMemory(programs, o)
}

// compareMemory compares what one cluster takes, and 50 clusters with the same pods.
func compareMemory(programs []string, o options) error {
	const many, pods = 50, 500
	o.Hanging, o.Pods = 0, pods
	heap := map[int]map[string]float64{}
	for _, clusters := range []int{1, many} {
		o.Clusters = clusters
		all, err := measureClusters(programs, o)
		if err != nil {
			return err
		}
		heap[clusters] = map[string]float64{}
		for _, program := range programs {
			heap[clusters][program] = median(all[program], func(f clusterFigures) float64 { return f.Heap })
		}
	}
	fmt.Printf("\nThe same %d pods in %d clusters: live heap.\n\n| | 1 cluster | %d clusters | share of %d times one |\n| --- | ---: | ---: | ---: |\n",
		pods, many, many, many)
	for _, program := range programs {
		single, all := heap[1][program], heap[many][program]
		fmt.Printf("| %s | %s | %s | %.0f%% |\n", program, measure.Bytes(single), measure.Bytes(all), 100*all/(many*single))
	}
	return nil
}

func measureClusters(programs []string, o options) (map[string][]clusterFigures, error) {
	var args []string
	for name, value := range map[string]int{"clusters": o.Clusters, "hanging": o.Hanging, "pods": o.Pods} {
		args = append(args, "-"+name+"="+strconv.Itoa(value))
	}
	server, stop, err := measure.Serve(append(args, "-as=clusters-server")...)
	if err != nil {
		return nil, err
	}
	defer stop()
	return byTurns[clusterFigures]("clusters", programs, strings.TrimSpace(server), o)
}

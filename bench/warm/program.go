package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/bench/internal/measure"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/fleet"
)

// serve serves pods until it is killed.
func serve(o options) error {
	f := fleet.New(fleet.Config{Pods: o.pods})
	var pods *informertest.Collection[*corev1.Pod]
	changed := 0
	server := informertest.NewServer(informertest.Options{Middleware: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/changes" {
				next.ServeHTTP(w, r)
				return
			}
			n, _ := strconv.Atoi(r.URL.Query().Get("n"))
			for range n {
				pod, _ := pods.Get(informer.KeyOf(f.Pod(changed % f.Len())))
				pod = pod.DeepCopy()
				changed++
				metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "controller.kubernetes.io/pod-deletion-cost", fmt.Sprint(changed))
				if _, err := pods.Update(pod); err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
					return
				}
			}
		})
	}})
	defer server.Close()
	namespaces := informertest.Register[*corev1.Namespace](server,
		informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("namespaces"),
			ClusterScoped: true})
	if _, err := namespaces.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}); err != nil {
		return err
	}
	pods = informertest.Register[*corev1.Pod](server,
		informertest.Resource{GroupVersionResource: podResource.GroupVersionResource})
	for pod := range f.All() {
		if _, err := pods.Create(pod); err != nil {
			return err
		}
	}
	fmt.Println(server.URL)
	select {}
}

var podResource = informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}

// job is the work of a program.
type job struct {
	kind
	Server string // its address
	Dir    string // of the saved states; empty for none
}

// figures are the results of a program.
type figures struct {
	Objects int
	Warm    bool    // it began with a saved state
	Bytes   float64 // B that the server sent until the sync, with the headers
	Sync    float64 // s
	CPU     float64 // s of processor time until the sync
	Peak    float64 // B of resident memory until the sync
	// PeakAtEnd is the peak after the save at the end, in B.
	PeakAtEnd float64
	File      float64 // B of the state that it saved
	Save      float64 // s
	Load      float64 // s
}

// counted is a connection that counts the bytes that it receives.
type counted struct {
	net.Conn
	received *atomic.Int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.Add(int64(n))
	return n, err
}

// work does the job of a program.
func work(spec string) error {
	var j job
	if err := json.Unmarshal([]byte(spec), &j); err != nil {
		return err
	}
	var received atomic.Int64
	config := &rest.Config{Host: j.Server, QPS: -1, Dial: func(ctx context.Context, network, address string) (net.Conn,
		error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return counted{conn, &received}, err
	}}
	if j.JSON {
		config.ContentType = "application/json"
	}
	client, err := informer.NewClient(config)
	if err != nil {
		return err
	}
	settings := informer.Config[*corev1.Pod]{Layout: j.Layout}
	if j.Dir != "" {
		settings.WarmStart.Storage = informer.WarmStartDir(j.Dir)
	}
	pods := informer.New(client, podResource, settings)
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Minute)
	defer stop()
	ended := make(chan error, 1)
	cpu, began := measure.CPU(), time.Now()
	go func() { ended <- pods.Run(ctx) }()
	if err := pods.WaitSynced(ctx); err != nil {
		return err
	}
	f := figures{
		Objects: pods.Store().Len(),
		Bytes:   float64(received.Load()),
		Sync:    time.Since(began).Seconds(),
		CPU:     (measure.CPU() - cpu).Seconds(),
		Peak:    float64(measure.PeakMemory()),
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		return err
	}
	s := pods.Status().Reflectors[0].WarmStart
	f.Warm = s.Loaded && s.LoadError == nil
	f.File, f.Save, f.Load = float64(s.SavedBytes), s.SaveTime.Seconds(), s.LoadTime.Seconds()
	f.PeakAtEnd = float64(measure.PeakMemory())
	return json.NewEncoder(os.Stdout).Encode(f)
}

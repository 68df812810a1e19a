package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/typedinformer/informer/bench/internal/measure"
	"github.com/typedinformer/informer/e2e/cluster"
	"github.com/typedinformer/informer/informertest"
)

var definitionsResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

const (
	idleGroup = "idle.example.com" // of the kinds without objects
	newGroup  = "new.example.com"  // of the kinds that are defined while a program runs
	definedAt = "example.com/defined-at"
)

// kindsServer is a kube-apiserver with definitions.
type kindsServer struct {
	client dynamic.Interface
}

// serveKinds starts a kube-apiserver with its files in dir, defines n kinds, and prints the URL of its control. Its
// kubeconfig is in dir.
func serveKinds(dir string, n int) error {
	ctx := context.Background()
	on, err := cluster.Start(ctx, cluster.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer on.Stop()
	kubeconfig, err := informertest.Kubeconfig(on.Config())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "kubeconfig"), kubeconfig, 0o600); err != nil {
		return err
	}
	config := on.Config()
	config.QPS = -1
	s := &kindsServer{}
	if s.client, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(8)
	for i := range n {
		group.Go(func() error {
			if err := s.define(ctx, idleGroup, i); err != nil {
				return err
			}
			return s.untilServed(ctx, idleGroup, i, func(ctx context.Context, r dynamic.ResourceInterface) error {
				_, err := r.List(ctx, metav1.ListOptions{ResourceVersion: "0", Limit: 1})
				return err
			})
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /define", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.FormValue("n"))
		over, err2 := time.ParseDuration(r.FormValue("over"))
		answer(w, errors.Join(err, err2, s.defineOver(r.Context(), n, over)))
	})
	mux.HandleFunc("POST /undefine", func(w http.ResponseWriter, r *http.Request) { answer(w, s.undefine(r.Context())) })
	fmt.Println("http://" + listener.Addr().String())
	return http.Serve(listener, mux)
}

// answer answers a request of a program.
func answer(w http.ResponseWriter, err error) {
	message := ""
	if err != nil {
		message = err.Error()
	}
	_ = json.NewEncoder(w).Encode(message)
}

// command asks the server to do something, and waits until it is done.
func command(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var message string
	if err := json.NewDecoder(resp.Body).Decode(&message); err != nil {
		return err
	}
	if message != "" {
		return errors.New(message)
	}
	return nil
}

// kindName returns the plural of Kind0001 and so on, as RESTMappers guess it.
func kindName(i int) string { return fmt.Sprintf("kind%04ds", i) }

// define creates a definition.
func (s *kindsServer) define(ctx context.Context, group string, i int) error {
	plural := kindName(i)
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group,
			"scope": "Namespaced",
			"names": map[string]any{"plural": plural, "kind": fmt.Sprintf("Kind%04d", i)},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "x-kubernetes-preserve-unknown-fields": true,
				}},
			}},
		},
	}}
	_, err := s.client.Resource(definitionsResource).Create(ctx, definition, metav1.CreateOptions{})
	return err
}

// untilServed calls do until it does not find that the server does not serve the kind.
func (s *kindsServer) untilServed(ctx context.Context, group string, i int,
	do func(ctx context.Context, r dynamic.ResourceInterface) error) error {
	kind := s.client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: kindName(i)})
	for {
		err := do(ctx, kind.Namespace("default"))
		// it answers 429 while it makes the storage of the kind, and 405 before the kind is established
		if !apierrors.IsNotFound(err) && !apierrors.IsTooManyRequests(err) && !apierrors.IsMethodNotSupported(err) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// defineOver defines n kinds in that time, each with an object that tells when.
func (s *kindsServer) defineOver(ctx context.Context, n int, over time.Duration) error {
	var group errgroup.Group
	began := time.Now()
	for i := range n {
		time.Sleep(time.Until(began.Add(time.Duration(i) * over / time.Duration(n))))
		group.Go(func() error {
			object := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": newGroup + "/v1", "kind": fmt.Sprintf("Kind%04d", i),
				"metadata": map[string]any{
					"name":        "first",
					"annotations": map[string]any{definedAt: strconv.FormatInt(measure.Now(), 10)},
				},
			}}
			if err := s.define(ctx, newGroup, i); err != nil {
				return err
			}
			return s.untilServed(ctx, newGroup, i, func(ctx context.Context, r dynamic.ResourceInterface) error {
				_, err := r.Create(ctx, object, metav1.CreateOptions{})
				return err
			})
		})
	}
	return group.Wait()
}

// undefine deletes the kinds of the new group, and waits until they are gone.
func (s *kindsServer) undefine(ctx context.Context) error {
	definitions := s.client.Resource(definitionsResource)
	for {
		all, err := definitions.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		left := 0
		for i := range all.Items {
			definition := &all.Items[i]
			if group, _, _ := unstructured.NestedString(definition.Object, "spec", "group"); group != newGroup {
				continue
			}
			left++
			if definition.GetDeletionTimestamp() != nil {
				continue
			}
			if err := definitions.Delete(ctx, definition.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		if left == 0 {
			return nil
		}
		time.Sleep(200 * time.Millisecond)
	}
}

package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/fleet"
	"github.com/typedinformer/informer/informertest"
)

// simulation is a fleet of API servers in the process, each with one Deployment.
type simulation struct {
	key         informer.Key
	clusters    *fleet.Map
	servers     map[string]*informertest.Server
	deployments map[string]*informertest.Collection[*appsv1.Deployment]
	starts      int // of servers
}

func newSimulation(key informer.Key) *simulation {
	s := &simulation{
		key:         key,
		clusters:    fleet.NewMap(nil),
		servers:     map[string]*informertest.Server{},
		deployments: map[string]*informertest.Collection[*appsv1.Deployment]{},
	}
	for i, name := range []string{"frankfurt", "oregon", "tokyo"} {
		s.serve(name, "shop/web:1.4", int32(3+i))
	}
	return s
}

// serve starts a cluster with the Deployment. It takes the place of the one with the same name, if there is one.
func (s *simulation) serve(name, image string, replicas int32) {
	server := informertest.NewServer(informertest.Options{InMemory: true})
	deployments := informertest.Register[*appsv1.Deployment](server,
		informertest.Resource{GroupVersionResource: appsv1.SchemeGroupVersion.WithResource("deployments")})
	_, err := deployments.Create(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: s.key.Name},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image}}},
		}},
		Status: appsv1.DeploymentStatus{ReadyReplicas: replicas},
	})
	if err != nil {
		panic(fmt.Sprintf("simulate %s: %v", name, err))
	}
	if old := s.servers[name]; old != nil {
		defer old.Close()
	}
	s.servers[name], s.deployments[name] = server, deployments
	config := server.Config()
	s.starts++
	config.Host = fmt.Sprintf("http://%s-%d", name, s.starts) // another cluster has another address
	s.clusters.Set(name, config)
}

// ready sets the number of ready replicas in a cluster.
func (s *simulation) ready(name string, replicas int32) {
	d, ok := s.deployments[name].Get(s.key)
	if !ok {
		return
	}
	d = d.DeepCopy()
	d.Status.ReadyReplicas = replicas
	if _, err := s.deployments[name].Update(d); err != nil {
		panic(fmt.Sprintf("simulate %s: %v", name, err))
	}
}

// hang makes a cluster answer nothing any more.
func (s *simulation) hang(name string) {
	s.servers[name].Inject(informertest.Fault{Hang: true})
	s.servers[name].CloseConnections()
}

// run makes things happen, until ctx ends. Only one goroutine may use s at a time.
func (s *simulation) run(ctx context.Context) {
	steps := []func(){
		func() { s.ready("oregon", 1) },
		func() { s.ready("oregon", 4) },
		func() { s.hang("tokyo") },
		func() { s.ready("oregon", 3) },
		func() { s.serve("frankfurt", "shop/web:1.5", 6) },
	}
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(3 * time.Second):
		}
		if i < len(steps) {
			steps[i]()
		} else {
			s.ready("oregon", int32(i%5))
		}
	}
}

// close stops the servers. It must not be called while run runs.
func (s *simulation) close() {
	for _, server := range s.servers {
		server.Close()
	}
}

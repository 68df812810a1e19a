// Command greeter gives each Greeting, a custom resource, a ConfigMap with its text. docs/getting-started.md explains it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/leader"
	"github.com/typedinformer/informer/manager"
	"github.com/typedinformer/informer/reconcile"
)

// Greeting is the custom resource that crd.yaml defines.
type Greeting struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec GreetingSpec `json:"spec"`
}

// GreetingSpec is the desired state.
type GreetingSpec struct {
	Name string `json:"name"`
}

var (
	greetingKind     = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Greeting"}
	greetingResource = greetingKind.GroupVersion().WithResource("greetings")
	configMaps       = corev1.SchemeGroupVersion.WithResource("configmaps")
)

func main() {
	ctx, stop := manager.SetupSignalHandler(context.Background())
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")) // in a pod, its service account
	if err != nil {
		log.Fatal(err)
	}
	client, err := informer.NewClient(config)
	if err != nil {
		log.Fatal(err)
	}
	settings := manager.Config{Probes: manager.Server{Addr: ":8081"}}
	if namespace := os.Getenv("POD_NAMESPACE"); namespace != "" {
		settings.Elector, err = leader.New(client, leader.Config{Namespace: namespace, Name: "greeter"})
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := run(ctx, client, settings); err != nil {
		log.Fatal(err)
	}
}

// run runs the controller until ctx ends.
func run(ctx context.Context, client *informer.Client, settings manager.Config) error {
	group := informer.NewGroup(client)
	greetings, _, err := informer.Shared(group, informer.Resource{GroupVersionResource: greetingResource},
		informer.Config[*Greeting]{})
	if err != nil {
		return err
	}
	// The selector keeps all other ConfigMaps of the cluster out of memory.
	texts, _, err := informer.Shared(group, informer.Resource{GroupVersionResource: configMaps, LabelSelector: "app=greeter"},
		informer.Config[*corev1.ConfigMap]{})
	if err != nil {
		return err
	}
	writer := informer.NewTypedClient[*corev1.ConfigMap](client, configMaps)

	ctl := &informer.Controller[informer.Key]{
		Name:                    "greeter",
		MaxConcurrentReconciles: 2,
		Timeout:                 time.Minute,
		Reconcile: func(ctx context.Context, key informer.Key) (informer.Result, error) {
			greeting, ok := greetings.Store().Get(key)
			if !ok {
				return informer.Result{}, nil // deleted; the garbage collector removes its ConfigMap
			}
			text := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
			text, _, err := reconcile.CreateOrUpdate(ctx, writer, texts.Store(), text, func(c *corev1.ConfigMap) error {
				metav1.SetMetaDataLabel(&c.ObjectMeta, "app", "greeter")
				c.Data = map[string]string{"greeting": fmt.Sprintf("Hello, %s!", greeting.Spec.Name)}
				return reconcile.SetControllerReference(greeting, greetingKind, c)
			})
			if err != nil {
				return informer.Result{}, err // retried with backoff
			}
			return informer.Result{}, texts.WaitForObject(ctx, text) // the next call reads this write
		},
	}
	ctl.Watch(informer.EnqueueObject(greetings, informer.GenerationChanged))
	ctl.Watch(informer.EnqueueOwner(texts, informer.Owner{GroupKind: greetingKind.GroupKind()}))

	m := manager.New(settings)
	if err := errors.Join(m.AddGroup("informers", group), m.AddController(ctl)); err != nil {
		return err
	}
	return m.Run(ctx)
}

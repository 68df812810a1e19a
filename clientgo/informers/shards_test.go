package informers_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer/clientgo/informers"
	"github.com/typedinformer/informer/clientgo/internal/shards"
	"github.com/typedinformer/informer/clientgo/internal/world"
)

// An option, a tweak, or the function of an informer restricts informers to a shard, also on a server that does not know
// shards.
// Guarantees: P1, S1
func TestShardSelector(t *testing.T) {
	tweak := func(o *metav1.ListOptions) { o.ShardSelector = world.Half().String() }
	for name, restricted := range map[string]func(kubernetes.Interface) informers.SharedInformerFactory{
		"option": func(client kubernetes.Interface) informers.SharedInformerFactory {
			return informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithShardSelector(world.Half()))
		},
		"tweak": func(client kubernetes.Interface) informers.SharedInformerFactory {
			return informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(tweak))
		},
		"function": func(client kubernetes.Interface) informers.SharedInformerFactory {
			f := informers.NewSharedInformerFactory(client, 0)
			f.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, resync time.Duration) clientcache.SharedIndexInformer {
				i := coreinformers.NewPodInformer(client, "", resync, clientcache.Indexers{})
				err := shards.Set(i, world.Half())
				if errors.Is(err, shards.ErrUnsupported) { // before client-go 0.38
					return coreinformers.NewFilteredPodInformer(client, "", resync, clientcache.Indexers{}, tweak)
				}
				if err != nil {
					t.Error(err)
				}
				return i
			})
			return f
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := world.New(t)
			want := w.Spread("one")
			f := restricted(w.Clientset())
			pods := f.Core().V1().Pods()
			if !replaced(pods.Informer()) {
				t.Errorf("%T", pods.Informer())
			}
			start(t, f)
			if list, err := pods.Lister().List(labels.Everything()); err != nil || !slices.Equal(world.Namespaces(list), want) {
				t.Errorf("pods of %q, %v; want %q", world.Namespaces(list), err, want)
			}
		})
	}
}

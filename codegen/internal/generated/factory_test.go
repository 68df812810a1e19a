package generated

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/generated/clientset/versioned"
	"k8s.io/sample-controller/pkg/generated/clientset/versioned/fake"
	theirs "k8s.io/sample-controller/pkg/generated/informers/externalversions"
	theirfoos "k8s.io/sample-controller/pkg/generated/informers/externalversions/samplecontroller/v1alpha1"

	"github.com/typedinformer/informer"
	ours "github.com/typedinformer/informer/codegen/internal/generated/externalversions"
	ourfoos "github.com/typedinformer/informer/codegen/internal/generated/externalversions/samplecontroller/v1alpha1"
	"github.com/typedinformer/informer/informertest"
)

var foosResource = schema.GroupVersion(samplev1alpha1.GroupVersion).WithResource("foos")

// foosOf is a server with foos.
func foosOf(t *testing.T) (*informertest.Collection[*samplev1alpha1.Foo], versioned.Interface) {
	t.Helper()
	server := informertest.NewServer(informertest.Options{InMemory: true})
	t.Cleanup(server.Close)
	foos := informertest.Register[*samplev1alpha1.Foo](server, informertest.Resource{GroupVersionResource: foosResource})
	client, err := versioned.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	return foos, client
}

// createFoo creates a foo with a label that is its name.
func createFoo(t *testing.T, in *informertest.Collection[*samplev1alpha1.Foo], namespace, name string) {
	t.Helper()
	if _, err := in.Create(&samplev1alpha1.Foo{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"name": name}},
		Spec:       samplev1alpha1.FooSpec{DeploymentName: "of-" + name},
	}); err != nil {
		t.Fatal(err)
	}
}

// program is what a program calls of a factory.
type program struct {
	start     func(context.Context)
	wait      func(context.Context) cache.SyncResult
	stop      func()
	foos      theirfoos.FooInformer
	informers func(schema.GroupVersionResource) (cache.SharedIndexInformer, cache.GenericLister, error)
}

// factories are informer-gen's factory and that of codegen, by calls of the same names.
var factories = map[string]func(versioned.Interface) program{
	"informer-gen": func(client versioned.Interface) program {
		f := theirs.NewSharedInformerFactoryWithOptions(client, time.Hour, theirs.WithNamespace("a"),
			theirs.WithCustomResyncConfig(map[metav1.Object]time.Duration{&samplev1alpha1.Foo{}: 2 * time.Hour}),
			theirs.WithTweakListOptions(unlisted), theirs.WithTransform(marked), theirs.WithInformerName(nil))
		return program{f.StartWithContext, f.WaitForCacheSyncWithContext, f.Shutdown, f.Samplecontroller().V1alpha1().Foos(),
			func(r schema.GroupVersionResource) (cache.SharedIndexInformer, cache.GenericLister, error) {
				g, err := f.ForResource(r)
				if err != nil {
					return nil, nil, err
				}
				return g.Informer(), g.Lister(), nil
			}}
	},
	"codegen": func(client versioned.Interface) program {
		f := ours.NewSharedInformerFactoryWithOptions(client, time.Hour, ours.WithNamespace("a"),
			ours.WithCustomResyncConfig(map[metav1.Object]time.Duration{&samplev1alpha1.Foo{}: 2 * time.Hour}),
			ours.WithTweakListOptions(unlisted), ours.WithTransform(marked), ours.WithInformerName(nil))
		return program{f.StartWithContext, f.WaitForCacheSyncWithContext, f.Shutdown, f.Samplecontroller().V1alpha1().Foos(),
			func(r schema.GroupVersionResource) (cache.SharedIndexInformer, cache.GenericLister, error) {
				g, err := f.ForResource(r)
				if err != nil {
					return nil, nil, err
				}
				return g.Informer(), g.Lister(), nil
			}}
	},
}

// unlisted selects all but the foo of that name.
func unlisted(o *metav1.ListOptions) { o.LabelSelector = "name!=unlisted" }

// marked marks a foo.
func marked(obj any) (any, error) {
	if foo, ok := obj.(*samplev1alpha1.Foo); ok {
		foo.Spec.DeploymentName += "!"
	}
	return obj, nil
}

// events records what a handler receives.
type events struct {
	mu   sync.Mutex // protects all
	all  []string
	more chan struct{} // receives after each event
}

func (e *events) note(what string, obj any) {
	m, err := meta.Accessor(obj)
	if err != nil {
		what, m = err.Error(), &metav1.ObjectMeta{}
	}
	e.mu.Lock()
	e.all = append(e.all, what+" "+m.GetNamespace()+"/"+m.GetName())
	e.mu.Unlock()
	e.more <- struct{}{}
}

func (e *events) OnAdd(obj any, _ bool) { e.note("add", obj) }
func (e *events) OnUpdate(_, obj any)   { e.note("update", obj) }
func (e *events) OnDelete(obj any)      { e.note("delete", obj) }

// replaced reports whether i is an informer of module clientgo.
func replaced(i cache.SharedIndexInformer) bool { return reflect.TypeOf(i).String() == "*cache.shared" }

// A program that imports the generated factory in place of informer-gen's receives the same events, and its listers give
// the same answers. The informers are those of this project.
// Guarantees: P1
func TestFactoryIsLikeThatOfInformerGen(t *testing.T) {
	var seen []string
	for name, create := range factories {
		t.Run(name, func(t *testing.T) {
			foos, client := foosOf(t)
			createFoo(t, foos, "a", "one")
			createFoo(t, foos, "a", "unlisted")
			createFoo(t, foos, "b", "other")
			p := create(client)
			ctx, cancel := context.WithCancel(t.Context())
			defer p.stop()
			defer cancel()
			received := &events{more: make(chan struct{}, 100)}
			handle, err := p.foos.Informer().AddEventHandler(received)
			if err != nil {
				t.Fatal(err)
			}
			p.start(ctx)
			if err := p.wait(ctx).AsError(); err != nil {
				t.Fatal(err)
			}
			if !cache.WaitFor(ctx, "", handle.HasSyncedChecker()) {
				t.Fatal("the handler has not synced")
			}
			createFoo(t, foos, "a", "two")
			if _, err := foos.Delete(informer.Key{Namespace: "a", Name: "one"}); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				<-received.more
			}
			list, err := p.foos.Lister().List(labels.Everything())
			if err != nil || len(list) != 1 || list[0].Spec.DeploymentName != "of-two!" {
				t.Errorf("List: %v, %v", list, err)
			}
			if foo, err := p.foos.Lister().Foos("a").Get("two"); err != nil || foo != list[0] {
				t.Errorf("Get: %v, %v", foo, err)
			}
			shared, lister, err := p.informers(foosResource)
			if err != nil {
				t.Fatal(err)
			}
			if obj, err := lister.ByNamespace("a").Get("two"); err != nil || obj != runtime.Object(list[0]) {
				t.Errorf("Get of the generic lister: %v, %v", obj, err)
			}
			if (name == "codegen") != replaced(shared) {
				t.Errorf("the informer is a %T", shared)
			}
			if _, _, err := p.informers(foosResource.GroupVersion().WithResource("bars")); err == nil || !strings.Contains(err.Error(), "bars") {
				t.Errorf("ForResource of an unknown resource: %v", err)
			}
			if want := []string{"add a/one", "add a/two", "delete a/one"}; !slices.Equal(received.all, want) {
				t.Errorf("events %q", received.all)
			}
			seen = append(seen, name)
		})
	}
	if len(seen) != 2 {
		t.Errorf("only %q ran", seen)
	}
}

// A fake clientset gets client-go's informers, so unit tests pass as before.
// Guarantees: P1
func TestFactoryOfFakeClientset(t *testing.T) {
	client := fake.NewSimpleClientset(&samplev1alpha1.Foo{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one"}})
	f := ours.NewSharedInformerFactory(client, 0)
	foos := f.Samplecontroller().V1alpha1().Foos()
	if i := foos.Informer(); replaced(i) {
		t.Errorf("the informer is a %T", i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer f.Shutdown()
	defer cancel()
	f.StartWithContext(ctx)
	if err := f.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		t.Fatal(err)
	}
	if _, err := foos.Lister().Foos("a").Get("one"); err != nil {
		t.Error(err)
	}
}

// An informer that no factory shares has the indexers and the tweaks of its caller.
// Guarantees: P1
func TestUnsharedInformer(t *testing.T) {
	foos, client := foosOf(t)
	createFoo(t, foos, "a", "one")
	createFoo(t, foos, "a", "unlisted")
	i := ourfoos.NewFilteredFooInformer(client, "a", 0, cache.Indexers{"deployment": func(obj any) ([]string, error) {
		return []string{obj.(*samplev1alpha1.Foo).Spec.DeploymentName}, nil
	}}, unlisted)
	if !replaced(i) {
		t.Errorf("the informer is a %T", i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { i.RunWithContext(ctx) })
	defer running.Wait()
	defer cancel()
	if !cache.WaitFor(ctx, "", i.HasSyncedChecker()) {
		t.Fatal("not synced")
	}
	if list, err := i.GetIndexer().ByIndex("deployment", "of-one"); err != nil || len(list) != 1 || len(i.GetStore().List()) != 1 {
		t.Errorf("ByIndex: %v, %v; all: %v", list, err, i.GetStore().ListKeys())
	}
}

package e2e

import (
	"fmt"
	"os"
	goruntime "runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/e2e/cluster"
	fromcrd "github.com/typedinformer/informer/examples/crd/fromcrd/shop/v1"
	shopinformers "github.com/typedinformer/informer/examples/crd/informers/shop/v1"
	shopv1 "github.com/typedinformer/informer/examples/crd/shop/v1"
	slim "github.com/typedinformer/informer/examples/crd/slim/shop/v1"
)

// widgetView is a generated lister's view of the widgets in some namespaces: names by query.
type widgetView map[string][]string

// widgetsFollower is a running informer of widgets, with a generated lister of any type.
type widgetsFollower struct {
	name string
	wait func(t *testing.T, obj informer.Versioned) // waits for this version
	gone func(t *testing.T, key informer.Key)       // waits until there is no such object
	view func(t *testing.T, namespaces []string) widgetView
	show func(t *testing.T, key informer.Key) string // factory and phase
}

// The queries to every lister.
var (
	widgetSelectors = []string{"app=web", "app!=web,tier in (a,b)", "!app"}
	widgetFactories = []string{"north", "south", "nowhere"}
)

// followWidgets starts an informer. lookups are those in the lister's indexes, by query.
func followWidgets[T interface {
	compared
	informer.Labeled
}](t *testing.T, name string, i *informer.Informer[T], lister informer.Lister[T], lookups map[string]func() []T, show func(T) string) widgetsFollower {
	t.Helper()
	start(t, i)
	var none T
	return widgetsFollower{
		name: name,
		wait: func(t *testing.T, obj informer.Versioned) {
			t.Helper()
			if err := i.WaitForObject(within(t, patience), obj); err != nil {
				t.Fatal(err)
			}
		},
		gone: func(t *testing.T, key informer.Key) {
			t.Helper()
			if _, err := i.Await(within(t, patience), key, func(obj T) bool { return obj == none }); err != nil {
				t.Fatal(err)
			}
		},
		view: func(t *testing.T, namespaces []string) widgetView {
			goruntime.GC() // with LayoutCompact, objects that nobody has are then decoded again
			view := widgetView{}
			add := func(question string, objects []T) {
				names := []string{}
				for _, obj := range objects {
					if slices.Contains(namespaces, obj.GetNamespace()) {
						names = append(names, obj.GetNamespace()+"/"+obj.GetName()+" at "+obj.GetResourceVersion())
					}
				}
				slices.Sort(names)
				view[question] = names
			}
			add("all", slices.Collect(lister.All()))
			for _, namespace := range namespaces {
				add("in "+namespace, lister.Namespace(namespace).List(nil))
			}
			for _, text := range widgetSelectors {
				selector, err := labels.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				add(text, lister.List(selector))
			}
			for question, ask := range lookups {
				add(question, ask())
			}
			return view
		},
		show: func(t *testing.T, key informer.Key) string {
			obj, err := lister.Get(key)
			if apierrors.IsNotFound(err) {
				return "none"
			}
			if err != nil {
				t.Fatal(err)
			}
			return show(obj)
		},
	}
}

// installWidgets installs the CRD of examples/crd, and removes it when the test ends.
func installWidgets(t *testing.T) dynamic.NamespaceableResourceInterface {
	t.Helper()
	text, err := os.ReadFile("../examples/crd/crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &crd.Object); err != nil {
		t.Fatal(err)
	}
	if err := cluster.InstallCRD(within(t, patience), server.Config(), crd); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(shopinformers.WidgetResource)
}

// The generated listers of one custom resource agree with the API server, whether their types are written by hand, generated
// from the CRD, or have only some fields. So do typed clients of these types.
func TestGeneratedListersOfACustomResource(t *testing.T) {
	truth := installWidgets(t)
	namespaces := []string{newNamespace(t), newNamespace(t)}
	client := newClient(t, runtime.ContentTypeJSON, nil)

	var followers []widgetsFollower
	for _, layout := range []informer.Layout{informer.LayoutShared, informer.LayoutCompact} {
		config := logged[*shopv1.Widget](t)
		config.Layout = layout
		types := shopinformers.NewWidgetInformer(client, config, namespaces...)
		lister := shopinformers.NewWidgetLister(types)
		lookups := map[string]func() []*shopv1.Widget{
			"wheel": func() []*shopv1.Widget { return slices.Collect(lister.ByPart("wheel")) },
			"made":  func() []*shopv1.Widget { return slices.Collect(lister.ByPhase(shopv1.Made)) },
		}
		for _, factory := range widgetFactories {
			lookups["factory "+factory] = func() []*shopv1.Widget { return slices.Collect(lister.ByFactory(factory)) }
		}
		followers = append(followers, followWidgets(t, fmt.Sprintf("Go types, %s", layout), types, lister.Lister, lookups,
			func(w *shopv1.Widget) string { return fmt.Sprint(w.Spec.Factory, w.Status.Phase) }))
	}
	crdTypes := fromcrd.NewWidgetInformer(client, logged[*fromcrd.Widget](t))
	crdLister := fromcrd.NewWidgetLister(crdTypes)
	slimTypes := slim.NewWidgetInformer(client, logged[*slim.Widget](t))
	slimLister := slim.NewWidgetLister(slimTypes)
	byCRD, bySlim := map[string]func() []*fromcrd.Widget{}, map[string]func() []*slim.Widget{}
	for _, factory := range widgetFactories {
		byCRD["factory "+factory] = func() []*fromcrd.Widget { return slices.Collect(crdLister.ByFactory(factory)) }
		bySlim["factory "+factory] = func() []*slim.Widget { return slices.Collect(slimLister.ByFactory(factory)) }
	}
	byCRD["wheel"] = func() []*fromcrd.Widget { return slices.Collect(crdLister.ByPart("wheel")) }
	byCRD["made"] = func() []*fromcrd.Widget { return slices.Collect(crdLister.ByPhase(fromcrd.WidgetStatusPhaseMade)) }
	followers = append(followers,
		followWidgets(t, "types from the CRD", crdTypes, crdLister.Lister, byCRD, func(w *fromcrd.Widget) string { return fmt.Sprint(w.Spec.Factory, w.Status.Phase) }),
		followWidgets(t, "slim types", slimTypes, slimLister.Lister, bySlim, func(w *slim.Widget) string { return fmt.Sprint(w.Spec.Factory, w.Status.Phase) }))

	// agree compares the listers with the API server.
	agree := func(t *testing.T, key informer.Key, written informer.Versioned) {
		t.Helper()
		list := func(selector string, match func(u *unstructured.Unstructured) bool) []string {
			names := []string{}
			for _, namespace := range namespaces {
				found, err := truth.Namespace(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
				if err != nil {
					t.Fatal(err)
				}
				for _, u := range found.Items {
					if match(&u) {
						names = append(names, u.GetNamespace()+"/"+u.GetName()+" at "+u.GetResourceVersion())
					}
				}
			}
			slices.Sort(names)
			return names
		}
		want := widgetView{"all": list("", func(*unstructured.Unstructured) bool { return true })}
		for _, namespace := range namespaces {
			want["in "+namespace] = list("", func(u *unstructured.Unstructured) bool { return u.GetNamespace() == namespace })
		}
		for _, selector := range widgetSelectors {
			want[selector] = list(selector, func(*unstructured.Unstructured) bool { return true })
		}
		text := func(u *unstructured.Unstructured, path ...string) string {
			s, _, _ := unstructured.NestedString(u.Object, path...)
			return s
		}
		for _, factory := range widgetFactories {
			want["factory "+factory] = list("", func(u *unstructured.Unstructured) bool { return text(u, "spec", "factory") == factory })
		}
		want["made"] = list("", func(u *unstructured.Unstructured) bool { return text(u, "status", "phase") == "Made" })
		want["wheel"] = list("", func(u *unstructured.Unstructured) bool {
			parts, _, _ := unstructured.NestedSlice(u.Object, "spec", "parts")
			return slices.ContainsFunc(parts, func(p any) bool { return p.(map[string]any)["name"] == "wheel" })
		})
		shown := "none"
		u, err := truth.Namespace(key.Namespace).Get(t.Context(), key.Name, metav1.GetOptions{})
		if err == nil {
			shown = text(u, "spec", "factory") + text(u, "status", "phase")
		} else if !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		for _, f := range followers {
			if written != nil {
				f.wait(t, written)
			} else {
				f.gone(t, key)
			}
			got := f.view(t, namespaces)
			for question, answer := range got {
				if diff := cmp.Diff(want[question], answer); diff != "" {
					t.Errorf("%s, %s (-server +lister):\n%s", f.name, question, diff)
				}
			}
			if got := f.show(t, key); got != shown {
				t.Errorf("%s: %s is %q, want %q", f.name, key, got, shown)
			}
		}
	}

	goClient := informer.NewTypedClient[*shopv1.Widget](client, shopinformers.WidgetResource)
	crdClient := informer.NewTypedClient[*fromcrd.Widget](client, fromcrd.WidgetResource)
	for i, namespace := range slices.Concat(namespaces, namespaces, namespaces) {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("widget-", i)}
		switch i % 3 {
		case 0:
			meta.Labels = map[string]string{"app": "web", "tier": "a"}
		case 1:
			meta.Labels = map[string]string{"app": "db", "tier": "b"}
		}
		factory := widgetFactories[i%2]
		var written informer.Versioned
		var err error
		if i%2 == 0 {
			kind := metav1.TypeMeta{APIVersion: fromcrd.GroupVersion.String(), Kind: "Widget"}
			written, err = goClient.Apply(t.Context(), informer.Key{Namespace: namespace, Name: meta.Name},
				&shopv1.Widget{TypeMeta: kind, ObjectMeta: meta, Spec: shopv1.WidgetSpec{Factory: factory, Parts: []shopv1.Part{{Name: "wheel", Count: 4}}}},
				metav1.ApplyOptions{FieldManager: "e2e"})
		} else {
			written, err = crdClient.Create(t.Context(), &fromcrd.Widget{ObjectMeta: meta, Spec: fromcrd.WidgetSpec{Factory: factory, Parts: []fromcrd.WidgetSpecParts{{Name: "engine", Count: 0}}}}, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		agree(t, informer.Key{Namespace: namespace, Name: meta.Name}, written)
	}

	key := informer.Key{Namespace: namespaces[0], Name: "widget-0"}
	have, err := crdLister.Get(key)
	if err != nil {
		t.Fatal(err)
	}
	changed := have.DeepCopy()
	changed.Status.Phase = fromcrd.WidgetStatusPhaseMade
	updated, err := crdClient.UpdateStatus(t.Context(), changed, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	agree(t, key, updated)
	changed = updated.DeepCopy()
	changed.Spec.Factory, changed.Spec.Parts = "nowhere", []fromcrd.WidgetSpecParts{}
	if updated, err = crdClient.Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	agree(t, key, updated)
	if have, _ := crdLister.Get(key); have.Spec.Parts == nil || len(have.Spec.Parts) > 0 {
		t.Errorf("parts are %#v, want an empty list", have.Spec.Parts)
	}
	slimClient := informer.NewTypedClient[*slim.Widget](client, slim.WidgetResource)
	patched, err := slimClient.Patch(t.Context(), key, types.MergePatchType, []byte(`{"metadata": {"labels": {"app": null, "tier": "b"}}, "spec": {"factory": "south"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if patched.Labels["tier"] != "b" || patched.Spec.Factory != "south" {
		t.Errorf("the slim client returned %+v", patched)
	}
	agree(t, key, patched)
	// The server's error describes a value that the schema rejects.
	if have, err = crdLister.Get(key); err != nil {
		t.Fatal(err)
	}
	changed = have.DeepCopy()
	changed.Status.Phase = "Broken"
	if _, err := crdClient.UpdateStatus(t.Context(), changed, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("update to an invalid phase: %v", err)
	}
	for _, key := range []informer.Key{key, {Namespace: namespaces[1], Name: "widget-1"}} {
		if err := goClient.Delete(t.Context(), key, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		agree(t, key, nil)
	}

	// Without its definition, the resource is gone, and the listers are empty.
	definitions, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if err := definitions.Resource(crds).Delete(t.Context(), fromcrd.WidgetResource.GroupResource().String(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, f := range followers {
		for i := 2; i < 6; i++ {
			f.gone(t, informer.Key{Namespace: namespaces[i%2], Name: fmt.Sprint("widget-", i)})
		}
		if got := f.view(t, namespaces)["all"]; len(got) > 0 {
			t.Errorf("%s: %v remain", f.name, got)
		}
	}
}

package informertest_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// failures is a testing.TB that records its failures.
type failures struct {
	testing.TB
	cleanup func()
	errors  []string
}

func (f *failures) Cleanup(c func()) { f.cleanup = c }
func (f *failures) Errorf(text string, args ...any) {
	f.errors = append(f.errors, fmt.Sprintf(text, args...))
}

func (f *failures) Fatal(args ...any) {
	f.errors = append(f.errors, fmt.Sprint(args...))
	runtime.Goexit()
}

// want checks that the only failure contains all of these texts, or that there is none if there are no texts.
func (f *failures) want(names ...string) {
	f.Helper()
	if (len(f.errors) == 1) != (len(names) > 0) || len(f.errors) > 1 {
		f.Fatalf("%d failures: %q", len(f.errors), f.errors)
	}
	for _, name := range names {
		if !strings.Contains(f.errors[0], name) {
			f.TB.Errorf("%q is not named in: %s", name, f.errors[0])
		}
	}
	f.errors = nil
}

type slim struct {
	Metadata struct {
		Namespace       string            `json:"namespace"`
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion"`
		UID             types.UID         `json:"uid"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec *struct{ Ports []struct{ Port int } }
	Any  map[string]any
	note string
}

func (s *slim) GetNamespace() string       { return s.Metadata.Namespace }
func (s *slim) GetName() string            { return s.Metadata.Name }
func (s *slim) GetUID() types.UID          { return s.Metadata.UID }
func (s *slim) GetResourceVersion() string { return s.Metadata.ResourceVersion }

// follow returns an object of an informer's store with a mutation detector, and the detector.
func follow[T informer.Object](t *testing.T, all bool) (T, *failures, func()) {
	server := informertest.NewServer(informertest.Options{})
	t.Cleanup(server.Close)
	gvr := corev1.SchemeGroupVersion.WithResource("pods")
	pods := informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: gvr})
	_, err := pods.Create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
		}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	client, err := informer.NewClient(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	f := &failures{TB: t}
	config := informer.Config[T]{Layout: informer.LayoutCompact}
	var check func()
	if all {
		client, check = informertest.DetectAllMutations(f, client)
	} else {
		if check = informertest.DetectMutations(f, &config); config.Layout != informer.LayoutSeparate {
			t.Errorf("the layout is %s", config.Layout)
		}
	}
	inf := informer.New(client, informer.Resource{GroupVersionResource: gvr}, config)
	ended := make(chan error)
	go func() { ended <- inf.Run(t.Context()) }()
	t.Cleanup(func() { <-ended })
	if err := inf.WaitSynced(t.Context()); err != nil {
		t.Fatal(err)
	}
	obj, ok := inf.Store().Get(informer.Key{Namespace: "default", Name: "a"})
	if !ok {
		t.Fatal("no pod")
	}
	return obj, f, check
}

func TestDetectMutations(t *testing.T) {
	for _, all := range []bool{false, true} {
		t.Run(fmt.Sprintf("all=%v", all), func(t *testing.T) { detectMutations(t, all) })
	}
}

func detectMutations(t *testing.T, all bool) {
	t.Run("Pod", func(t *testing.T) {
		pod, f, check := follow[*corev1.Pod](t, all)
		_ = pod.Spec.Containers[0].Resources.Requests.Cpu().String() // reading is not a mutation
		check()
		f.want()
		pod.Labels["app"] = "other"
		check()
		f.want("*v1.Pod default/a of resource version "+pod.ResourceVersion, "Labels", `-`, `"web"`, `"other"`)
		check()
		f.want() // once
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
		f.cleanup() // the end of the test
		f.want("Requests", `"cpu"`)
	})
	t.Run("Unstructured", func(t *testing.T) {
		pod, f, check := follow[*unstructured.Unstructured](t, all)
		check()
		f.want()
		pod.SetAnnotations(map[string]string{"seen": "yes"})
		check()
		f.want("default/a", `"annotations"`, `"seen"`)
		f.cleanup()
	})
	t.Run("slim struct", func(t *testing.T) {
		pod, f, check := follow[*slim](t, all)
		check()
		f.want()
		pod.note = "my own"
		check()
		f.want("note", "my own")
		pod.Metadata.Labels["app"] = "other"
		check()
		f.want("Labels", `"other"`)
		f.cleanup()
	})
}

// The informers of a program run with the configurations that they run with otherwise.
func TestDetectAllMutations_WarmStart(t *testing.T) {
	server := informertest.NewServer(informertest.Options{})
	t.Cleanup(server.Close)
	gvr := corev1.SchemeGroupVersion.WithResource("pods")
	informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: gvr})
	client, err := informer.NewClient(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	client, _ = informertest.DetectAllMutations(t, client)
	for name, c := range map[string]struct {
		config informer.Config[*corev1.Pod]
		valid  bool
	}{
		"warm start": {informer.Config[*corev1.Pod]{WarmStart: informer.WarmStartConfig{Storage: informer.WarmStartDir(t.TempDir())}}, true},
		"no layout":  {informer.Config[*corev1.Pod]{Layout: 7}, false},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		i := informer.New(client, informer.Resource{GroupVersionResource: gvr}, c.config)
		ended := make(chan error, 1)
		go func() { ended <- i.Run(ctx) }()
		if err := i.WaitSynced(ctx); (err == nil) != c.valid {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		<-ended
	}
}

// Each test watches the informers of its own client.
func TestDetectAllMutations_OwnClient(t *testing.T) {
	first, f, check := follow[*corev1.Pod](t, true)
	second, g, checkOther := follow[*corev1.Pod](t, true)
	first.Labels["app"] = "other"
	checkOther()
	g.want()
	check()
	f.want("Labels")
	second.Labels["app"] = "other"
	check()
	f.want()
	checkOther()
	g.want("Labels")
}

// The copy shares no mutable memory.
func TestDetectMutations_CopiesDeeply(t *testing.T) {
	var config informer.Config[*slim]
	f := &failures{TB: t}
	informertest.DetectMutations(f, &config)
	s := &slim{Spec: &struct{ Ports []struct{ Port int } }{Ports: []struct{ Port int }{{80}}}, Any: map[string]any{"list": []any{map[string]any{"x": 1}}}}
	s.Metadata.Name = "a"
	if _, err := config.Transform(s); err != nil {
		t.Fatal(err)
	}
	f.cleanup()
	f.want()
	s.Spec.Ports[0].Port = 81
	f.cleanup()
	f.want("Port", "80", "81")
	s.Any["list"].([]any)[0].(map[string]any)["x"] = 2
	f.cleanup()
	f.want("Any", `"list"`, `"x"`)
}

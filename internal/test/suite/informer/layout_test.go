package informer

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
)

func TestLayoutString(t *testing.T) {
	for layout, want := range map[informer.Layout]string{
		informer.LayoutShared: "Shared", informer.LayoutSeparate: "Separate", informer.LayoutCompact: "Compact", 3: "Layout(3)",
	} {
		if got := layout.String(); got != want {
			t.Errorf("layout %d is %q, want %q", layout, got, want)
		}
	}
	if layout := (informer.Config[*corev1.Pod]{}).Layout; layout != informer.LayoutShared {
		t.Errorf("the layout is %s by default", layout)
	}
}

// A value that is no layout is an error that names it, also for an informer that is observed. A Reflector cannot have LayoutCompact.
// Guarantees: L4
func TestLayoutIsChecked(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		resource := informer.Resource{GroupVersionResource: world.PodGVR}
		config := world.Quiet[*corev1.Pod]()
		reflect := func() error {
			_, err := informer.NewReflector(w.Client(), resource, informer.NewFIFO[*corev1.Pod](0), config)
			return err
		}
		config.Layout = informer.LayoutCompact
		if err := reflect(); err == nil || !strings.Contains(err.Error(), "Config.Layout is LayoutCompact: a reflector") {
			w.Errorf("a reflector with LayoutCompact: %v", err)
		}
		for _, layout := range []informer.Layout{informer.LayoutCompact + 1, 255} {
			config.Layout = layout
			want := fmt.Sprintf("Config.Layout is %d: it must be LayoutShared, LayoutSeparate or LayoutCompact", layout)
			for name, err := range map[string]error{
				"an informer":          informer.New(w.Client(), resource, config).Run(w.Context()),
				"an observed informer": informer.New(w.Client().WithObserver(func(informer.Object) {}), resource, config).Run(w.Context()),
				"a waiting caller":     informer.New(w.Client(), resource, config).WaitSynced(w.Context()),
				"a reflector":          reflect(),
			} {
				if err == nil || !strings.Contains(err.Error(), want) {
					w.Errorf("%s: %v, want %s", name, err, want)
				}
			}
		}
	})
}

// Objects with equal parts share them by default. With LayoutSeparate, and if somebody observes them, code that writes to one object
// changes no other.
// Guarantees: D2
func TestObjectsShareUnlessSeparate(t *testing.T) {
	// Each decoder has its own memory of values to share, and there is one for each goroutine that decodes. The race
	// detector makes a pool forget some, and a collection all: so there is one processor, and no collection.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		if config.Layout == informer.LayoutCompact {
			return // nobody holds a decoded object
		}
		const pods = 300 // a decoder starts to share after some dozen
		for i := range pods {
			pod := world.NewPod("ns", fmt.Sprint("p", i))
			pod.Spec.NodeSelector = map[string]string{"x": "y"}
			w.Create(pod)
		}
		for _, observed := range []bool{false, true} {
			client := client
			if observed {
				client = client.WithObserver(func(informer.Object) {})
			}
			inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
			stop := world.Start(w.T, inf)
			held := world.Held(inf)
			containers := map[*corev1.Container]bool{}
			for _, p := range held {
				containers[&p.Spec.Containers[0]] = true
			}
			if len(held) != pods {
				w.Fatalf("%d objects", len(held))
			}
			if config.Layout == informer.LayoutShared && !observed {
				if len(containers) > pods/3 {
					w.Errorf("%d objects have %d containers", pods, len(containers))
				}
				stop()
				continue
			}
			written := held["p7"]
			written.Spec.NodeSelector["x"], written.Spec.Containers[0].Image = "written", "written"
			for name, p := range held {
				if p != written && (p.Spec.NodeSelector["x"] != "y" || p.Spec.Containers[0].Image == "written") {
					w.Errorf("observed=%v: a write to p7 changed %s", observed, name)
				}
			}
			if len(containers) != pods {
				w.Errorf("observed=%v: %d objects have %d containers", observed, pods, len(containers))
			}
			stop()
		}
	})
}

// Informers of two clusters share equal parts if they have the same Parts. A program that writes to such a part is
// reported by the informer that finds it, and both take the right one.
// Guarantees: D6
func TestPartsOfTwoClusters(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		var parts informer.Parts
		var informers [2]*informer.Informer[*corev1.Pod]
		other := informertest.NewServer(informertest.Options{InMemory: true})
		defer other.Close()
		collection := informertest.Register[*corev1.Pod](other, informertest.Resource{GroupVersionResource: world.PodGVR})
		create := func(name string) *corev1.Pod {
			pod := world.NewPod("ns", name)
			pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "right"}}
			w.Create(pod.DeepCopy())
			if _, err := collection.Create(pod); err != nil {
				w.Fatal(err)
			}
			return pod
		}
		create("a")
		client, err := informer.NewClient(other.Config())
		if err != nil {
			w.Fatal(err)
		}
		for i, c := range []*informer.Client{w.Client(), client} {
			config, _ := world.Logged()
			config.Parts = &parts
			informers[i] = informer.New(c, informer.Resource{GroupVersionResource: world.PodGVR}, config)
			defer world.Start(w.T, informers[i])()
			synctest.Wait()
		}
		held := func(i int, name string) *corev1.Container { return &world.Held(informers[i])[name].Spec.Containers[0] }
		if held(0, "a") != held(1, "a") {
			w.Fatal("the pods have their own containers")
		}
		held(0, "a").Image = "written by mistake"
		modified := func(i int) int { return int(world.StatusOf(informers[i]).Traffic.Modified) }
		for i := 0; modified(0)+modified(1) == 0; i++ {
			if i == 2000 {
				w.Fatal("not found")
			}
			create(fmt.Sprint("b-", i))
			synctest.Wait()
		}
		create("c")
		synctest.Wait()
		if modified(0)+modified(1) != 1 || held(0, "c").Image != "right" || held(1, "c").Image != "right" {
			w.Errorf("found %d and %d times, images %q, %q", modified(0), modified(1), held(0, "c").Image, held(1, "c").Image)
		}
	})
}

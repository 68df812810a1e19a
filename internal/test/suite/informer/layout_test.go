package informer

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
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

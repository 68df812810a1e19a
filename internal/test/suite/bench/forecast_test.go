package bench

import (
	"log/slog"
	"math"
	"math/bits"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/test/canned"
	"github.com/typedinformer/informer/internal/test/fleet"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

// After three tenths of a first list, the forecast of the memory is close to what the heap has in the end, also that of
// the same objects in another layout.
//
// Guarantees: O7
func TestForecastIsCloseToTheTruth(t *testing.T) {
	const pods, pageSize = 5000, 500
	all := slices.Collect(fleet.New(fleet.Config{Pods: pods}).All())
	server := canned.PagesOf(t, decode.MediaProtobuf, all, pageSize)
	forecasts := map[string]status.Forecast{}
	held := map[string]float64{"metadata": math.Inf(1)}
	metadata := metadataServer(t, all)
	for range 3 { // more decoders than usual are a fifth of so little memory
		held["metadata"] = min(held["metadata"], heldBy(t, metadata, informer.Config[*metav1.PartialObjectMetadata]{}, nil))
	}
	for name, config := range map[string]informer.Config[*corev1.Pod]{
		"separate": {Layout: informer.LayoutSeparate},
		"shared":   {Layout: informer.LayoutShared},
		"compact":  {Layout: informer.LayoutCompact},
	} {
		// Near enough for a forecast early in the list: the first objects are not like the others. They are smaller where
		// pointers are.
		config.MaxMemory = (10 + 40*bits.UintSize/64) << 20
		held[name] = heldBy(t, server, config, func(n int, s status.List) {
			if n == pods/pageSize*3/10 && s.Objects > 0 {
				if forecasts[name] = s.Forecast; s.Objects != n*pageSize || s.Total != pods {
					t.Errorf("%s: %s", name, s)
				}
			}
		})
	}
	for from, f := range forecasts {
		to := map[string]int64{"shared": f.Shared, "compact": f.Compact, "metadata": f.Metadata}
		to[from] = f.Whole
		for to, forecast := range to {
			if from == "compact" && to != from {
				continue // it would save nothing, or about nothing
			}
			ratio := float64(forecast) / held[to]
			t.Logf("%s in %s: a forecast of %d B an object, and %.0f in the heap: %.2f", from, to, forecast/pods, held[to]/pods, ratio)
			if ratio < 0.7 || ratio > 1.3 {
				t.Errorf("%s in %s: the forecast is %.2f of the truth", from, to, ratio)
			}
		}
	}
}

// heldBy returns the memory that an informer of the server's pods holds. onPage is called before each page.
func heldBy[T informer.Object](t *testing.T, server *canned.Server, config informer.Config[T], onPage func(int, status.List)) float64 {
	_, stop := runOwn(t, server, config) // allocates what is allocated once
	stop()
	config.PagedList, config.Logger = true, slog.New(slog.DiscardHandler)
	var held int64
	testkit.Bubble(t, func(t *testing.T) {
		before := testkit.SteadyMemory()
		inf := informer.New(clientOf(t, server), podResource, config)
		if onPage != nil {
			server.OnPage = func(n int) { onPage(n, inf.Status().Reflectors[0].List) }
		}
		defer world.Start(t, inf)()
		synctest.Wait() // objects have been packed again
		held = testkit.SteadyMemory() - before
		server.OnPage = nil
	})
	if config.Layout == informer.LayoutCompact {
		held -= 1 << 20 // dictionaries, and samples for the next one, however many objects there are
	}
	return float64(held)
}

// metadataServer returns a server with the metadata of pods.
func metadataServer(t *testing.T, pods []*corev1.Pod) *canned.Server {
	list := metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for _, pod := range pods {
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: pod.ObjectMeta})
	}
	raw, err := list.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	kind := runtime.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}
	body, err := (&runtime.Unknown{TypeMeta: kind, Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return &canned.Server{Media: decode.MediaProtobuf, List: append([]byte("k8s\x00"), body...)}
}

package pages

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer/internal/test/fleet"
)

var pods = flag.Int("pods", 20_000, "`number` of pods of the benchmarks")

const size = 50 // pods of a page

// podsOf returns n pods without managedFields, as this library holds them.
func podsOf(n int) (all []*corev1.Pod) {
	for pod := range fleet.New(fleet.Config{Pods: n}).All() {
		pod.ManagedFields = nil
		all = append(all, pod)
	}
	return all
}

// filled returns an implementation with the pods.
func filled(t testing.TB, name string, pods []*corev1.Pod) implementation {
	impl, err := implementations[name](t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := impl.close(); err != nil {
			t.Error(err)
		}
	})
	if err := impl.put(pods); err != nil {
		t.Fatal(err)
	}
	return impl
}

var allPhases = []corev1.PodPhase{"", corev1.PodRunning, corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed, "Other"}

// touch returns the next version of pod, with another phase.
func touch(pod *corev1.Pod, random *rand.Rand) *corev1.Pod {
	next := *pod
	next.ResourceVersion = fmt.Sprint(random.Uint32())
	next.Status.Phase = allPhases[1+random.IntN(len(allPhases)-1)]
	return &next
}

// All implementations have the same pods on the same pages, before and after updates.
func TestImplementationsHaveTheSamePages(t *testing.T) {
	all := podsOf(500)
	random := rand.New(rand.NewPCG(1, 1))
	var updates []*corev1.Pod
	for range 300 {
		i := random.IntN(len(all))
		updates = append(updates, touch(all[i], random))
	}
	want := map[string]string{} // the answers of the implementation that came first
	shown := 0
	for _, name := range []string{"client-go", "informer", "sqlite"} {
		impl := filled(t, name, all)
		for when, pods := range [][]*corev1.Pod{nil, updates} {
			if err := impl.put(pods); err != nil {
				t.Fatal(err)
			}
			for _, phase := range allPhases {
				total, err := impl.count(phase)
				if err != nil {
					t.Fatal(err)
				}
				seen := 0
				for skip := 0; skip <= total; skip += size {
					page, err := impl.page(phase, skip, size)
					if err != nil {
						t.Fatal(err)
					}
					answer := fmt.Sprint(total, " ")
					for _, p := range page {
						answer += fmt.Sprintf("%s/%s@%s %s %s, ", p.Namespace, p.Name, p.ResourceVersion, p.Status.Phase, p.Spec.NodeName)
					}
					seen += len(page)
					asked := fmt.Sprintf("when=%d, phase=%s, skip=%d", when, phase, skip)
					if name == "client-go" {
						want[asked] = answer
					} else if want[asked] != answer {
						t.Errorf("%s: %s: got %s, want %s", name, asked, answer, want[asked])
					}
				}
				if shown += seen; seen != total {
					t.Errorf("%s: the pages of phase %q have %d pods, want %d", name, phase, seen, total)
				}
			}
		}
	}
	if shown < 3*2*2*len(all) { // each pod once with any phase and once with its own
		t.Errorf("%d pods on all pages", shown)
	}
}

// BenchmarkPages measures a page at the beginning and one in the middle, of pods with any phase and of those that run.
func BenchmarkPages(b *testing.B) {
	all := podsOf(*pods)
	for _, name := range []string{"client-go", "sqlite", "informer"} {
		impl := filled(b, name, all)
		for _, phase := range allPhases[:2] {
			total, err := impl.count(phase)
			if err != nil {
				b.Fatal(err)
			}
			for _, page := range []struct {
				name string
				skip int
			}{{"first", 0}, {"middle", total / 2}} {
				b.Run(fmt.Sprintf("phase=%s/page=%s/impl=%s", cmp.Or(phase, "any"), page.name, name), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						pods, err := impl.page(phase, page.skip, size)
						if err != nil || len(pods) != size {
							b.Fatalf("%d pods, %v", len(pods), err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkCount measures the number of pods that run.
func BenchmarkCount(b *testing.B) {
	all := podsOf(*pods)
	for _, name := range []string{"client-go", "sqlite", "informer"} {
		impl := filled(b, name, all)
		b.Run("impl="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n, err := impl.count(corev1.PodRunning); err != nil || n == 0 {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// BenchmarkUpdate measures an update of one pod, whose phase changes or not.
func BenchmarkUpdate(b *testing.B) {
	all := podsOf(*pods)
	random := rand.New(rand.NewPCG(1, 2))
	others := slices.Clone(all)
	for i := range others {
		others[i] = touch(all[i], random)
	}
	for _, name := range []string{"client-go", "sqlite", "informer"} {
		impl := filled(b, name, all)
		b.Run("impl="+name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				version := others
				if i/len(all)%2 == 1 {
					version = all
				}
				if err := impl.put(version[i%len(all) : i%len(all)+1]); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

package crcache_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The places of a setting for the pods of a namespace, the first one that has it prevails.
const (
	inByObjectNamespace = iota
	inByObject
	inDefaultNamespaces
	inDefaults
	nowhere
)

// levelSetting is a setting of cache.Config that can be in each of the places above.
type levelSetting struct {
	set func(c *cache.Config, level, prevails int)
	// seen returns the place of the setting that has an effect on the pods "pod-0" to "pod-4" of namespace a. prevails is
	// the place that should.
	seen func(w *world, c cache.Cache, prevails int) int
}

var levelSettings = map[string]levelSetting{
	"LabelSelector": {
		set: func(c *cache.Config, level, _ int) {
			c.LabelSelector = labels.SelectorFromSet(labels.Set{"name": fmt.Sprintf("pod-%d", level)})
		},
		seen: func(w *world, c cache.Cache, _ int) int { return onlyPod(w, c) },
	},
	"FieldSelector": {
		set: func(c *cache.Config, level, _ int) {
			c.FieldSelector = fields.OneTermEqualSelector("metadata.name", fmt.Sprintf("pod-%d", level))
		},
		seen: func(w *world, c cache.Cache, _ int) int { return onlyPod(w, c) },
	},
	"Transform": {
		set: func(c *cache.Config, level, _ int) {
			c.Transform = func(obj any) (any, error) {
				obj.(*corev1.Pod).Spec.NodeName = fmt.Sprint(level)
				return obj, nil
			}
		},
		seen: func(w *world, c cache.Cache, _ int) int {
			var pod corev1.Pod
			if err := c.Get(w.Context(), client.ObjectKey{Namespace: "a", Name: "pod-0"}, &pod); err != nil {
				w.Fatal(err)
			}
			level := nowhere
			_, _ = fmt.Sscan(pod.Spec.NodeName, &level) // without a transform, it is "node-pod-0"
			return level
		},
	},
	"UnsafeDisableDeepCopy": {
		set: func(c *cache.Config, level, prevails int) { c.UnsafeDisableDeepCopy = ptr(level == prevails) },
		seen: func(w *world, c cache.Cache, prevails int) int {
			var a, b corev1.Pod
			for _, pod := range []*corev1.Pod{&a, &b} {
				if err := c.Get(w.Context(), client.ObjectKey{Namespace: "a", Name: "pod-0"}, pod); err != nil {
					w.Fatal(err)
				}
			}
			if &a.Spec.Containers[0] != &b.Spec.Containers[0] {
				return nowhere
			}
			return prevails
		},
	},
	"SyncPeriod": {
		set: func(c *cache.Config, level, _ int) { c.SyncPeriod = ptr(time.Minute << (2 * level)) },
		seen: func(w *world, c cache.Cache, _ int) int {
			began, first := time.Now(), make(chan time.Duration, 1000)
			if _, err := w.informerOf(c).AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) {
				select {
				case first <- time.Since(began):
				default:
				}
			}}); err != nil {
				w.Fatal(err)
			}
			<-time.After(3 * time.Hour)
			synctest.Wait()
			if len(first) == 0 {
				return nowhere
			}
			// The first one comes after one or two periods, which differ from the setting by a tenth at most.
			took, level := <-first, 0
			for level < inDefaults && took > 150*time.Second<<(2*level) {
				level++
			}
			return level
		},
	},
}

// onlyPod returns the number of the only pod that c has, or nowhere if it has all.
func onlyPod(w *world, c cache.Cache) int {
	w.Helper()
	names := w.names(c)
	if len(names) != 1 {
		if len(names) != 5 {
			w.Errorf("pods %v", names)
		}
		return nowhere
	}
	var n int
	if _, err := fmt.Sscanf(names[0], "a/pod-%d", &n); err != nil {
		w.Fatal(err)
	}
	return n
}

// For each setting on its own, the namespace in ByObject prevails over ByObject, that over the namespace in DefaultNamespaces, and that
// over the defaults. If ByObject has no namespaces, it has those of DefaultNamespaces, whose settings prevail over its own. Both caches
// agree on each combination.
func TestEachSettingPrevailsOnItsOwn(t *testing.T) {
	for name, setting := range levelSettings {
		for _, impl := range caches[:2] {
			t.Run(name+"/"+impl.name, func(t *testing.T) {
				for has := range 1 << nowhere {
					for _, own := range []bool{true, false} { // whether ByObject has namespaces
						if !own && has&(1<<inByObjectNamespace) != 0 {
							continue
						}
						order := []int{inByObjectNamespace, inByObject, inDefaultNamespaces, inDefaults}
						if !own {
							order = []int{inDefaultNamespaces, inByObject, inDefaults}
						}
						want := nowhere
						for _, level := range order {
							if has&(1<<level) != 0 {
								want = level
								break
							}
						}
						synctest.Test(t, func(t *testing.T) {
							if got := setting.effective(t, impl, has, own, want); got != want {
								t.Errorf("set in %04b, ByObject has namespaces: %v: place %d prevails, want %d", has, own, got, want)
							}
						})
					}
				}
			})
		}
	}
}

// effective returns the place of the setting that has an effect on the pods of namespace a, if it is set in the places has.
func (s levelSetting) effective(t *testing.T, impl namedCache, has int, own bool, want int) int {
	configs := make([]cache.Config, nowhere)
	for level := range configs {
		if has&(1<<level) != 0 {
			s.set(&configs[level], level, want)
		}
	}
	object, defaults := configs[inByObject], configs[inDefaults]
	byObject := cache.ByObject{Label: object.LabelSelector, Field: object.FieldSelector, Transform: object.Transform,
		UnsafeDisableDeepCopy: object.UnsafeDisableDeepCopy, SyncPeriod: object.SyncPeriod}
	if own {
		byObject.Namespaces = map[string]cache.Config{"a": configs[inByObjectNamespace]}
	}
	w := newWorld(t, true)
	for n := range 5 {
		w.pod("a", fmt.Sprintf("pod-%d", n))
	}
	c := impl.create(w, cache.Options{
		DefaultLabelSelector:         defaults.LabelSelector,
		DefaultFieldSelector:         defaults.FieldSelector,
		DefaultTransform:             defaults.Transform,
		DefaultUnsafeDisableDeepCopy: defaults.UnsafeDisableDeepCopy,
		SyncPeriod:                   defaults.SyncPeriod,
		DefaultNamespaces:            map[string]cache.Config{"a": configs[inDefaultNamespaces]},
		ByObject:                     map[client.Object]cache.ByObject{&corev1.Pod{}: byObject},
	})
	stop := w.start(c)
	defer w.server.Close()
	defer stop()
	return s.seen(w, c, want)
}

// With cache.AllNamespaces beside a namespace by its name, the cache has each object once, in reads and in events.
func TestAllNamespacesBesideANamedOneHaveEachObjectOnce(t *testing.T) {
	both := map[string]cache.Config{cache.AllNamespaces: {}, "a": {}}
	for name, opts := range map[string]cache.Options{
		"DefaultNamespaces":        {DefaultNamespaces: both},
		"ByObject":                 {ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Namespaces: both}}},
		"ByObject of the defaults": {DefaultNamespaces: both, ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {}}},
		"with a selector": {DefaultNamespaces: map[string]cache.Config{
			cache.AllNamespaces: {FieldSelector: fields.OneTermNotEqualSelector("metadata.name", "z")}, "a": {}}},
	} {
		for _, impl := range caches {
			t.Run(name+"/"+impl.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, true)
					w.pod("a", "x")
					w.pod("b", "x")
					c := impl.create(w, opts)
					stop := w.start(c)
					var mu sync.Mutex // protects added: each namespace has a goroutine
					added := map[string]int{}
					if _, err := w.informerOf(c).AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
						mu.Lock()
						defer mu.Unlock()
						added[client.ObjectKeyFromObject(obj.(*corev1.Pod)).String()]++
					}}); err != nil {
						t.Fatal(err)
					}
					w.pod("a", "y")
					w.pod("b", "y")
					<-time.After(time.Second)
					synctest.Wait()
					mu.Lock()
					defer mu.Unlock()
					names := strings.Join(w.names(c), " ")
					for _, want := range []string{"a/x", "a/y", "b/x", "b/y"} {
						if strings.Count(names, want) != 1 || added[want] != 1 {
							t.Errorf("%s: %d times in the list %s, %d additions", want, strings.Count(names, want), names, added[want])
						}
					}
					for _, namespace := range []string{"a", "b"} {
						got := w.names(c, client.InNamespace(namespace))
						if slices.Sort(got); !slices.Equal(got, []string{namespace + "/x", namespace + "/y"}) {
							t.Errorf("in namespace %s: %v", namespace, got)
						}
					}
					stop()
					w.server.Close()
				})
			})
		}
	}
}

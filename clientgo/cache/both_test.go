package cache_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/clientgo/internal/world"
	"github.com/typedinformer/informer/informertest"
)

// informers are client-go's informer of pods and that of this package.
var informers = []struct {
	name   string
	create func(*testing.T, *world.World) clientcache.SharedIndexInformer
}{
	{"client-go", func(_ *testing.T, w *world.World) clientcache.SharedIndexInformer {
		lw := clientcache.NewListWatchFromClient(w.Clientset().CoreV1().RESTClient(), "pods", "", fields.Everything())
		return clientcache.NewSharedIndexInformer(lw, &corev1.Pod{}, time.Minute, clientcache.Indexers{"node": byNode})
	}},
	{"clientgo", func(t *testing.T, w *world.World) clientcache.SharedIndexInformer {
		c := config(w)
		c.ResyncPeriod = time.Minute
		return create(t, c)
	}},
}

// scene shows a difference that the documentation lists, with client-go's informer and with that of this package.
type scene struct {
	name         string
	play         func(*stage)
	theirs, ours string
	resync       time.Duration // of the handler; zero means that of the informer, a minute
}

// stage is a server and an informer with a handler. Neither runs at first.
type stage struct {
	*world.World
	informer clientcache.SharedIndexInformer
	events   world.Recorder
	said     []string
}

func (s *stage) say(format string, args ...any) {
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

// run runs the informer in the background until the end of the test.
func (s *stage) run() {
	go s.informer.RunWithContext(s.Context())
	synctest.Wait()
}

// gap stops the server, calls f, and starts the server in a state in which no watch resumes. It waits for the events.
func (s *stage) gap(f func()) {
	s.Server.Stop()
	f()
	s.Server.Compact()
	s.Server.Start()
	<-time.After(40 * time.Second) // longer than any backoff, and shorter than the resync period
	synctest.Wait()
}

// sayEvents notes the events since the last call, sorted.
func (s *stage) sayEvents() {
	synctest.Wait()
	events := s.events.Next(len(s.events.Waiting()))
	slices.Sort(events)
	s.say("%s", strings.Join(events, ", "))
}

var scenes = []scene{
	{"Recreated", func(s *stage) {
		s.Pod("a", "x")
		s.run()
		s.gap(func() {
			s.Delete("a", "x")
			s.Pod("a", "x")
		})
		s.sayEvents()
	},
		"initial a/x@2, update a/x@2 to a/x@4",
		"add a/x@4, delete unknown a/x: a/x@2, initial a/x@2", 0},

	{"RelistWithoutChanges", func(s *stage) {
		s.Pod("a", "x")
		s.run()
		s.gap(func() { s.Pod("b", "y") })
		s.sayEvents()
	},
		"add b/y@3, initial a/x@2, update a/x@2 to a/x@2",
		"add b/y@3, initial a/x@2", 0},

	{"PeriodOfResyncs", func(s *stage) {
		s.Pod("a", "x")
		s.run()
		for range 3 {
			<-time.After(time.Minute)
			synctest.Wait()
			s.say("%d", len(s.events.Waiting()))
		}
	},
		"2 3 4",
		"1 2 3", 0},

	{"WritesWhileItRuns", func(s *stage) {
		pod := s.Pod("a", "x")
		s.run()
		s.say("%t", s.informer.GetStore().Add(pod) == nil)
		s.say("%t", s.informer.GetStore().Delete(pod) == nil)
		s.say("%t", s.informer.GetStore().Replace(nil, "") == nil)
		s.say("%d", len(s.informer.GetStore().List()))
	},
		"true true true 0",
		"false false false 1", 0},

	{"Undecodable", func(s *stage) {
		s.Pod("a", "bad")
		s.Pod("b", "good")
		s.Server.Inject(informertest.Fault{Corrupt: []informer.Key{{Namespace: "a", Name: "bad"}}})
		s.run()
		<-time.After(time.Minute)
		s.say("synced: %t", s.informer.HasSynced())
		_, exists, err := s.informer.GetStore().GetByKey("a/bad")
		s.say("exists: %t, error: %t", exists, err != nil)
		list, err := s.informer.GetIndexer().ByIndex("node", "node-bad")
		s.say("found: %d, error: %t", len(list), err != nil)
		s.say("stored: %d", len(s.informer.GetStore().List()))
	},
		"synced: false exists: false, error: false found: 0, error: false stored: 0",
		"synced: true exists: false, error: true found: 0, error: true stored: 1", 0},

	{"TransformOfEachVersion", func(s *stage) {
		calls := 0
		s.transform(func(obj any) (any, error) {
			calls++
			return obj, nil
		})
		s.Pod("a", "x")
		s.run()
		s.gap(func() {})
		s.say("called again: %t", calls > 1)
	},
		"called again: true",
		"called again: false", 0},

	{"TransformThatFails", func(s *stage) {
		s.transform(func(obj any) (any, error) {
			if obj.(*corev1.Pod).Name == "rejected" {
				return nil, errors.New("rejected")
			}
			return obj, nil
		})
		s.Pod("a", "rejected")
		s.Pod("b", "good")
		s.run()
		<-time.After(time.Minute)
		s.say("synced: %t, stored: %d", s.informer.HasSynced(), len(s.informer.GetStore().List()))
		_, exists, err := s.informer.GetStore().GetByKey("a/rejected")
		s.say("exists: %t, error: %t", exists, err != nil)
	},
		"synced: true, stored: 1 exists: false, error: false",
		"synced: true, stored: 1 exists: false, error: true", 0},

	{"TransformThatRenames", func(s *stage) {
		s.transform(func(obj any) (any, error) {
			obj.(*corev1.Pod).Name = "new"
			return obj, nil
		})
		s.Pod("a", "old")
		s.run()
		s.say("%s", strings.Join(s.informer.GetStore().ListKeys(), ", "))
	},
		"a/new",
		"a/old", 0},

	{"TransformThatDropsTheVersion", func(s *stage) {
		s.transform(func(obj any) (any, error) {
			obj.(*corev1.Pod).ResourceVersion = ""
			return obj, nil
		})
		s.Pod("a", "x")
		s.run()
		<-time.After(70 * time.Second) // a resync, in which the handler, whose period is an hour, is not due
		s.events.Next(len(s.events.Waiting()))
		s.Relabel("a", "x", "v", "1")
		s.sayEvents()
	},
		"",
		"update a/x@ to a/x@", time.Hour},

	{"ObjectsOfBeforeRun", func(s *stage) {
		if err := s.informer.GetStore().Add(&corev1.Pod{}); err != nil {
			s.Fatal(err)
		}
		s.run()
		s.sayEvents()
		s.say("stored: %d", len(s.informer.GetStore().List()))
	},
		"delete unknown : @ stored: 0",
		" stored: 0", 0},
}

// transform sets the transform of the informer.
func (s *stage) transform(f clientcache.TransformFunc) {
	s.Helper()
	if err := s.informer.SetTransform(f); err != nil {
		s.Fatal(err)
	}
}

// Both kinds of informers behave as package clientgo says in its list of differences.
func TestDifferences(t *testing.T) {
	// One scene waits until the bubble's clock has passed the time of the last error, which is from the real clock.
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil
	defer func() { utilruntime.ErrorHandlers = handlers }()
	for _, scene := range scenes {
		for _, kind := range informers {
			t.Run(scene.name+"/"+kind.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := world.New(t)
					s := &stage{World: w, informer: kind.create(t, w)}
					resync := cmp.Or(scene.resync, time.Minute)
					if _, err := s.informer.AddEventHandlerWithResyncPeriod(&s.events, resync); err != nil {
						t.Fatal(err)
					}
					scene.play(s)
					want := scene.ours
					if kind.name == "client-go" {
						want = scene.theirs
					}
					if got := strings.Join(s.said, " "); got != want {
						t.Errorf("got  %s\nwant %s", got, want)
					}
				})
			})
		}
	}
}

package informer

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

// transitions returns the states of a status with their reasons, each cut after some characters.
func transitions(s status.Reflector) (list []string) {
	for _, t := range s.Transitions {
		why := t.Reason.String()
		if t.Err != nil {
			why = fmt.Sprintf("%.12s", t.Err.Error())
		}
		list = append(list, t.State.String()+" "+why)
	}
	return list
}

// A synced informer tells what it has received and when.
// Guarantees: O1
func TestStatusTellsWhatTheWatchReceived(t *testing.T) {
	for _, paged := range []bool{false, true} {
		t.Run(fmt.Sprintf("paged=%v", paged), func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				w.Create(world.NewPod("ns", "a"), world.NewPod("ns", "b"))
				config := world.Quiet[*corev1.Pod]()
				config.PagedList = paged
				inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, config)
				if s := world.StatusOf(inf); s.Awaits != status.AwaitingNothing || s.Traffic.Bytes != 0 || len(s.Transitions) > 0 || !s.ResourceVersionTime.IsZero() {
					w.Errorf("before Run: %+v", s)
				}
				defer world.Start(w.T, inf)()
				synctest.Wait()
				first := world.StatusOf(inf)
				watches := map[status.Reason]int{}
				if paged {
					watches[status.ReasonFirst] = 1
				}
				if !maps.Equal(first.Traffic.ListsBy, map[status.Reason]int{status.ReasonFirst: 1}) || !maps.Equal(first.Traffic.WatchesBy, watches) {
					w.Errorf("lists %v, watches %v", first.Traffic.ListsBy, first.Traffic.WatchesBy)
				}
				if events := int64(3); first.Traffic.Events != events && !paged || paged && first.Traffic.Events != 0 { // two pods and a bookmark
					w.Errorf("%d events", first.Traffic.Events)
				}
				if first.Traffic.Bytes < 200 || first.Awaits != status.AwaitingData || !first.RetryAt.IsZero() || !first.ResourceVersionTime.Equal(time.Now()) {
					w.Errorf("%+v", first)
				}
				if want := []string{"Listing first", "Watching first"}; !slices.Equal(transitions(first), want) {
					w.Errorf("transitions %q, want %q", transitions(first), want)
				}
				<-time.After(10 * time.Second)
				w.Relabel("ns", "a", "x")
				synctest.Wait()
				<-time.After(5 * time.Second)
				s := world.StatusOf(inf)
				if age := time.Since(s.ResourceVersionTime); age != 5*time.Second || s.Traffic.Events != first.Traffic.Events+1 || s.Traffic.Bytes <= first.Traffic.Bytes {
					w.Errorf("after a change: version of %v ago, %d events, %d bytes", age, s.Traffic.Events, s.Traffic.Bytes)
				}
			})
		})
	}
}

// Each list and each watch has its reason.
// Guarantees: O1
func TestStatusCountsByReason(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a"))
		inf := w.QuietInformer()
		defer world.Start(w.T, inf)()
		settle := func() {
			<-time.After(5 * time.Minute) // longer than any backoff
			synctest.Wait()
		}
		<-time.After(time.Second)
		w.Create(world.NewPod("ns", "b")) // a watch with an event may end at any time
		synctest.Wait()
		w.Server.EndWatches()
		settle()
		w.Server.CloseConnections()
		settle()
		w.Server.Stop()
		w.Create(world.NewPod("ns", "c"))
		w.Server.Compact()
		w.Server.Start()
		settle()
		backup := w.Server.Snapshot()
		for range 5 {
			w.Relabel("ns", "a", fmt.Sprint(time.Now()))
		}
		synctest.Wait()
		w.Server.Restore(backup)
		<-time.After(30 * time.Minute)
		synctest.Wait()
		s := world.StatusOf(inf)
		for reason, count := range map[status.Reason]map[status.Reason]int{
			status.ReasonFirst: s.Traffic.ListsBy, status.ReasonExpired: s.Traffic.ListsBy, status.ReasonRestored: s.Traffic.ListsBy,
		} {
			if count[reason] != 1 {
				w.Errorf("%d lists because of %v: %v", count[reason], reason, s.Traffic.ListsBy)
			}
		}
		if s.Traffic.WatchesBy[status.ReasonEnded] == 0 || s.Traffic.WatchesBy[status.ReasonFailed] == 0 {
			w.Errorf("watches %v", s.Traffic.WatchesBy)
		}
	})
}

// While a reflector waits, its status says for what.
// Guarantees: O1
func TestStatusTellsWhatIsAwaited(t *testing.T) {
	resource := informer.Resource{GroupVersionResource: world.PodGVR}
	run := func(w world.World, inf *informer.Informer[*corev1.Pod]) (stop func()) {
		stop = world.Run(w, inf)
		synctest.Wait()
		return stop
	}
	t.Run("rate limit", func(t *testing.T) {
		world.Bubble(t, func(w world.World) {
			client := w.Client(func(c *rest.Config) { c.QPS, c.Burst = 1.0/60, 1 })
			first := informer.New(client, resource, world.Paged[*corev1.Pod]())
			defer run(w, first)()
			second := informer.New(client, resource, world.Paged[*corev1.Pod]())
			defer run(w, second)()
			if s := world.StatusOf(second); s.Awaits != status.AwaitingRateLimit {
				w.Errorf("awaits %v", s.Awaits)
			}
			<-time.After(2 * time.Minute)
			if s := world.StatusOf(second); s.Awaits != status.AwaitingData {
				w.Errorf("awaits %v", s.Awaits)
			}
			if waits := client.Status().Throttled; waits.Count != 2 || waits.Max < 50*time.Second || waits.Max > time.Minute {
				w.Errorf("throttled: %+v", waits)
			}
		})
	})
	t.Run("response", func(t *testing.T) {
		world.Bubble(t, func(w world.World) {
			gate := make(chan struct{})
			w.Answer(func(http.ResponseWriter, *http.Request) bool { <-gate; return false })
			inf := informer.New(w.Client(), resource, world.Quiet[*corev1.Pod]())
			defer run(w, inf)()
			if s := world.StatusOf(inf); s.Awaits != status.AwaitingResponse || s.State != status.ReflectorListing {
				w.Errorf("awaits %v in %v", s.Awaits, s.State)
			}
			close(gate)
		})
	})
	t.Run("retry", func(t *testing.T) {
		world.Bubble(t, func(w world.World) {
			defer w.Server.Inject(informertest.Fault{Error: world.Unavailable})()
			inf := informer.New(w.Client(), resource, world.Quiet[*corev1.Pod]())
			defer run(w, inf)()
			s := world.StatusOf(inf)
			if wait := time.Until(s.RetryAt); s.Awaits != status.AwaitingRetry || wait <= 0 || wait > time.Minute {
				w.Errorf("awaits %v, retry in %v", s.Awaits, wait)
			}
			if want := []string{"Listing first", "Backoff watch: down"}; !slices.Equal(transitions(s)[:2], want) {
				w.Errorf("transitions %q, want %q", transitions(s), want)
			}
		})
	})
	t.Run("sink", func(t *testing.T) {
		world.Bubble(t, func(w world.World) {
			gate := make(chan struct{})
			r, err := informer.NewReflector(w.Client(), resource, sinkFunc(func() { <-gate }), world.Quiet[*corev1.Pod]())
			if err != nil {
				w.Fatal(err)
			}
			ctx, cancel := context.WithCancel(w.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); r.Run(ctx) }()
			synctest.Wait()
			if s := r.Status(); s.Awaits != status.AwaitingSink {
				w.Errorf("awaits %v", s.Awaits)
			}
			close(gate)
			synctest.Wait()
			if s := r.Status(); s.Awaits != status.AwaitingData {
				w.Errorf("awaits %v", s.Awaits)
			}
			cancel()
			<-ended
			if s := r.Status(); s.Awaits != status.AwaitingNothing || s.State != status.ReflectorIdle {
				w.Errorf("after Run: %v, awaits %v", s.State, s.Awaits)
			}
		})
	})
}

// sinkFunc is a sink that calls the function for each delta.
type sinkFunc func()

func (s sinkFunc) Put(context.Context, informer.Delta[*corev1.Pod]) error { s(); return nil }

// The log has one line for each transition, and none while all is well, however many watches end normally.
// Guarantees: O2
func TestLogHasTransitionsOnly(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a"))
		config, log := world.Logged()
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, config)
		inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{UpdateFunc: func(_, pod *corev1.Pod) {
			if pod.Labels["v"] == "slow" {
				<-time.After(15 * time.Second)
			}
		}}, informer.SubscriptionConfig[*corev1.Pod]{Name: "h"})
		stop := world.Start(w.T, inf)
		synctest.Wait()
		want := func(when string, want ...string) {
			w.Helper()
			got := log.Take()
			same := len(got) == len(want)
			for i := range min(len(got), len(want)) {
				same = same && strings.Contains(got[i], want[i])
			}
			if !same {
				w.Errorf("%s: log\n%s\nwant\n%s", when, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		want("at the start", `level=INFO msg="reflector: Listing" resource="v1 pods" from=Idle why=first`,
			`level=INFO msg="reflector: Watching" resource="v1 pods" from=Listing why=first objects=1 resourceVersion=2`)
		for i := range 24 {
			<-time.After(time.Hour)
			w.Relabel("ns", "a", fmt.Sprint(i))
			if i == 12 && world.StatusOf(inf).Traffic.Watches < 50 {
				w.Errorf("%d watches", world.StatusOf(inf).Traffic.Watches)
			}
		}
		want("in the steady state")
		w.Relabel("ns", "a", "slow")
		<-time.After(time.Minute)
		want("after a slow call", `level=WARN msg="a handler is slow" resource="v1 pods" handler=h call=10s backlog=0 oldest=0s`)
		remove := w.Server.Inject(informertest.Fault{Times: 1, Error: world.Unavailable})
		w.Server.EndWatches()
		<-time.After(5 * time.Minute)
		remove()
		want("after a failure", `level=WARN msg="reflector: Backoff" resource="v1 pods" from=Watching why="watch: `, `level=INFO msg="reflector: Watching"`)
		stop()
		want("at the end", `level=INFO msg="reflector: Idle"`)
		if n := len(world.StatusOf(inf).Transitions); n != 5 {
			w.Errorf("%d transitions", n)
		}
	})
}

// A resource that stays absent gives two lines, not two for each try. The status keeps the newest transitions.
// Guarantees: O2
func TestAbsentResourceIsLoggedOnce(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		config, log := world.Logged()
		gone := informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("gone")}
		inf := informer.New(w.Client(), gone, config)
		stop := world.Run(w, inf)
		<-time.After(time.Hour)
		if lines := log.Take(); len(lines) != 2 || !strings.Contains(lines[1], `level=WARN msg="reflector: Absent"`) {
			w.Errorf("log:\n%s", strings.Join(lines, "\n"))
		}
		before := world.StatusOf(inf)
		if n := len(before.Transitions); n != 16 || before.Transitions[n-1].State != status.ReflectorAbsent || before.Traffic.ListsBy[status.ReasonAbsent] < 100 {
			w.Errorf("%d transitions, lists %v", n, before.Traffic.ListsBy)
		}
		kept := slices.Clone(before.Transitions)
		<-time.After(time.Hour)
		if !slices.Equal(before.Transitions, kept) {
			w.Error("the transitions of an earlier status have changed")
		}
		stop()
	})
}

func TestNamesOfReasons(t *testing.T) {
	seen := map[string]bool{}
	for r := status.ReasonFirst; r <= status.ReasonUnclear; r++ {
		seen[r.String()] = true
	}
	if len(seen) != 9 || status.Reason(200).String() != "Reason(200)" {
		t.Errorf("%d names: %q", len(seen), slices.Sorted(maps.Keys(seen)))
	}
}

// A program that writes to an object of the store is found, and the harm does not stay.
// Guarantees: D6
func TestStatusTellsOfModifiedObjects(t *testing.T) {
	const secret = "written by mistake"
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a"), world.NewPod("ns", "b"))
		config, log := world.Logged()
		var failures []error
		config.OnFailure = func(err error) { failures = append(failures, err) }
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, config)
		defer world.Start(w.T, inf)()
		synctest.Wait()
		image := world.Held(inf)["a"].Spec.Containers[0].Image
		world.Held(inf)["a"].Spec.Containers[0].Image = secret // a fault
		for i := 0; world.StatusOf(inf).Traffic.Modified == 0; i++ {
			if i == 2000 {
				w.Fatal("not found")
			}
			w.Relabel("ns", "a", fmt.Sprint(i))
			synctest.Wait()
		}
		if got := world.Held(inf)["a"].Spec.Containers[0].Image; got != image {
			w.Errorf("the image is still %q", got)
		}
		w.Relabel("ns", "a", "x")
		w.Relabel("ns", "b", "x")
		synctest.Wait()
		s := world.StatusOf(inf)
		if s.Traffic.Modified != 1 || len(failures) != 1 || s.LastError != failures[0] {
			w.Errorf("found %d times, failures %v, last error %v", s.Traffic.Modified, failures, s.LastError)
		}
		for _, text := range []string{s.LastError.Error(), log.String()} {
			if !strings.Contains(text, "spec.containers[0].image") || !strings.Contains(text, "ns/a") || !strings.Contains(text, "*v1.Pod") {
				w.Errorf("it does not say what was modified: %s", text)
			}
			if strings.Contains(text, secret) {
				w.Errorf("it has content: %s", text)
			}
		}
	})
}

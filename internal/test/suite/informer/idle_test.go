package informer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
)

// engine matches the functions of an informer in the stack of a goroutine, but not those of the server.
var engine = regexp.MustCompile(`/internal/(informer|source|deliver|run)[./]`)

// wantGoroutines checks how many goroutines the informers have, while all wait. Those of the connections do not count.
func wantGoroutines(w world.World, what string, want int) {
	w.Helper()
	synctest.Wait()
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		w.Fatal(err)
	}
	got, stacks := 0, ""
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(stack, `"informer":`) && engine.MatchString(stack) {
			n, _, _ := strings.Cut(stack, " ")
			n = n[strings.LastIndex(n, "\n")+1:] // the profile has a title
			count, err := strconv.Atoi(n)
			if err != nil {
				w.Fatalf("%v in %s", err, stack)
			}
			got += count
			stacks += stack + "\n\n"
		}
	}
	if got != want {
		w.Errorf("%s: %d goroutines, want %d:\n%s", what, got, want, stacks)
	}
}

// Between events, an informer has one goroutine, which waits for its watch, beside that of Run. The schedule of audits,
// the buffer before the store and the handlers have none. It is the same after events, a failure, and an audit.
//
// Guarantees: O9
func TestIdleInformerHasOneGoroutine(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a"))
		inf, handler := w.PodInformer(informer.Config[*corev1.Pod]{})
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- inf.Run(ctx) }()
		if err := inf.WaitSynced(ctx); err != nil {
			w.Fatal(err)
		}
		wantGoroutines(w, "after the first list", 2)
		for i := range 100 { // more than the reflector writes itself
			w.Create(world.NewPod("ns", fmt.Sprint(i)))
		}
		wantGoroutines(w, "after events", 2)
		if got := len(handler.Told()); got < 100 {
			w.Errorf("the handler got %d events", got)
		}
		end := w.Server.Inject(informertest.Fault{Verb: "watch", Error: apierrors.NewInternalError(errors.New("down"))})
		w.Server.EndWatches()
		time.Sleep(2 * time.Minute) // of the bubble
		wantGoroutines(w, "in a backoff", 2)
		end()
		time.Sleep(5 * time.Minute)
		if s := inf.Status().Audit; s.Equal != 1 {
			w.Errorf("no audit after the server was away: %+v", s)
		}
		wantGoroutines(w, "after an audit", 2)
		cancel()
		<-ended
		wantGoroutines(w, "after Run", 0)
	})
}

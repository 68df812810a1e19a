package informer

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"regexp"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/world"
)

// frames collects the rooms and the files of the calls under way when see is called.
type frames struct {
	mu    sync.Mutex // protects the fields below
	on    bool
	rooms map[string]bool
	files map[string]bool
}

var walked = frames{rooms: map[string]bool{}, files: map[string]bool{}}

func (f *frames) see() {
	f.mu.Lock()
	defer f.mu.Unlock()
	pcs := make([]uintptr, 200)
	for calls := goruntime.CallersFrames(pcs[:goruntime.Callers(1, pcs)]); f.on; {
		frame, more := calls.Next()
		folder := frame.Function[:strings.LastIndex(frame.Function, "/")+1]
		name, _, _ := strings.Cut(frame.Function[len(folder):], ".")
		if room, ok := strings.CutPrefix(folder+name, "github.com/typedinformer/informer/internal/"); ok && !strings.HasPrefix(room, "test/") {
			f.rooms["internal/"+room] = true
			f.files[frame.File] = true
		}
		if !more {
			return
		}
	}
}

// start makes later calls of see count.
func (f *frames) start() { f.set(true) }

// stop makes later calls of see count no more.
func (f *frames) stop() { f.set(false) }

func (f *frames) set(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = on
}

// walking is a pod that sees its decoding.
type walking struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              walkingSpec `json:"spec"`
}

type walkingSpec struct{ raw string }

func (s *walkingSpec) UnmarshalJSON(raw []byte) error {
	walked.see()
	s.raw = string(raw)
	return nil
}

func (s walkingSpec) MarshalJSON() ([]byte, error) { return json.RawMessage(s.raw), nil }

// seen is a transport that sees its requests.
type seen struct{ http.RoundTripper }

func (s seen) RoundTrip(r *http.Request) (*http.Response, error) {
	walked.start()
	walked.see()
	walked.stop()
	return s.RoundTripper.RoundTrip(r)
}

// The walk of an event in doc.go names the rooms whose functions run for it, and no others: those that are on the stack
// when the program's own functions are called, from the request of the watch to the handler.
func TestWalkOfAnEvent(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a", "v=1"))
		client := w.Client(func(c *rest.Config) {
			c.WrapTransport = func(rt http.RoundTripper) http.RoundTripper { return seen{rt} }
		})
		config := world.Quiet[*walking]()
		config.Filter = func(*metav1.PartialObjectMetadata) bool { walked.see(); return true }
		config.Transform = func(obj *walking) (*walking, error) { walked.see(); return obj, nil }
		inf := informer.New(client, pods, config)
		informer.NewIndex(inf, func(*walking) []string { walked.see(); return nil })
		updates := 0
		inf.Subscribe(informer.HandlerFuncs[*walking]{UpdateFunc: func(_, _ *walking) { walked.see(); updates++ }})
		go inf.Run(w.Context())
		if err := inf.WaitSynced(w.Context()); err != nil {
			w.Fatal(err)
		}
		synctest.Wait()
		walked.start()
		w.Relabel("ns", "a", "2")
		synctest.Wait()
		if updates != 1 {
			w.Fatalf("%d updates", updates)
		}
	})
	text, err := os.ReadFile("../../../../doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, walk, _ := strings.Cut(string(text), "// An event of a watch:\n")
	walk, _, _ = strings.Cut(walk, "// A read of the store")
	named := map[string]bool{}
	for _, room := range regexp.MustCompile(`internal/[a-z]+(/[a-z]+)*`).FindAllString(walk, -1) {
		named[room] = true
	}
	delete(named, "internal/store/compact") // with LayoutCompact only
	if got, want := slices.Sorted(maps.Keys(walked.rooms)), slices.Sorted(maps.Keys(named)); !slices.Equal(got, want) {
		t.Errorf("an event passes %q, doc.go names %q", got, want)
	}
	t.Logf("%d files: %q", len(walked.files), slices.SortedFunc(maps.Keys(walked.files), cmp.Compare[string]))
}

package informer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/source/budget"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/fetch"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/internal/source/reflector"
	"github.com/typedinformer/informer/internal/source/reshard"
	"github.com/typedinformer/informer/internal/source/transport"
)

// thing is the smallest object.
type thing = *metav1.PartialObjectMetadata

// silence is a server that only answers requests for one object.
type silence struct {
	answer func() (code int, body string)
}

func (s silence) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.Contains(r.URL.Query().Get("fieldSelector"), "metadata.name=") {
		return nil, errors.New("no answer") // a list that waits would delay the answers
	}
	code, body := s.answer()
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {decode.MediaJSON}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// selected is an informer with selections that runs in a bubble. Tests put deltas into its members.
type selected struct {
	*testing.T
	*merged[thing]
}

// runSelected calls test with an informer of these selections, which runs.
func runSelected(t *testing.T, server silence, test func(s selected), labels ...string) {
	synctest.Test(t, func(t *testing.T) {
		client, err := transport.New(&rest.Config{Host: "http://test", Transport: server, QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		pool, err := decode.NewPool(reflect.TypeFor[thing](), "", false, nil)
		if err != nil {
			t.Fatal(err)
		}
		packing := intake.Unpacked[thing]{Decoded: pool.Type()}
		f := New(Config[thing]{
			Parts:      parts(labels...),
			Selections: true,
			Packing:    packing,
			Log:        slog.New(slog.DiscardHandler),
			Reflect: func(_ Part, shard shardset.Shard, sink reflector.Sink[thing],
				_ func(object.Key) (thing, bool)) (*reflector.Loop[thing], error) {
				source := fetch.NewSource(fetch.Config{Client: client, Path: "/api/v1/things", Check: pool.Check,
					Kind:     decode.NewKind(pool.Type(), "things"),
					Resource: metav1.SchemeGroupVersion.WithResource("things")})
				return reflector.New(reflector.Config[thing]{
					Sink:   sink,
					Source: source,
					Progress: &intake.Progress[thing]{
						List: budget.New().Account(0).List("things", slog.New(slog.DiscardHandler)),
					},
					Absence: fetch.NewAbsence(source, false),
					Decoder: &intake.Decoder[thing]{Pool: pool, Packing: packing, Metadata: pool, Calling: run.NewLimit(1)},
					Shard:   reshard.NewAdoption(shard),
					Log:     slog.New(slog.DiscardHandler),
				}), nil
			},
			NotSynced: func(why string, _ []error) error { return errors.New(why) },
		}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.Run(ctx) }()
		synctest.Wait()
		test(selected{t, f.feeder.(*merged[thing])})
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Errorf("Run: %v", err)
		}
	})
}

// parts are the selections with these labels.
func parts(labels ...string) (all []Part) {
	for _, text := range labels {
		all = append(all, Part{Labels: text})
	}
	return all
}

// member returns the member with these labels.
func (s selected) member(labels string) *member[thing] {
	all := s.all()
	return all[slices.IndexFunc(all, func(m *member[thing]) bool { return m.Labels == labels })]
}

// put makes the store of a member have d.
func (s selected) put(labels string, d reflector.Delta[thing]) {
	s.Helper()
	if err := s.member(labels).Buffer.Put(s.Context(), &d); err != nil {
		s.Fatal(err)
	}
	synctest.Wait()
}

// listOf is a list of things with these names, at a version.
func listOf(version string, names ...string) reflector.Delta[thing] {
	d := reflector.Delta[thing]{Type: reflector.Replaced, Version: version}
	for _, name := range names {
		d.Items = append(d.Items, newThing(version, name))
	}
	return d
}

func newThing(version, name string) thing {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", ResourceVersion: version}}
}

// Members that are no longer wanted leave when the others have arrived. Only then, the selections have settled.
// Guarantees: U3
func TestSelectionsWithALeavingOneHaveNotSettled(t *testing.T) {
	runSelected(t, silence{}, func(s selected) {
		check := func(when string, want bool, objects int) {
			s.Helper()
			if ok, _ := s.settled(); ok != want || s.store.Snapshot().Len() != objects {
				s.Errorf("%s: settled is %v, %d objects", when, ok, s.store.Snapshot().Len())
			}
		}
		check("a is wanted", false, 0)
		s.put("a", listOf("1", "x"))
		check("a has arrived", true, 1)
		if err := s.want(parts("b")); err != nil {
			s.Fatal(err)
		}
		check("b is wanted", false, 1)
		_, changed := s.settled()
		s.member("b").Sharding.Begin("")
		check("b has arrived, and a has not left", false, 1)
		s.settle()
		check("a has left", true, 0)
		if !run.IsClosed(changed) {
			s.Error("nobody who waits for the selections looks again")
		}
	}, "a")
}

// A question that the server has not answered is asked again, and so after the next failure, without another change.
// Guarantees: U2
func TestUnansweredQuestionIsAskedAgain(t *testing.T) {
	var asked []time.Duration
	var began time.Time
	runSelected(t, silence{func() (int, string) {
		if asked = append(asked, time.Since(began)); len(asked) <= 3 {
			return http.StatusInternalServerError, ""
		}
		return http.StatusOK, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"2"},"items":[]}`
	}}, func(s selected) {
		s.put("a", listOf("1", "x"))
		s.put("b", listOf("1"))
		began = time.Now()
		s.put("a", reflector.Delta[thing]{Type: reflector.Removed, Version: "2", Object: newThing("2", "x")})
		if s.store.Snapshot().Len() != 1 {
			s.Error("the object has left, although b may have it")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		const round = askAfter + askAgainAfter
		want := []time.Duration{askAfter, round + askAfter, 2*round + askAfter, 3*round + askAfter, 3*round + askAfter}
		if !slices.Equal(asked, want) || s.store.Snapshot().Len() > 0 { // the last time, of a and of b
			s.Errorf("asked at %v, want %v; %d objects", fmt.Sprint(asked), want, s.store.Snapshot().Len())
		}
	}, "a", "b")
}

package fetch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/transport"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// A watch that its user closes, or whose context ends, is over for the server at once. net/http of Go 1.27 first drains a
// body that is closed before its request ends, for up to 50 ms.
// Guarantees: R30
func TestClosedWatchEndsAtTheServerAtOnce(t *testing.T) {
	for name, streams := range map[string]int{"HTTP/1.1": 0, "HTTP/2": 100} {
		for _, reading := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan time.Time, 1)
				server := testkit.NewSecureServer(t, streams, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", decode.MediaJSON)
					w.(http.Flusher).Flush()
					<-r.Context().Done()
					ended <- time.Now()
				})
				client, err := transport.New(server.Config)
				if err != nil {
					t.Fatal(err)
				}
				source := NewSource(Config{Client: client, Path: "/api/v1/things",
					Resource: schema.GroupVersionResource{Resource: "things"}, Check: func(decode.Format) error { return nil }})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w, err := source.Watch(ctx, State{Version: "7"}, "")
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				began := time.Now()
				if reading {
					time.AfterFunc(time.Minute, cancel)
					if err := w.Follow((&records{}).NewIntake, nil); !errors.Is(err, context.Canceled) {
						t.Errorf("%s: %v", name, err)
					}
					began = began.Add(time.Minute)
				}
				w.Close()
				if took := (<-ended).Sub(began); took != 0 {
					t.Errorf("%s, reading=%v: the watch ended at the server %v later", name, reading, took)
				}
			})
		}
	}
}

// A watch that the client ends fails with the client's reason, though a server may end the stream regularly before its
// client has noticed. A streaming list does not conclude that the server has none.
// Guarantees: R24
func TestEndOfAWatchByTheClientIsNotTheServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, _ := newTestSource(t, answer{late: time.Hour, gone: io.EOF}, answer{late: time.Hour, gone: io.EOF})
		boom := errors.New("boom")
		late := func() context.Context {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(boom) })
			return ctx
		}
		w, err := source.Watch(late(), State{Version: "7"}, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Follow((&records{}).NewIntake, nil); !errors.Is(err, boom) {
			t.Errorf("watch: %v", err)
		}
		w.Close()
		if w, err = source.Stream(late(), "", ""); err != nil {
			t.Fatal(err)
		}
		if _, err := w.InitialEvents(&records{}); !errors.Is(err, boom) || errors.Is(err, ErrNoStreaming) {
			t.Errorf("streaming list: %v", err)
		}
		w.Close()
	})
}

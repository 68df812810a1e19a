package transport

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// paths notes the connections of requests by their path.
type paths struct {
	mu     sync.Mutex
	byPath map[string]map[int64]int // path, connection, requests
}

func (p *paths) note(r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byPath == nil {
		p.byPath = map[string]map[int64]int{}
	}
	if p.byPath[r.URL.Path] == nil {
		p.byPath[r.URL.Path] = map[int64]int{}
	}
	p.byPath[r.URL.Path][testkit.Connection(r)]++
}

// on returns the connections of the requests for path, each with its number of requests.
func (p *paths) on(path string) map[int64]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byPath[path]
}

// serve answers with headers. A watch stays open until the client ends it.
func (p *paths) serve(w http.ResponseWriter, r *http.Request) {
	p.note(r)
	w.Header().Set("Content-Type", decode.MediaJSON)
	w.WriteHeader(http.StatusOK)
	if r.URL.Path == "/watch" {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

// secure returns a client of a server over TLS.
func secure(t *testing.T, s *testkit.SecureServer, change ...func(*rest.Config)) *Client {
	t.Helper()
	config := rest.CopyConfig(s.Config)
	for _, c := range change {
		c(config)
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the server waits for idle connections
		c.server.access.Load().closeIdle()
	})
	return c
}

// open opens n watches at the same time. They end with the test.
func open(t *testing.T, c *Client, n int) {
	t.Helper()
	var opened sync.WaitGroup
	for range n {
		opened.Go(func() {
			resp, err := c.Send(t.Context(), Request{Method: http.MethodGet, Path: "watch", Watch: true})
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { resp.Close() })
		})
	}
	opened.Wait()
}

// send sends a request, and reads the response.
func send(t *testing.T, c *Client, method, path string) {
	t.Helper()
	resp, err := c.Send(t.Context(), Request{Method: method, Path: path})
	if err != nil {
		t.Fatal(err)
	}
	resp.Close()
}

// Watches have connections of their own, so that no write delays an event, and no write waits for a watch. Lists, reads and writes share others.
// Guarantees: R30
func TestWatchesShareNoConnectionWithWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &paths{}
		c := secure(t, testkit.NewSecureServer(t, 100, p.serve))
		send(t, c, http.MethodPost, "write")
		open(t, c, 2)
		send(t, c, http.MethodPost, "write")
		send(t, c, http.MethodGet, "list")
		for conn := range p.on("/watch") {
			if p.on("/write")[conn] > 0 || p.on("/list")[conn] > 0 {
				t.Errorf("connection %d has watches, %d writes and %d lists", conn, p.on("/write")[conn], p.on("/list")[conn])
			}
		}
		if len(p.on("/watch")) != 1 || len(p.on("/write")) != 1 || len(p.on("/list")) != 1 {
			t.Errorf("connections of watches %v, of writes %v, of lists %v", p.on("/watch"), p.on("/write"), p.on("/list"))
		}
	})
}

// Watches that begin together open as many connections as they need, whatever number of requests the server allows on one, and whether the client
// knows that number or not.
// Guarantees: R30
func TestWatchesThatBeginTogetherShareConnections(t *testing.T) {
	for _, c := range []struct{ watches, streams, connections int }{{375, 100, 4}, {100, 100, 1}, {35, 10, 4}, {300, 250, 3}} {
		t.Run(fmt.Sprintf("%d of %d", c.watches, c.streams), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				p := &paths{}
				server := testkit.NewSecureServer(t, c.streams, p.serve)
				open(t, secure(t, server, late(100*time.Millisecond)), c.watches)
				if took := time.Since(began); took > time.Duration(c.connections)*time.Second {
					t.Errorf("they were open after %v", took)
				}
				if n := len(p.on("/watch")); n > c.connections {
					t.Errorf("they have %d connections, want %d", n, c.connections)
				}
				// If a full connection becomes known while a watch opens the next one, net/http opens another one, which stays idle.
				time.Sleep(time.Second)
				if n, _ := server.Connections(); n > 2*c.connections {
					t.Errorf("%d connections, want %d, and at most one that is idle for each", n, c.connections)
				}
			})
		})
	}
}

// late makes each dial take d.
func late(d time.Duration) func(*rest.Config) {
	return func(c *rest.Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			<-time.After(d)
			return dial(ctx, network, address)
		}
	}
}

// Over HTTP/1.1, each watch needs a connection of its own, and all are opened at the same time.
// Guarantees: R30
func TestWatchesOverHTTP1DoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &paths{}
		server := testkit.NewSecureServer(t, 0, p.serve)
		c := secure(t, server, late(100*time.Millisecond))
		began := time.Now()
		open(t, c, 50)
		if n, _ := server.Connections(); n != 50 || time.Since(began) > 250*time.Millisecond {
			t.Errorf("%d connections after %v", n, time.Since(began))
		}
	})
}

// A watch whose connection cannot be opened, or whose response does not come, holds up the next ones for a second.
// Guarantees: R30
func TestWatchWithoutAnswerHoldsUpNoOther(t *testing.T) {
	for name, dials := range map[string]bool{"no connection": false, "no response": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &paths{}
				server := testkit.NewSecureServer(t, 100, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/stuck" {
						<-r.Context().Done()
						return
					}
					p.serve(w, r)
				})
				first := true
				c := secure(t, server, func(c *rest.Config) {
					dial := c.Dial
					c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
						if first && !dials {
							first = false
							<-ctx.Done()
							return nil, ctx.Err()
						}
						return dial(ctx, network, address)
					}
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go c.Send(ctx, Request{Method: http.MethodGet, Path: "stuck", Watch: true})
				synctest.Wait()
				began := time.Now()
				open(t, c, 5)
				if took := time.Since(began); took > maxTurn {
					t.Errorf("the next watches were open after %v", took)
				}
				cancel()
				<-time.After(time.Minute)
			})
		})
	}
}

// A watch that waits for its turn ends with its context.
// Guarantees: R30
func TestTurnEndsWithItsContext(t *testing.T) {
	turns := newTurns()
	_, end, err := turns.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrUpdated)
	if _, _, err := turns.take(ctx); err != ErrUpdated {
		t.Error(err)
	}
	end()
	_, end, err = turns.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	end()
}

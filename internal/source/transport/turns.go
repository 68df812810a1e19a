package transport

import (
	"context"
	"crypto/tls"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// turns lets one watch after the other choose its connection. Watches that begin at the same time then share HTTP/2
// connections, and fill each up to the limit of the server. Without turns, each watch could open a
// connection. It is safe for concurrent use.
type turns struct {
	turn  chan struct{} // holds a token while a watch has its turn
	plain atomic.Bool   // the last connection had no HTTP/2: each watch needs one
}

func newTurns() *turns { return &turns{turn: make(chan struct{}, 1)} }

// maxTurn limits a turn, so that a connection that cannot be opened, or a first response that takes long, does not hold
// up the others.
const maxTurn = time.Second

// take waits for a turn. The request must have the context that it returns. The turn ends when the request has a
// connection. If that is new, it ends with the response, because the server says before that how many requests the
// connection can have. The caller must call end when it has the response or an error.
func (t *turns) take(ctx context.Context) (_ context.Context, end func(), err error) {
	limited := !t.plain.Load()
	if limited {
		select {
		case t.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
		if limited = !t.plain.Load(); !limited { // the watch before has found out
			<-t.turn
		}
	}
	leave := sync.OnceFunc(func() {
		if limited {
			<-t.turn
		}
	})
	limit := time.AfterFunc(maxTurn, leave)
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		secured, ok := info.Conn.(*tls.Conn)
		plain := !ok || secured.ConnectionState().NegotiatedProtocol != "h2"
		t.plain.Store(plain)
		if plain || info.Reused {
			leave()
		}
	}}
	return httptrace.WithClientTrace(ctx, trace), func() { limit.Stop(); leave() }, nil
}

package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limits bound the load of one client, and of all clients together.
type limits struct {
	connections      int     // of all clients
	connectionsPerIP int     // of one address
	requestsPerUser  int     // under way at a time: lists, and watches
	userQPS          float64 // requests of a user per second; twice as many at once
	ipQPS            float64 // the same for an address, counted before authentication
	bandwidth        float64 // of all clients, in MB per second
	userBandwidth    float64 // of one user
}

// maxBuckets is the number of users and addresses to remember. After an idle second, a bucket is full again and can be
// forgotten.
const maxBuckets = 10_000

// buckets count the requests of users or addresses.
type buckets struct {
	qps       float64
	open      int     // requests at a time; zero means no limit
	bandwidth float64 // MB per second

	mu    sync.Mutex // protects byKey
	byKey map[string]*bucket
}

type bucket struct {
	rate  *rate.Limiter
	bytes *rate.Limiter
	open  int
	used  time.Time
}

// begin reports whether key may have one more request. If so, the caller must call end, and bytes limits the response.
func (b *buckets) begin(key string) (end func(), bytes *rate.Limiter, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b2 := b.byKey[key]
	if b2 == nil {
		if len(b.byKey) >= maxBuckets && !b.makeRoomLocked(now) {
			return nil, nil, false
		}
		if b.byKey == nil {
			b.byKey = map[string]*bucket{}
		}
		b2 = &bucket{rate: rate.NewLimiter(rate.Limit(b.qps), max(1, int(2*b.qps))), bytes: newBandwidth(b.bandwidth)}
		b.byKey[key] = b2
	}
	b2.used = now
	if b.open > 0 && b2.open >= b.open || !b2.rate.AllowN(now, 1) {
		return nil, nil, false
	}
	b2.open++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b2.open--
		b2.used = time.Now()
	}, b2.bytes, true
}

// maxWrite is the largest part of a response that is written at once. Every bandwidth allows it.
const maxWrite = 64 << 10

// newBandwidth returns a limit of bytes per second, with a burst of a quarter of that.
func newBandwidth(megabytes float64) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(megabytes*1e6), max(maxWrite, int(min(megabytes, 1000)*1e6/4)))
}

// slowWriter writes no faster than the limits allow. Its waits do not count toward the deadline of the client.
type slowWriter struct {
	http.ResponseWriter
	ctx    context.Context // of the request
	limits []*rate.Limiter

	mu       sync.Mutex // protects deadline: the cache ends a watch that is behind while the watch writes
	deadline time.Time  // zero means none
}

// SetWriteDeadline is for [http.ResponseController].
func (w *slowWriter) SetWriteDeadline(deadline time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.setLocked(deadline)
}

func (w *slowWriter) setLocked(deadline time.Time) error {
	w.deadline = deadline
	return http.NewResponseController(w.ResponseWriter).SetWriteDeadline(deadline)
}

// postpone moves the deadline, if there is one.
func (w *slowWriter) postpone(delay time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.deadline.IsZero() {
		_ = w.setLocked(w.deadline.Add(delay))
	}
}

func (w *slowWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *slowWriter) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		part, began := b[:min(len(b), maxWrite)], time.Now()
		for _, limit := range w.limits {
			if err := limit.WaitN(w.ctx, len(part)); err != nil {
				return n, err
			}
		}
		if waited := time.Since(began); waited > time.Millisecond {
			w.postpone(waited)
		}
		written, err := w.ResponseWriter.Write(part)
		n += written
		if err != nil {
			return n, err
		}
		b = b[len(part):]
	}
	return n, nil
}

// makeRoomLocked forgets keys whose bucket is full again.
func (b *buckets) makeRoomLocked(now time.Time) bool {
	for key, b2 := range b.byKey {
		if b2.open == 0 && now.Sub(b2.used) > 2*time.Second {
			delete(b.byKey, key)
		}
	}
	return len(b.byKey) < maxBuckets
}

// limitedListener closes connections that exceed the limits.
type limitedListener struct {
	net.Listener
	limits  limits
	refused func()

	mu    sync.Mutex // protects the fields below
	total int
	perIP map[string]int
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		ip := hostOf(conn.RemoteAddr().String())
		if l.admit(ip) {
			return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { l.release(ip) })}, nil
		}
		l.refused()
		_ = conn.Close()
	}
}

func (l *limitedListener) admit(ip string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total >= l.limits.connections || l.perIP[ip] >= l.limits.connectionsPerIP {
		return false
	}
	if l.perIP == nil {
		l.perIP = map[string]int{}
	}
	l.total++
	l.perIP[ip]++
	return true
}

func (l *limitedListener) release(ip string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if l.perIP[ip]--; l.perIP[ip] == 0 {
		delete(l.perIP, ip)
	}
}

func (l *limitedListener) open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

package main

import (
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limits bound what one client, and all clients together, can take.
type limits struct {
	connections      int     // of all clients
	connectionsPerIP int     // of one address
	requestsPerUser  int     // under way at a time: lists, and watches
	userQPS          float64 // requests of a user per second; twice as many at once
	ipQPS            float64 // the same for an address, counted before authentication
}

// maxBuckets is how many users and addresses are remembered. One that was idle for a second has nothing to remember.
const maxBuckets = 10_000

// buckets count the requests of users or addresses.
type buckets struct {
	qps  float64
	open int // requests at a time; zero means no limit

	mu    sync.Mutex // protects byKey
	byKey map[string]*bucket
}

type bucket struct {
	rate *rate.Limiter
	open int
	used time.Time
}

// begin reports whether key may have one more request. If so, the caller must call end.
func (b *buckets) begin(key string) (end func(), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	at := b.byKey[key]
	if at == nil {
		if len(b.byKey) >= maxBuckets && !b.makeRoomLocked(now) {
			return nil, false
		}
		if b.byKey == nil {
			b.byKey = map[string]*bucket{}
		}
		at = &bucket{rate: rate.NewLimiter(rate.Limit(b.qps), max(1, int(2*b.qps)))}
		b.byKey[key] = at
	}
	at.used = now
	if b.open > 0 && at.open >= b.open || !at.rate.AllowN(now, 1) {
		return nil, false
	}
	at.open++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		at.open--
	}, true
}

// makeRoomLocked forgets keys whose bucket is full again.
func (b *buckets) makeRoomLocked(now time.Time) bool {
	for key, at := range b.byKey {
		if at.open == 0 && now.Sub(at.used) > 2*time.Second {
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

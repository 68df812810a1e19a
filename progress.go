package informer

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrNoProgress indicates that the server did not answer in time, or stopped sending in the middle of a response.
var ErrNoProgress = errors.New("no progress: the server did not send in time")

// Deadlines of a response.
const (
	// maxSilence limits how long the server may take for the headers of a response, and then for each listProgress bytes
	// of a list. kube-apiserver itself gives up on a list after a minute.
	maxSilence   = 90 * time.Second
	listProgress = 16 << 10
	// streamDeadline limits how long the server may take for the headers of a streaming list, and then for each
	// streamProgress bytes of the initial events.
	streamDeadline = 10 * time.Second
	streamProgress = 1 << 10
	// statusTimeout limits how long the body of an error may take.
	statusTimeout = 10 * time.Second
	// watchGrace is how much later than it was asked to the server may end a watch.
	watchGrace = 30 * time.Second
)

// progress is the body of a response. It ends the request when the server takes longer than limit for so many bytes. Only time
// that Read waits counts. A server that sends one byte now and then makes no progress.
type progress struct {
	io.ReadCloser
	ctx   context.Context // of the request
	timer *time.Timer     // ends ctx; runs while Read waits
	limit time.Duration
	bytes int
	left  time.Duration // of limit
	read  int           // of bytes
}

func newProgress(ctx context.Context, body io.ReadCloser, timer *time.Timer, limit time.Duration, bytes int) *progress {
	timer.Stop()
	return &progress{ReadCloser: body, ctx: ctx, timer: timer, limit: limit, bytes: bytes, left: limit}
}

// Read implements io.Reader.
func (p *progress) Read(b []byte) (int, error) {
	if p.limit == 0 {
		return p.ReadCloser.Read(b)
	}
	began := time.Now()
	p.timer.Reset(p.left)
	n, err := p.ReadCloser.Read(b)
	p.timer.Stop()
	p.left -= time.Since(began)
	if p.read += n; p.read >= p.bytes {
		p.read, p.left = 0, p.limit
	}
	if err != nil && err != io.EOF {
		err = because(p.ctx, err)
	}
	return n, err
}

// endAt replaces the limit by one deadline for all that follows.
func (p *progress) endAt(d time.Duration) {
	p.limit = 0
	p.timer.Reset(d)
}

// because returns why ctx was ended, if it was, rather than what came of that.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

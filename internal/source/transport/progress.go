package transport

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
	// maxSilence is the time limit for the headers of a response, except a watch's, and then for each listProgress bytes
	// of a list. kube-apiserver itself ends a list request after a minute.
	maxSilence   = 90 * time.Second
	listProgress = 16 << 10
	// statusTimeout is the time limit for the body of an error.
	statusTimeout = 10 * time.Second
)

// Progress is the body of a response. It ends the request if Read waits longer than limit for each part of the given
// number of bytes. Time between calls of Read does not count. A server that only sends a byte from time to time makes
// no progress.
type Progress struct {
	io.ReadCloser
	ctx   context.Context // the context of the request
	timer *time.Timer     // ends ctx; runs while Read waits
	limit time.Duration
	bytes int
	left  time.Duration // the rest of limit for the current part
	read  int           // the bytes read of the current part
}

// NewProgress returns a Progress of body. timer must end ctx.
func NewProgress(ctx context.Context, body io.ReadCloser, timer *time.Timer, limit time.Duration, bytes int) *Progress {
	timer.Stop()
	return &Progress{ReadCloser: body, ctx: ctx, timer: timer, limit: limit, bytes: bytes, left: limit}
}

// Read implements io.Reader.
func (p *Progress) Read(b []byte) (int, error) {
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
		err = Because(p.ctx, err)
	}
	return n, err
}

// EndAt replaces the limit with a deadline for the rest of the body.
func (p *Progress) EndAt(d time.Duration) {
	p.limit = 0
	p.timer.Reset(d)
}

// Because returns the cause of ctx if ctx has ended, and err otherwise.
func Because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

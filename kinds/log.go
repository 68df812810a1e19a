package kinds

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// maxLines is how many lines a member may log at once. After that, it may log one each lineEvery.
	maxLines  = 4
	lineEvery = 15 * time.Minute
)

// quiet returns a logger for one informer: without lines below the level of warnings, and with few lines of a failure
// that lasts. A set has hundreds of informers, and one of them would log each retry.
func quiet(logger *slog.Logger) *slog.Logger {
	return slog.New(warnings{logger.Handler(), &allowance{left: maxLines}})
}

// warnings is a handler of warnings and errors, as its allowance permits.
type warnings struct {
	slog.Handler
	allowance *allowance // of all copies
}

// Enabled implements slog.Handler.
func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler. A line says how many were suppressed before it.
func (w warnings) Handle(ctx context.Context, r slog.Record) error {
	ok, suppressed := w.allowance.take()
	if !ok {
		return nil
	}
	if suppressed > 0 {
		r.AddAttrs(slog.Int("suppressed", suppressed))
	}
	return w.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs), w.allowance}
}

// WithGroup implements slog.Handler.
func (w warnings) WithGroup(name string) slog.Handler {
	return warnings{w.Handler.WithGroup(name), w.allowance}
}

// allowance is how many lines may be logged. It is safe for concurrent use.
type allowance struct {
	mu         sync.Mutex // protects the fields below
	left       int        // at filled
	filled     time.Time  // zero before the first line
	suppressed int        // since the last line
}

// take reports whether a line may be logged now, and how many were suppressed before it.
func (a *allowance) take() (ok bool, suppressed int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.filled.IsZero() {
		a.filled = time.Now()
	}
	if more := time.Since(a.filled) / lineEvery; more > 0 {
		a.left = int(min(time.Duration(a.left)+more, maxLines))
		a.filled = a.filled.Add(more * lineEvery)
	}
	if a.left == 0 {
		a.suppressed++
		return false, 0
	}
	suppressed = a.suppressed
	a.left, a.suppressed = a.left-1, 0
	return true, suppressed
}

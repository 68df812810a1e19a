// Package reflector reads one collection, or one namespace of it, by list and watch. Its Loop lists, watches, moves to
// another shard, starts warm from a saved state, and waits after failures. It passes deltas to a sink.
package reflector

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/fetch"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/internal/source/reshard"
	"github.com/typedinformer/informer/internal/source/warmstart"
	"github.com/typedinformer/informer/status"
)

// Config describes a [Loop] of objects T.
type Config[T object.Object] struct {
	Sink     Sink[T]
	Source   *fetch.Source
	Absence  fetch.Absence
	Decoder  *intake.Decoder[T]
	Progress *intake.Progress[T] // of the lists; New sets its Source

	Shard *reshard.Adoption
	Saved *warmstart.State // nil for no warm start

	PagedList bool // lists without streaming
	PageSize  int
	// PollEvery is the pause between two lists of a collection that cannot be watched. Zero means defaultPollEvery.
	// Negative means that such a collection ends Run with an ErrNoWatch.
	PollEvery  time.Duration
	TellAbsent bool // the sink gets an empty first list if the resource is absent then

	OnFailure func(error) // a function of the user; nil for none
	// Resumed is called when a watch resumes. No watch was open for the time away. unsure means that changes may be
	// missing: the server has sent events late before, or the watch is at another address of the server. Nil for none.
	Resumed func(away time.Duration, unsure bool)
	Waiting func() // called when the wait after a failure begins; nil for none
	Log     *slog.Logger
}

// defaultPollEvery is the default of Config.PollEvery. Its order is that of the longest backoff, which is how often
// client-go lists such a collection.
const defaultPollEvery = 30 * time.Second

// Loop lists and watches; see informer.Reflector. While Run runs, only its goroutine, or one that it waits for, changes
// the fields. Status and Failure, which any goroutine may call, read those below mu, and those that are safe for
// concurrent use. Before Run, others may change all fields.
type Loop[T object.Object] struct {
	Config[T]
	warm     warmStart[T]
	cutAfter time.Duration // as of the last failure; see fetch.Source.Traffic
	retries  fetch.Retries
	state    fetch.State
	listed   bool            // the sink has had a list
	empty    bool            // the sink has had none, or the resource was absent since
	stale    int             // the number of objects that could not be decoded, as of the last delta
	received bool            // a resource version since the last flush
	updated  context.Context // fetch.Source.Updated before the latest step; nil before the first
	failed   error           // run.ErrGoroutineEnded during a step, and after one that has ended its goroutine
	// Decoder.Outside when the last list of the whole shard began
	outside int64

	mu        sync.Mutex // protects the fields below
	record    record
	settled   status.ReflectorState // the last state other than Listing
	listsBy   map[status.Reason]int
	watchesBy map[status.Reason]int
}

// New returns a loop before its first Run. Config.Decoder decodes the objects of Config.Source, and reports to the
// loop.
func New[T object.Object](c Config[T]) *Loop[T] {
	l := &Loop[T]{
		Config: c,
		warm:   warmStart[T]{state: c.Saved, log: c.Log},
		state:  fetch.Start(!c.TellAbsent),
		empty:  true,
		record: record{since: time.Now()},

		listsBy:   map[status.Reason]int{},
		watchesBy: map[status.Reason]int{},
	}
	c.Decoder.Report, c.Decoder.ReportShared = l.noteDecodeError, l.noteSharedKey
	c.Decoder.ReportModified = l.noteModified
	c.Progress.Source = c.Source
	return l
}

// ListSince makes the first list have every change up to version.
func (l *Loop[T]) ListSince(version string) { l.state.List.Least = version }

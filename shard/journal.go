package shard

import (
	"context"
	"fmt"
	"log/slog"
)

// journal reports what happens, in the status and in the log of a replica. It never waits for the logger, which must
// not delay the end of the work after a lost lease. All methods are safe for concurrent use.
type journal struct {
	replica *Replica
	records chan func() // for write
}

func newJournal(r *Replica) *journal { return &journal{r, make(chan func(), 100)} }

// fault records a failure and logs it.
func (j *journal) fault(what string, err error) {
	j.replica.fail(fmt.Errorf("%s: %w", what, err))
	j.say(slog.LevelWarn, what, "err", err)
}

// say logs.
func (j *journal) say(level slog.Level, what string, args ...any) {
	select {
	case j.records <- func() { j.replica.config.Logger.Log(context.Background(), level, what, args...) }:
	default: // the logger has been blocked for long
	}
}

// write writes the records until ctx ends, and then the rest.
func (j *journal) write(ctx context.Context) {
	for {
		select {
		case record := <-j.records:
			record()
			continue
		default:
		}
		select {
		case record := <-j.records:
			record()
		case <-ctx.Done():
			return
		}
	}
}

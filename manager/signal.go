package manager

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// SetupSignalHandler returns a context that ends with parent, or at the first SIGINT or SIGTERM, for [Manager.Run]. Its cause names
// the signal. A signal after the end of the context ends the process at once, with exit status 1. stop ends the context, and
// handles no more signals.
func SetupSignalHandler(parent context.Context) (ctx context.Context, stop context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	stopped := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			cancel(fmt.Errorf("signal: %v", s))
		case <-ctx.Done():
		case <-stopped:
			return
		}
		select {
		case <-signals:
			os.Exit(1)
		case <-stopped:
		}
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(stopped)
		cancel(nil)
	})
}

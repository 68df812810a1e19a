package manager

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// SetupSignalHandler returns a context that ends with parent, or at the first SIGINT or SIGTERM, for [Manager.Run]. Its
// cause names the signal. A signal after the end of the context ends the process at once, with an error in the log of
// slog.Default(), and with exit status 1, as in controller-runtime. stop ends the context and the handling of signals.
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
		case s := <-signals:
			exit(s)
		case <-stopped:
		}
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(stopped)
		cancel(nil)
	})
}

// exit ends the process, and says why. A log that blocks does not hold it up.
func exit(s os.Signal) {
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		slog.Error("a further signal: ending the process at once, without a graceful stop", "signal", s.String())
	}()
	select {
	case <-logged:
	case <-time.After(time.Second):
	}
	os.Exit(1)
}

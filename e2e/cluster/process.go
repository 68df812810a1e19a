package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

const (
	// readyTimeout bounds one start of one server. kube-apiserver takes 3 s to 10 s on two cores. A server that takes
	// longer than this will probably never be ready.
	readyTimeout = 2 * time.Minute
	// probeInterval is the time between two probes of a server.
	probeInterval = 50 * time.Millisecond
	// probeTimeout bounds one probe, so that a hanging one does not use up the readyTimeout.
	probeTimeout = 5 * time.Second
	// logTail is the number of bytes of a server's log in an error: about its last 30 lines.
	logTail = 8 << 10
)

// process is a server that runs as a child of this process.
type process struct {
	name    string
	logPath string
	cmd     *exec.Cmd
	done    chan struct{} // closed when the process has ended and was waited for
	err     error         // the result of exec.Cmd.Wait; set before done is closed
}

// startProcess starts the program at path. It appends the program's output to the file logPath.
//
// The environment is empty: etcd takes each ETCD_X variable as a flag, Go's own variables change how the server runs,
// and the server must not get the credentials of the user who runs the tests.
func startProcess(name, path, logPath string, args ...string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cluster: open the log of %s: %w", name, err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = []string{}
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.SysProcAttr = endWithParent()
	p := &process{name: name, logPath: logPath, cmd: cmd, done: make(chan struct{})}

	started := make(chan error)
	go func() {
		// On Linux the child dies with the thread that started it, not with the process. This goroutine keeps that thread,
		// and so keeps it alive, until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		log.Close() // the child has its own descriptor
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("cluster: start %s: %w", name, err)
	}
	return p, nil
}

// waitReady calls probe until it returns nil. It gives up when ctx or readyTimeout ends, or when the process does. The
// error then has the last error of probe, and the end of the log.
func (p *process) waitReady(ctx context.Context, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("not ready within %v", readyTimeout))
	defer cancel()
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		probeCtx, cancelProbe := context.WithTimeout(ctx, probeTimeout)
		last := probe(probeCtx)
		cancelProbe()
		if last == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-p.done:
			return fmt.Errorf("cluster: wait for %s to become ready: %w", p.name, p.endedError())
		case <-ctx.Done():
			return fmt.Errorf("cluster: wait for %s to become ready: %w; last probe: %w; %s",
				p.name, context.Cause(ctx), last, p.logEnd())
		}
	}
}

// kill ends the process like a crash, and returns when it is gone. It returns an error if the process had ended before.
func (p *process) kill() error {
	if p.ended() {
		return fmt.Errorf("cluster: kill %s: %w", p.name, p.endedError())
	}
	// An error can only mean that it ended just now.
	_ = p.cmd.Process.Kill()
	<-p.done
	return nil
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// endedError describes the unexpected end of a process. done must be closed.
func (p *process) endedError() error {
	reason := "exit status 0"
	if p.err != nil {
		reason = p.err.Error()
	}
	return fmt.Errorf("it ended by itself: %s; %s", reason, p.logEnd())
}

// logEnd returns the last lines of the log for an error.
func (p *process) logEnd() string {
	f, err := os.Open(p.logPath)
	if err != nil {
		return fmt.Sprintf("its log cannot be read: %v", err)
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Sprintf("its log cannot be read: %v", err)
	}
	tail, err := io.ReadAll(io.NewSectionReader(f, max(0, size-logTail), logTail))
	if err != nil {
		return fmt.Sprintf("its log cannot be read: %v", err)
	}
	return fmt.Sprintf("its log ends:\n%s", tail)
}

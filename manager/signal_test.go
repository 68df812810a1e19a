//go:build unix

package manager_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A signal stops the manager gracefully, and Run returns nil. A second signal ends the process at once, and the log says so.
//
// Guarantees: M7
func TestSignals(t *testing.T) {
	for _, first := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		for _, twice := range []bool{false, true} {
			child := exec.CommandContext(t.Context(), os.Args[0])
			child.Env = append(os.Environ(), childEnv+"=waits for input")
			var log strings.Builder
			child.Stderr = &log
			in, err := child.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			expect := func(want string) {
				t.Helper()
				if !lines.Scan() || lines.Text() != want {
					t.Errorf("%v: %q, %v, want %q", first, lines.Text(), lines.Err(), want)
				}
			}
			signal := func(s syscall.Signal) {
				t.Helper()
				if err := child.Process.Signal(s); err != nil {
					t.Error(err)
				}
			}
			expect("running")
			signal(first)
			expect("stopping: signal: " + first.String())
			if twice {
				signal(syscall.SIGTERM)
				_ = child.Wait()
				if code := child.ProcessState.ExitCode(); code != 1 {
					t.Errorf("%v and SIGTERM: %v, want exit status 1", first, child.ProcessState)
				}
				if !strings.Contains(log.String(), "a further signal") || !strings.Contains(log.String(), "signal=terminated") {
					t.Errorf("%v and SIGTERM: log %q", first, &log)
				}
				continue
			}
			in.Close() // lets the runnable return
			expect("Run returns <nil>")
			if err := child.Wait(); err != nil || log.Len() > 0 {
				t.Errorf("%v: %v, log %q", first, err, &log)
			}
		}
	}
}

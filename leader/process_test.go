//go:build unix

package leader

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/test/leak"
)

// The environment of a process that is a replica of TestStoppedProcess.
const (
	replicaName = "LEADER_TEST_REPLICA"
	replicaURL  = "LEADER_TEST_URL"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(replicaName); name != "" {
		if err := replica(name, os.Getenv(replicaURL), os.NewFile(3, "log")); err != nil {
			fmt.Fprintln(os.Stderr, name, err)
			os.Exit(2)
		}
		os.Exit(0)
	}
	leak.Main(m)
}

// replica is a program that contends for the lease until its input ends. While it leads, it writes its name to the log, a line
// every 5 ms. As package leader recommends, it checks Status before each line.
func replica(name, url string, log io.Writer) error {
	client, err := informer.NewClient(&rest.Config{Host: url, UserAgent: name})
	if err != nil {
		return err
	}
	e, err := New(client, Config{
		Namespace: "ns", Name: "lease", Identity: name, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		LeaseDuration: 5 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 250 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	err = e.Run(ctx, func(ctx context.Context) error {
		for run.Sleep(ctx, 5*time.Millisecond) == nil {
			if e.Status().State != Leading {
				continue
			}
			if _, err := fmt.Fprintln(log, name); err != nil {
				return err
			}
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// The leader's process is stopped, as by a debugger or a full node, until the other replica works. When it continues,
// it does not work, although it cannot reach the server: at most it finishes the step that it had begun.
//
// Guarantees: E1, E3
func TestStoppedProcess(t *testing.T) {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	informertest.Register[*coordinationv1.Lease](server, informertest.Resource{GroupVersionResource: coordinationv1.SchemeGroupVersion.WithResource("leases")})
	logged, log, err := os.Pipe() // for both, so the order of its lines is the order in which they were written
	if err != nil {
		t.Fatal(err)
	}
	defer logged.Close()
	replicas := map[string]*os.Process{}
	for _, name := range []string{"a", "b"} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), replicaName+"="+name, replicaURL+"="+server.URL)
		cmd.ExtraFiles = []*os.File{log}
		cmd.Stderr = t.Output()
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Signal(syscall.SIGCONT)
			in.Close()
			_ = cmd.Wait() // the stopped one may have ended itself
		}()
		replicas[name] = cmd.Process
	}
	log.Close()

	lines := bufio.NewScanner(logged)
	next := func() string {
		if !lines.Scan() {
			t.Fatalf("the log has ended: %v", lines.Err())
		}
		return lines.Text()
	}
	var first, line string
	for range 20 {
		first = next()
	}
	signal := func(s syscall.Signal) {
		if err := replicas[first].Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	for line = first; line == first; line = next() { // lines that it has written before
	}
	second, late := line, 0
	server.Inject(informertest.Fault{Hang: true, Match: func(r informertest.Request) bool { return r.Header.Get("User-Agent") == first }})
	signal(syscall.SIGCONT)
	for range 200 {
		if next() == first {
			late++
		}
	}
	if late > 1 {
		t.Errorf("%s has worked %d times after %s had begun", first, late, second)
	}
}

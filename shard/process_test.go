//go:build unix

package shard

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/leak"
)

// The environment of a process that is a replica of TestStoppedProcess.
const (
	replicaName = "SHARD_TEST_REPLICA"
	replicaURL  = "SHARD_TEST_URL"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(replicaName); name != "" {
		if err := process(name, os.Getenv(replicaURL), os.NewFile(3, "log")); err != nil {
			fmt.Fprintln(os.Stderr, name, err)
			os.Exit(2)
		}
		os.Exit(0)
	}
	leak.Main(m)
}

// process is a program that reconciles its pods until its input ends. For each call of Reconcile it writes its name and that of the pod
// to the log. It reconciles every pod each 5 ms.
func process(name, url string, log io.Writer) error {
	client, err := informer.NewClient(&rest.Config{Host: url, UserAgent: name, QPS: -1})
	if err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	r, err := New(client, Config{
		Namespace: "ns", Name: "group", Identity: name, Logger: quiet,
		LeaseDuration: 5 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 250 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	pods := informer.New(client, informer.Resource{GroupVersionResource: podsResource}, informer.Config[*corev1.Pod]{Logger: quiet})
	ctl := &informer.Controller[Key]{Logger: quiet, Reconcile: func(_ context.Context, key Key) (informer.Result, error) {
		_, err := fmt.Fprintln(log, name, key.Name)
		return informer.Result{RequeueAfter: 5 * time.Millisecond}, err
	}}
	r.Follow(pods)
	Control(r, ctl, ByUID)
	ctl.Watch(EnqueueObject(pods))
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	err = r.Run(ctx, func(ctx context.Context) error {
		go func() { _ = pods.Run(ctx) }()
		return ctl.Run(ctx)
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// The process of a replica is suspended, as by a debugger or an overloaded node, until the other replica reconciles its
// pods. When it resumes, it reconciles none of them, even though it cannot reach the server. At most it completes the
// step that it had begun.
//
// Guarantees: S3
func TestStoppedProcess(t *testing.T) {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	informertest.Register[*coordinationv1.Lease](server, informertest.Resource{GroupVersionResource: leasesResource})
	pods := informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: podsResource})
	const n = 20
	for i := range n {
		must(pods.Create(newPod("ns", fmt.Sprint("pod-", i))))
	}
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
	owner := map[string]string{} // of each pod: the replica that reconciled it last
	next := func() (name, pod string) {
		if !lines.Scan() {
			t.Fatalf("the log has ended: %v", lines.Err())
		}
		name, pod, _ = strings.Cut(lines.Text(), " ")
		return name, pod
	}
	count := func(name string) (c int) {
		for _, o := range owner {
			if o == name {
				c++
			}
		}
		return c
	}
	// Each replica has some of the pods, for a while.
	for settled := 0; settled < 200; {
		name, pod := next()
		settled++
		if owner[pod] != name || len(owner) < n || count("a") == 0 || count("b") == 0 {
			settled = 0
		}
		owner[pod] = name
	}
	if err := replicas["a"].Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for count("b") < n {
		name, pod := next()
		owner[pod] = name
	}
	server.Inject(informertest.Fault{Hang: true, Match: func(r informertest.Request) bool { return r.Header.Get("User-Agent") == "a" }})
	if err := replicas["a"].Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	late := 0
	for range 1000 {
		if name, _ := next(); name == "a" {
			late++
		}
	}
	if late > 1 {
		t.Errorf("a has reconciled %d times after b had begun", late)
	}
}

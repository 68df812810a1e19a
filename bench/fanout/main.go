// Fanout measures the memory of a process of examples/fanout by number of pods.
//
//	go run ./fanout -pods 10000,30000
//
// Each process follows the pods of [canned] and then changes of them, as many as it keeps for its clients. It has no
// clients. With -limit, GOMEMLIMIT is set, as in the manifests of examples/fanout.
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/typedinformer/informer/bench/internal/canned"
	"github.com/typedinformer/informer/bench/internal/measure"
)

// window is the number of changes that examples/fanout keeps of each resource by default.
const window = 8192

func main() {
	log.SetFlags(log.Ltime)
	pods := flag.String("pods", "10000,30000", "numbers of pods")
	limit := flag.String("limit", "", "GOMEMLIMIT of the process, such as 512MiB; empty means none")
	as := flag.String("as", "", "the role of this process; used by the program itself")
	flag.Parse()
	var err error
	if *as == "server" {
		var n int
		if n, err = strconv.Atoi(*pods); err == nil {
			err = canned.Serve(canned.Config{Pods: n, Changes: window, Formats: []string{canned.Protobuf}})
		}
	} else {
		err = compare(*pods, *limit)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// footprint is the memory of one process, in bytes.
type footprint struct {
	pods                   int
	synced                 time.Duration // from its start until it is ready
	peakSynced, peakWindow int64         // peak resident memory until it was ready, and until it had all changes
	cpu                    time.Duration // until then
}

func compare(pods, limit string) error {
	dir, err := os.MkdirTemp("", "fanout")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program, err := build(dir, filepath.Join("..", "examples", "fanout"))
	if err != nil {
		return err
	}
	var rows []footprint
	for text := range strings.SplitSeq(pods, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		row, err := run(dir, program, n, limit)
		if err != nil {
			return fmt.Errorf("%d pods: %w", n, err)
		}
		rows = append(rows, row)
	}
	fmt.Printf("GOMEMLIMIT %q, %d changes, %s, %d cores, which the server shares\n\n", limit, window, runtime.Version(),
		runtime.NumCPU())
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "pods\tready\tpeak until then\tfor a pod\tpeak after the changes\tfor a pod\tCPU\t")
	for _, r := range rows {
		perPod := func(bytes int64) string { return measure.Bytes(float64(bytes) / float64(r.pods)) }
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", measure.Number(float64(r.pods)), measure.Seconds(r.synced.Seconds()),
			measure.Bytes(float64(r.peakSynced)), perPod(r.peakSynced), measure.Bytes(float64(r.peakWindow)), perPod(r.peakWindow),
			measure.Seconds(r.cpu.Seconds()))
	}
	return w.Flush()
}

// build builds the program in source.
func build(dir, source string) (program string, err error) {
	program = filepath.Join(dir, "fanout")
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Dir = source
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build examples/fanout: %w: %s", err, out)
	}
	return program, nil
}

// run follows n pods of a server in another process.
func run(dir, program string, n int, limit string) (f footprint, err error) {
	url, stop, err := measure.Serve("-as=server", fmt.Sprint("-pods=", n))
	if err != nil {
		return f, err
	}
	defer stop()
	return follow(dir, program, url, n, limit)
}

// follow follows the n pods of a server with one process of program.
func follow(dir, program, url string, n int, limit string) (f footprint, err error) {
	f.pods = n
	control := canned.Control{Server: url}
	info, err := control.Reset()
	if err != nil {
		return f, err
	}
	config := filepath.Join(dir, "config")
	if err := os.WriteFile(config, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: canned
contexts: [{name: canned, context: {cluster: canned, user: canned}}]
clusters: [{name: canned, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: canned, user: {}}]
`, info.TLS, base64.StdEncoding.EncodeToString(info.CA)), 0o600); err != nil {
		return f, err
	}
	listen, err := freeAddress()
	if err != nil {
		return f, err
	}
	get := func(query string) bool {
		response, err := http.Get("http://" + listen + "/api/v1/pods?limit=1&" + query)
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	}
	cmd := exec.Command(program, "-kubeconfig", config, "-resources", "v1/pods", "-listen", listen, "-report", "0")
	cmd.Env = append(os.Environ(), "GOMEMLIMIT="+limit)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.Discard, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return f, err
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, said.String())
		}
		f.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := until(ctx, func() bool { return get("resourceVersion=0") }); err != nil {
		return f, err
	}
	f.synced = time.Since(began)
	f.peakSynced = measure.PeakMemoryOf(cmd.Process.Pid)
	if _, err := control.Release(window, 0); err != nil {
		return f, err
	}
	last, err := control.Released(window-1, window)
	if err != nil {
		return f, err
	}
	if err := until(ctx, func() bool {
		return get("resourceVersionMatch=NotOlderThan&resourceVersion=" + last.Versions[0])
	}); err != nil {
		return f, err
	}
	f.peakWindow = measure.PeakMemoryOf(cmd.Process.Pid)
	return f, nil
}

// until looks every 10 ms whether reached is true.
func until(ctx context.Context, reached func() bool) error {
	for !reached() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(errors.New("the process did not become ready"), ctx.Err())
		}
	}
	return nil
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

const (
	// probeEvery is the time between two looks at whether a program has synced.
	probeEvery = 20 * time.Millisecond
	// quiet is how long no part of a program begins to wait for informers after all of them have synced.
	quiet = 3 * time.Second
	// patience bounds the time until a program has synced.
	patience = 5 * time.Minute
)

// process is a program that runs.
type process struct {
	name  string
	cmd   *exec.Cmd
	port  int
	debug string // the address of its pages of net/http/pprof
	began time.Time
	ready readiness
	log   *follower
	done  chan struct{} // closed when it has ended
	err   error         // why it ended; set before done is closed
}

// start starts the program of p in folder bin with informers of kind k. Its files are in dir, which must exist.
func start(p program, k kind, bin, dir string, config *rest.Config) (*process, error) {
	name := p.name + "-" + k.name
	place := place{kubeconfig: filepath.Join(dir, "kubeconfig"), dir: filepath.Join(dir, name)}
	if err := errors.Join(
		write(filepath.Join(place.dir, policyFile), policy), writeKubeconfig(place.kubeconfig, config)); err != nil {
		return nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	place.port = ports[0]
	file, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	r := &process{name: name, port: place.port, debug: fmt.Sprintf("127.0.0.1:%d", ports[1]), ready: p.ready,
		done: make(chan struct{}), began: time.Now()}
	r.cmd = exec.Command(filepath.Join(bin, p.binary(k)), p.flags(place)...)
	r.cmd.Env = []string{storageVar + "=" + k.storage, debugVar + "=" + r.debug, "HOME=" + place.dir,
		"GODEBUG=" + os.Getenv("GODEBUG")} // with gctrace=1, the log has the growth of the heap
	r.log = &follower{file: file, ready: p.ready, processor: func() (time.Duration, error) {
		return processorOf(r.cmd.Process.Pid)
	}}
	r.cmd.Stdout, r.cmd.Stderr = r.log, r.log
	if err := r.cmd.Start(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	go func() {
		r.err = errors.Join(r.cmd.Wait(), file.Close())
		close(r.done)
	}()
	return r, nil
}

// stop ends the process. It returns an error if it had ended by itself.
func (p *process) stop() error {
	select {
	case <-p.done:
		return p.ended()
	default:
	}
	_ = p.cmd.Process.Kill() // an error could only mean that it ended just now
	<-p.done
	return nil
}

func (p *process) ended() error {
	return fmt.Errorf("%s ended by itself: %v; its log ends:\n%s", p.name, p.err, p.log.tail())
}

// synced waits until all informers of the process have synced. It returns the time that this took, and the processor
// time used by then.
func (p *process) synced(ctx context.Context) (took, processor time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // it made its certificate by itself
	}}
	defer client.CloseIdleConnections()
	for ticker := time.NewTicker(probeEvery); ; {
		select {
		case <-p.done:
			return 0, 0, p.ended()
		case <-ctx.Done():
			return 0, 0, fmt.Errorf("%s has not synced: %w; its log ends:\n%s", p.name, context.Cause(ctx), p.log.tail())
		case <-ticker.C:
		}
		if p.ready.path == "" {
			if end, processor, ok := p.log.synced(time.Now()); ok {
				return end.Sub(p.began), processor, nil
			}
			continue
		}
		if _, err := get(ctx, client, fmt.Sprintf("https://127.0.0.1:%d%s", p.port, p.ready.path)); err == nil {
			took = time.Since(p.began)
			processor, err = processorOf(p.cmd.Process.Pid)
			return took, processor, err
		}
	}
}

// collect makes the process collect garbage, and returns its live heap in bytes.
func (p *process) collect(ctx context.Context) (heap int64, err error) {
	for range 2 { // the second frees what the first has finalized
		page, err := get(ctx, http.DefaultClient, "http://"+p.debug+"/debug/pprof/heap?gc=1&debug=1")
		if err != nil {
			return 0, err
		}
		if heap, err = parseHeap(string(page)); err != nil {
			return 0, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return heap, nil
}

// profile writes a heap profile to a file.
func (p *process) profile(ctx context.Context, file string) error {
	page, err := get(ctx, http.DefaultClient, "http://"+p.debug+"/debug/pprof/heap")
	if err != nil {
		return err
	}
	return os.WriteFile(file, page, 0o644)
}

func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return body, err
}

// follower writes the log of a process to a file, and looks for the lines of a readiness.
type follower struct {
	file      io.Writer
	ready     readiness
	processor func() (time.Duration, error)

	mu       sync.Mutex // protects the fields below
	line     []byte     // the begin of the line that is not complete
	last     []byte     // the end of the log
	waiting  int        // how many parts of the process have begun to wait
	finished int        // how many have ended to
	time     time.Time  // of the last change of these
	used     time.Duration
}

// lastBytes is how much of the end of a log an error has.
const lastBytes = 4 << 10

func (f *follower) Write(data []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = append(f.last, data...)
	f.last = f.last[max(0, len(f.last)-lastBytes):]
	f.line = append(f.line, data...)
	for {
		line, rest, ok := bytes.Cut(f.line, []byte("\n"))
		if !ok {
			break
		}
		f.read(line)
		f.line = rest
	}
	return f.file.Write(data)
}

func (f *follower) read(line []byte) {
	waits := f.ready.waits != nil && f.ready.waits.Match(line)
	done := f.ready.done != nil && f.ready.done.Match(line)
	if waits {
		f.waiting++
	}
	if done {
		f.finished++
	}
	if waits || done {
		f.time = time.Now()
		f.used, _ = f.processor() // an error means that the process has ended, which the caller of synced sees
	}
}

// synced reports whether all parts of the process have waited for their informers, and none has begun to since. It
// returns when the last one ended to wait, and the processor time used by then.
func (f *follower) synced(now time.Time) (end time.Time, used time.Duration, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ok = f.finished > 0 && f.finished == f.waiting+f.ready.silent && now.Sub(f.time) >= quiet
	return f.time, f.used, ok
}

func (f *follower) tail() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.last)
}

// freePorts returns n different ports of 127.0.0.1 on which no process listens.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // close all at the end, so that no port repeats
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// writeKubeconfig writes a file by which a program finds the API server of config.
func writeKubeconfig(file string, config *rest.Config) error {
	const name = "proof"
	return clientcmd.WriteToFile(api.Config{
		Clusters: map[string]*api.Cluster{
			name: {Server: config.Host, CertificateAuthorityData: config.TLSClientConfig.CAData},
		},
		AuthInfos:      map[string]*api.AuthInfo{name: {Token: config.BearerToken}},
		Contexts:       map[string]*api.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, file)
}

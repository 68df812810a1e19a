package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

const loopback = "127.0.0.1"

// Config configures a cluster. Its zero value is right for most tests.
type Config struct {
	// Dir is the folder for data, credentials and logs (etcd.log, kube-apiserver.log). It must exist and be empty.
	// [Cluster.Stop] leaves it unchanged. Empty means a temporary one, which Stop removes.
	Dir string

	// Kubernetes is the version of an older kube-apiserver, such as "1.36": see [BuildVersion]. Empty means the version
	// of the module e2e/apiserver.
	Kubernetes string

	// FeatureGates switches features of kube-apiserver on or off by name, such as ShardedListAndWatch. Nil means the
	// defaults of its version.
	FeatureGates map[string]bool

	// APIServerFlags are appended to the flags of kube-apiserver, such as "--min-request-timeout=5". Nil means none.
	APIServerFlags []string
}

// Cluster is a kube-apiserver and an etcd that run as children of this process. Its methods may be called concurrently.
//
// The children end with [Cluster.Stop]. On Linux they also end with this process, however it ends (a panic in a test,
// the timeout of go test, SIGKILL), but then a temporary folder of about 130 MB remains.
type Cluster struct {
	config   Config
	dir      string
	bin      Binaries
	creds    *credentials
	etcdURL  string
	peerURL  string
	hostPort string // of the API server

	mu        sync.Mutex // protects the fields below; only one process is started or ended at a time
	etcd      *process   // nil unless started, ready and not killed
	apiserver *process   // the same
	authority []byte     // set by the first start of the API server
	stopped   bool
}

// Start builds missing programs, starts etcd and kube-apiserver, and returns when the server's /readyz reports ready.
// ctx bounds only the start: the cluster runs until [Cluster.Stop].
//
// If a server does not become ready, the error has the end of its log, and nothing is left running.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	bin, err := BuildVersion(ctx, config.Kubernetes)
	if err != nil {
		return nil, err
	}
	c, err := newCluster(config, bin)
	if err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// Config returns a client configuration for the API server, as a user who may do everything. Each call returns a new
// one, which the caller may change. Its rate limits are too high to matter, and its content type is client-go's
// default, JSON. It stays valid after [Cluster.KillAPIServer] and [Cluster.StartAPIServer].
func (c *Cluster) Config() *rest.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &rest.Config{
		Host:            "https://" + c.hostPort,
		BearerToken:     c.creds.token,
		TLSClientConfig: rest.TLSClientConfig{CAData: slices.Clone(c.authority)},
		QPS:             10_000,
		Burst:           10_000,
	}
}

// KillAPIServer ends kube-apiserver with SIGKILL, like a crash: open watches break in the middle. When KillAPIServer
// returns, connections to its port are refused. It is an error if the server was not running.
func (c *Cluster) KillAPIServer() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killLocked(&c.apiserver, "kube-apiserver")
}

// StartAPIServer restarts kube-apiserver after [Cluster.KillAPIServer], with the same port, certificate and data, and
// returns when it is ready. If it does not become ready, or not before ctx ends, StartAPIServer ends it, and the error
// has the end of its log. It is an error if the server is running already, or the cluster was stopped.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.startAPIServerLocked(ctx)
}

// KillEtcd ends etcd with SIGKILL. The API server continues, but requests that its caches cannot answer fail.
// It is an error if etcd was not running.
func (c *Cluster) KillEtcd() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killLocked(&c.etcd, "etcd")
}

// StartEtcd restarts etcd after [Cluster.KillEtcd], with the same ports and data, and returns when it is healthy. The
// API server needs a little longer to reconnect. It is an error if etcd is running already, or the cluster was stopped.
func (c *Cluster) StartEtcd(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.startEtcdLocked(ctx)
}

// Stop ends both servers, and returns when they are gone and a temporary folder is removed. It returns an error, with
// the end of the log, if a server had ended by itself, or if the folder could not be removed. A second call does
// nothing.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil
	}
	c.stopped = true
	var errs []error
	for _, p := range []**process{&c.apiserver, &c.etcd} {
		if *p != nil {
			errs = append(errs, (*p).kill())
			*p = nil
		}
	}
	if c.config.Dir == "" {
		if err := os.RemoveAll(c.dir); err != nil {
			errs = append(errs, fmt.Errorf("cluster: remove the temporary folder: %w", err))
		}
	}
	return errors.Join(errs...)
}

func newCluster(config Config, bin Binaries) (*Cluster, error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	address := func(i int) string { return net.JoinHostPort(loopback, strconv.Itoa(ports[i])) }
	c := &Cluster{
		config:   config,
		dir:      config.Dir,
		bin:      bin,
		etcdURL:  "http://" + address(0),
		peerURL:  "http://" + address(1),
		hostPort: address(2),
	}
	if c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "informer-e2e-"); err != nil {
			return nil, fmt.Errorf("cluster: make a temporary folder: %w", err)
		}
	}
	if c.creds, err = newCredentials(c.dir); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.startEtcdLocked(ctx); err != nil {
		return err
	}
	return c.startAPIServerLocked(ctx)
}

func (c *Cluster) startEtcdLocked(ctx context.Context) error {
	flags := []string{
		"--data-dir=" + c.etcdDir(),
		"--listen-client-urls=" + c.etcdURL,
		"--advertise-client-urls=" + c.etcdURL,
		"--listen-peer-urls=" + c.peerURL,
		"--initial-advertise-peer-urls=" + c.peerURL,
		"--initial-cluster=default=" + c.peerURL,
		"--unsafe-no-fsync", // the data must outlive the process, not the machine
	}
	return c.startLocked(ctx, &c.etcd, "etcd", c.bin.Etcd, flags, func(ctx context.Context) error {
		return askReady(ctx, c.etcdURL+"/health", "", nil)
	})
}

func (c *Cluster) startAPIServerLocked(ctx context.Context) error {
	return c.startLocked(ctx, &c.apiserver, "kube-apiserver", c.bin.KubeAPIServer, c.apiServerFlags(),
		func(ctx context.Context) error {
			authority, err := c.creds.authority()
			if err != nil {
				return err
			}
			if err := askReady(ctx, "https://"+c.hostPort+"/readyz", c.creds.token, authority); err != nil {
				return err
			}
			c.authority = authority
			return nil
		})
}

func (c *Cluster) apiServerFlags() []string {
	host, port, _ := net.SplitHostPort(c.hostPort) // newCluster joined them
	flags := []string{
		"--etcd-servers=" + c.etcdURL,
		"--bind-address=" + host,
		"--secure-port=" + port,
		"--cert-dir=" + c.creds.certificateDir,
		"--token-auth-file=" + c.creds.tokenFile,
		"--service-account-key-file=" + c.creds.accountPublic,
		"--service-account-signing-key-file=" + c.creds.accountKey,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-cluster-ip-range=10.0.0.0/16",
		"--authorization-mode=RBAC",
		// This plugin requires a service account in each namespace, which only the controller manager would create.
		"--disable-admission-plugins=ServiceAccount",
		// Otherwise the server looks for a non-loopback address of the machine, and fails if there is none. A loopback
		// address is no valid endpoint of the service "kubernetes", so the endpoints are not reconciled.
		"--advertise-address=" + host,
		"--endpoint-reconciler-type=none",
	}
	if len(c.config.FeatureGates) > 0 {
		var gates []string
		for _, name := range slices.Sorted(maps.Keys(c.config.FeatureGates)) {
			gates = append(gates, fmt.Sprintf("%s=%t", name, c.config.FeatureGates[name]))
		}
		flags = append(flags, "--feature-gates="+strings.Join(gates, ","))
	}
	return append(flags, c.config.APIServerFlags...)
}

// startLocked starts a server and waits until probe reports that it is ready. Otherwise it ends the server.
func (c *Cluster) startLocked(ctx context.Context, p **process, name, path string, flags []string,
	probe func(context.Context) error) error {
	if c.stopped {
		return fmt.Errorf("cluster: start %s: the cluster was stopped", name)
	}
	if *p != nil && !(*p).ended() {
		return fmt.Errorf("cluster: start %s: it is running already", name)
	}
	started, err := startProcess(name, path, filepath.Join(c.dir, name+".log"), flags...)
	if err != nil {
		return err
	}
	if err := started.waitReady(ctx, probe); err != nil {
		_ = started.kill() // an error could only repeat that it had ended by itself
		return err
	}
	*p = started
	return nil
}

func (c *Cluster) killLocked(p **process, name string) error {
	if *p == nil {
		return fmt.Errorf("cluster: kill %s: it is not running", name)
	}
	err := (*p).kill()
	*p = nil
	return err
}

// askReady returns nil if a GET of url returns 200. It leaves no connection open, so that tests can count goroutines.
func askReady(ctx context.Context, url, token string, authority []byte) error {
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	if authority != nil {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(authority) {
			return errors.New("the API server's certificate is not written completely yet")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, logTail))
	if err != nil {
		return fmt.Errorf("GET %s: read the answer: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", url, resp.Status, body)
	}
	return nil
}

package warmstart

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/notfound"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/transport"
)

// Cluster identifies the server of a client, so that the objects of one server are not taken for those of another. It
// is safe for concurrent use.
type Cluster struct {
	asking chan struct{} // holds a token while a request for the UID is under way

	// Only the owner of the token uses these.
	askedAt  time.Time
	failed   error // the last request had no answer in time
	failedAt time.Time
	failedOf int       // updates at that time
	pageAt   time.Time // the answer was a 404 without a Status, perhaps of a proxy, at that time; zero if it was not

	mu      sync.Mutex // protects the fields below
	server  string     // the address
	ca      string     // the sum of the certificate authority; empty if the system's are trusted
	updates int        // how often server has changed
	uid     string     // of the namespace kube-system; empty if the client may not get it
	known   bool
}

// NewCluster returns the cluster to which a client for config connects, at the address base.
func NewCluster(config *rest.Config, base *url.URL) *Cluster {
	c := &Cluster{asking: make(chan struct{}, 1)}
	c.Update(config, base)
	return c
}

// Update notes that the client connects as config says, at the address base. At another one, the server is asked for
// the UID again.
func (c *Cluster) Update(config *rest.Config, base *url.URL) {
	address := *base
	address.User = nil // saved states and logs have no credentials
	server, ca := address.String(), sumOfCA(config)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ca = ca
	if server != c.server {
		c.server, c.uid, c.known = server, "", false
		c.updates++
	}
}

// identify sets the address and the certificate authority in i.
func (c *Cluster) identify(i Identity) Identity {
	c.mu.Lock()
	defer c.mu.Unlock()
	i.Server, i.CA = c.server, c.ca
	return i
}

// Server returns the address of the server.
func (c *Cluster) Server() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server
}

// sumOfCA returns a checksum of the certificate authority in config.
func sumOfCA(config *rest.Config) string {
	ca := config.CAData
	if len(ca) == 0 && config.CAFile != "" {
		ca, _ = os.ReadFile(config.CAFile) // the transport has read it, too
	}
	if len(ca) == 0 {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(bytes.TrimSpace(ca)))
}

const (
	// identifyTimeout is the time for the answer to a small GET. All starts wait for it, also those that then list.
	identifyTimeout = 5 * time.Second
	// identifyAgain is the time during which no further request follows one that had no answer.
	identifyAgain = time.Minute
)

// errNotIdentified indicates that a request of UID has failed.
var errNotIdentified = errors.New("identify the server")

// UID returns the UID of the namespace kube-system, which a cluster has for its whole life. It is empty if the client
// may not get that namespace. Only the first call that succeeds sends a request, unless a proxy may have answered it,
// or again is true and the last request was more than a few seconds ago.
func (c *Cluster) UID(ctx context.Context, client *transport.Client, again bool) (string, error) {
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	updates := c.updated()
	again = again && time.Since(c.askedAt) > identifyTimeout
	if uid, known := c.knownUID(); known && !again && (c.pageAt.IsZero() || time.Since(c.pageAt) < identifyAgain) {
		return uid, nil
	}
	if err := client.Wait(ctx); err != nil {
		return "", err
	}
	if c.failed != nil && c.failedOf == updates && time.Since(c.failedAt) < identifyAgain {
		return "", c.failed
	}
	short, cancel := context.WithTimeoutCause(ctx, identifyTimeout, transport.ErrNoProgress)
	defer cancel()
	c.askedAt = time.Now()
	uid, err := readUID(short, client)
	if c.failed = nil; err != nil && short.Err() != nil && ctx.Err() == nil {
		c.failed, c.failedAt, c.failedOf = fmt.Errorf("%w: %w", errNotIdentified, err), time.Now(), updates
	}
	if c.pageAt = (time.Time{}); apierrors.IsNotFound(err) && !notfound.Is(err) {
		c.pageAt = time.Now()
	}
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) ||
		apierrors.IsNotAcceptable(err) {
		uid, err = "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNotIdentified, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if updates != c.updates {
		return "", fmt.Errorf("%w: %w", errNotIdentified, transport.ErrUpdated)
	}
	c.uid, c.known = uid, true
	return uid, nil
}

// updated returns how often the address of the server has changed.
func (c *Cluster) updated() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.updates
}

// Known returns what UID has returned, or "" if it has returned nothing yet. It sends no request.
func (c *Cluster) Known() string {
	uid, _ := c.knownUID()
	return uid
}

// knownUID returns what UID has returned, and whether it has.
func (c *Cluster) knownUID() (uid string, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.uid, c.known
}

func readUID(ctx context.Context, client *transport.Client) (string, error) {
	resp, err := client.Send(ctx, transport.Request{
		Method:   http.MethodGet,
		Path:     "api/v1/namespaces/" + metav1.NamespaceSystem,
		Accept:   "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
		Resource: schema.GroupResource{Resource: "namespaces"},
		Name:     metav1.NamespaceSystem,
	})
	if err != nil {
		return "", err
	}
	defer resp.Close()
	body, err := io.ReadAll(io.LimitReader(resp, 1<<20))
	if err != nil {
		return "", err
	}
	if resp.Format != decode.JSON {
		return "", errors.New("the server sent another format than requested")
	}
	meta, err := resp.Format.Metadata(body)
	if err != nil {
		return "", err
	}
	return string(meta.UID), nil
}

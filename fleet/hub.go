package fleet

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/run"
)

const (
	// LabelKubeconfig is the label, with the value "true", of the Secrets with kubeconfigs of multicluster-runtime.
	LabelKubeconfig = "sigs.k8s.io/multicluster-runtime-kubeconfig"
	// LabelArgoCD is the label, with the value "cluster", of the Secrets with the clusters of Argo CD.
	LabelArgoCD = "argocd.argoproj.io/secret-type"
)

// SecretsConfig describes the clusters of [Secrets].
type SecretsConfig struct {
	// Namespace is the namespace of the Secrets. Empty means all: who may write a Secret in any of them can then make the
	// program connect to any server.
	Namespace string
	// LabelSelector selects the Secrets. Empty means those of multicluster-runtime: LabelKubeconfig is "true". For Argo CD
	// it is LabelArgoCD + "=cluster".
	LabelSelector string
	// Key is the key of the data that has the kubeconfig. Empty means "kubeconfig". A Secret without it is one of Argo CD,
	// with the keys name, server and config.
	Key string
	// AllowExec allows exec plugins and auth providers, which run programs in this process. False means that a Secret with
	// one is an error of its cluster.
	AllowExec bool
	// AllowFiles allows kubeconfigs to name files of this process, such as a token, which are then read and sent to the
	// server of the kubeconfig. False means that a Secret which does is an error of its cluster. client-go keeps a goroutine
	// for each configuration that has had the files of a client certificate.
	AllowFiles bool
	// Logger receives failures of the list and the watch of the Secrets. Nil means slog.Default().
	Logger *slog.Logger
}

// maxName is the greatest length of the name that a Secret of Argo CD gives to a cluster, in bytes, as those of objects
// have. Names are in logs, on pages and in metrics.
const maxName = 253

// Secrets returns a source with a cluster for each of some Secrets in the cluster of hub. The name of a cluster is that
// of the Secret, or what Argo CD's key name has. A Secret that is being deleted counts as deleted. One that is deleted and
// created again within 10 s, as some tools renew credentials, counts as changed: so a cluster goes 10 s after its Secret.
func Secrets(hub *informer.Client, c SecretsConfig) Source {
	if c.LabelSelector == "" {
		c.LabelSelector = LabelKubeconfig + "=true"
	}
	if c.Key == "" {
		c.Key = "kubeconfig"
	}
	return &objects[*corev1.Secret]{client: hub, logger: c.Logger, read: c.read, what: "Secrets of clusters",
		resource: resource(corev1.SchemeGroupVersion.WithResource("secrets"), c.Namespace, c.LabelSelector)}
}

// read implements objects.read.
func (c SecretsConfig) read(s *corev1.Secret) found {
	t, data := trust{exec: c.AllowExec, files: c.AllowFiles}, s.Data
	if content, ok := data[c.Key]; ok {
		return found{s.Name, [][]byte{content}, func() (*rest.Config, error) { return t.kubeconfig(content) }}
	}
	server, config := data["server"], data["config"]
	name, wrong := s.Name, error(nil)
	if n := len(data["name"]); n > maxName {
		wrong = fmt.Errorf("its name has %d bytes: that of a cluster has at most %d", n, maxName)
	} else if n > 0 {
		name = strings.ToValidUTF8(string(data["name"]), "\uFFFD")
	}
	return found{name, [][]byte{server, config, data["name"]}, func() (*rest.Config, error) {
		if wrong != nil {
			return nil, wrong
		}
		if server == nil || config == nil {
			return nil, fmt.Errorf("it has neither the key %s, nor server and config", c.Key)
		}
		return t.argo(string(server), config)
	}}
}

// ProfilesConfig describes the clusters of [Profiles].
type ProfilesConfig struct {
	// Namespace is the namespace of the ClusterProfiles. Empty means all. LabelSelector selects some of them.
	Namespace     string
	LabelSelector string
	// Access adds credentials to the configuration of a client, which has the address, the certificate authority and the
	// proxy of an access provider. The key is the name of the access provider, such as "google". The function may set
	// rest.Config.ExecProvider, BearerTokenFile or WrapTransport; its errors must not contain credentials. Of the access
	// providers of a profile, the first one that Access has counts. A profile without one is an error of its cluster.
	Access map[string]func(profile metav1.ObjectMeta, config *rest.Config) error
	// Logger receives failures of the list and the watch of the ClusterProfiles. Nil means slog.Default().
	Logger *slog.Logger
}

// Profiles returns a source with a cluster for each ClusterProfile (multicluster.x-k8s.io/v1alpha1) in the cluster of hub,
// by its name. A ClusterProfile says where a cluster is, and which plugin has credentials for it (KEP-5339). This package
// runs no plugin by itself: see ProfilesConfig.Access.
func Profiles(hub *informer.Client, c ProfilesConfig) Source {
	profiles := schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}
	return &objects[*clusterProfile]{client: hub, logger: c.Logger, read: c.read, what: "ClusterProfiles",
		resource: resource(profiles, c.Namespace, c.LabelSelector)}
}

// clusterProfile has the fields of a ClusterProfile that say how to reach the cluster.
type clusterProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		AccessProviders     []accessProvider `json:"accessProviders"`
		CredentialProviders []accessProvider `json:"credentialProviders"` // the former name
	} `json:"status"`
}

type accessProvider struct {
	Name    string `json:"name"`
	Cluster struct {
		Server                   string `json:"server"`
		TLSServerName            string `json:"tls-server-name"`
		InsecureSkipTLSVerify    bool   `json:"insecure-skip-tls-verify"`
		CertificateAuthorityData []byte `json:"certificate-authority-data"`
		ProxyURL                 string `json:"proxy-url"`
		DisableCompression       bool   `json:"disable-compression"`
	} `json:"cluster"`
}

// read implements objects.read.
func (c ProfilesConfig) read(p *clusterProfile) found {
	providers := slices.Concat(p.Status.AccessProviders, p.Status.CredentialProviders)
	content, err := json.Marshal([]any{p.Namespace, p.UID, p.Labels, p.Annotations, providers}) // Access reads these
	return found{p.Name, [][]byte{content}, func() (*rest.Config, error) {
		for _, provider := range providers {
			if access := c.Access[provider.Name]; access != nil && err == nil {
				return provider.config(p.ObjectMeta, access)
			}
		}
		return nil, errors.New("none of its access providers is among those of ProfilesConfig.Access")
	}}
}

func (p *accessProvider) config(profile metav1.ObjectMeta,
	access func(metav1.ObjectMeta, *rest.Config) error) (*rest.Config, error) {
	cluster := p.Cluster
	if err := checkServer(cluster.Server); err != nil {
		return nil, err
	}
	config := &rest.Config{Host: cluster.Server, DisableCompression: cluster.DisableCompression,
		TLSClientConfig: rest.TLSClientConfig{Insecure: cluster.InsecureSkipTLSVerify, ServerName: cluster.TLSServerName,
			CAData: cluster.CertificateAuthorityData}}
	if err := setProxy(config, cluster.ProxyURL); err != nil {
		return nil, err
	}
	if err := access(profile, config); err != nil {
		return nil, fmt.Errorf("the access provider %s: %w", p.Name, err)
	}
	return config, nil
}

func resource(gvr schema.GroupVersionResource, namespace, labels string) informer.Resource {
	r := informer.Resource{GroupVersionResource: gvr, LabelSelector: labels}
	if namespace != "" {
		r.Namespaces = []string{namespace}
	}
	return r
}

// objects is a source with a cluster for each object of a hub.
type objects[T interface {
	informer.Object
	GetDeletionTimestamp() *metav1.Time
}] struct {
	client   *informer.Client
	resource informer.Resource
	logger   *slog.Logger
	what     string
	read     func(obj T) found
}

// found is what an object says of a cluster.
type found struct {
	name    string
	content [][]byte // the configuration is another one only if this is
	config  func() (*rest.Config, error)
}

// digestOf returns the digest of the content.
func (f *found) digestOf() digest { return sha256.Sum256(bytes.Join(f.content, []byte{0})) }

// retryEvery is the pause after which a configuration that could not be made is tried again, and the time without a watch
// after which a hub is lost.
const retryEvery = time.Minute

// Run implements Source.
func (o *objects[T]) Run(ctx context.Context, report func(map[string]Cluster, error)) error {
	var reporting sync.Mutex
	tell := func(clusters map[string]Cluster, err error) {
		reporting.Lock()
		defer reporting.Unlock()
		report(clusters, err)
	}
	var inf *informer.Informer[T]
	inf = informer.New(o.client, o.resource, informer.Config[T]{
		Logger: o.logger,
		OnFailure: func(err error) {
			if !inf.HasSynced() { // later, the clusters are known
				tell(nil, fmt.Errorf("the %s are not known: %w", o.what, err))
			}
		},
	})
	changed := make(chan struct{}, 1)
	notify := func() { run.Signal(changed) }
	inf.Subscribe(afterEach[T](notify))
	own, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	ended := make(chan error, 1)
	running.Go(func() { ended <- inf.Run(own) })
	running.Go(func() {
		if inf.WaitSynced(own) == nil {
			notify() // also if there is no object
		}
	})
	return o.follow(inf, changed, ended, tell)
}

// follow reports the clusters whenever the objects of inf have changed, and each minute if that may help, until inf has
// ended.
func (o *objects[T]) follow(inf *informer.Informer[T], changed <-chan struct{}, ended <-chan error,
	tell func(map[string]Cluster, error)) error {
	var known map[string]reading
	var lost error               // why the clusters may have changed
	var settled <-chan time.Time // tells when a missing object counts as gone
	again := time.NewTicker(retryEvery)
	defer again.Stop()
	for {
		onlyAgain := false
		select {
		case <-again.C:
			onlyAgain = true
		case err := <-ended:
			return err
		case <-changed:
		case <-settled:
		}
		if !inf.HasSynced() {
			continue
		}
		before := lost
		lost = o.lost(inf.Status(), before)
		now, missing := o.present(inf.Store(), known)
		if settled = nil; missing {
			settled = time.After(settleTime)
		}
		if onlyAgain && sameUse(known, now) && (lost == nil) == (before == nil) {
			continue
		}
		known = now
		tell(clustersOf(now), nil)
		if lost != nil {
			tell(nil, lost)
		}
	}
}

// sameUse reports whether the same clusters are usable.
func sameUse(a, b map[string]reading) bool {
	return maps.EqualFunc(a, b, func(a, b reading) bool { return a.isBroken() == b.isBroken() })
}

func clustersOf(known map[string]reading) map[string]Cluster {
	clusters := map[string]Cluster{}
	for name, c := range known {
		clusters[name] = c.cluster
	}
	return clusters
}

// afterEach returns a handler that calls notify after each change.
func afterEach[T informer.Object](notify func()) informer.Handler[T] {
	return informer.HandlerFuncs[T]{
		AddFunc:    func(T, bool) { notify() },
		UpdateFunc: func(T, T) { notify() },
		DeleteFunc: func(T, bool) { notify() },
	}
}

// lost returns why the clusters may have changed unseen: there has been no watch for long. before is what it returned last.
func (o *objects[T]) lost(s informer.InformerStatus, before error) error {
	for _, r := range s.Reflectors {
		switch {
		case !s.Synced || r.NoWatchSince.IsZero() || time.Since(r.NoWatchSince) < retryEvery:
		case before != nil:
			return before
		default:
			return fmt.Errorf("the %s are not followed since %s: %w", o.what, r.NoWatchSince.Format(time.RFC3339),
				cmp.Or(r.LastError, informer.ErrNoProgress))
		}
	}
	return nil
}

// settleTime is how long an object must be missing before its cluster goes.
const settleTime = 10 * time.Second

// present returns the clusters of the objects in store, those that are as before with the same configuration, and those
// that have been missing for a moment only. missing reports whether there are such.
func (o *objects[T]) present(store *informer.Store[T],
	known map[string]reading) (all map[string]reading, missing bool) {
	all = map[string]reading{}
	for obj := range store.All() {
		if obj.GetDeletionTimestamp() != nil {
			continue
		}
		f := o.read(obj)
		now := reading{digest: f.digestOf()}
		_, twice := all[f.name]
		switch before, had := known[f.name]; {
		case twice:
			now.cluster.Err = fmt.Errorf("several %s have its name", o.what)
			now.digest = digest{}
		case had && before.digest == now.digest && before.cluster.Err == nil: // Access may have failed for a while
			now = before
			now.missing = time.Time{}
		default:
			config, err := f.config()
			if now.cluster.Config = config; err != nil {
				now.cluster = Cluster{Err: fmt.Errorf("%s: %w", informer.KeyOf(obj), err)}
			}
		}
		all[f.name] = now
	}
	for err := range store.Snapshot().AllUndecodable() {
		if _, ok := all[err.Key.Name]; !ok {
			before := known[err.Key.Name]
			before.cluster = Cluster{Err: fmt.Errorf("%s cannot be decoded", err.Key), Config: before.cluster.Config}
			before.digest = digest{}
			all[err.Key.Name] = before
		}
	}
	for name, before := range known {
		if _, ok := all[name]; ok {
			continue
		}
		if before.missing.IsZero() {
			before.missing = time.Now()
		}
		if time.Since(before.missing) < settleTime {
			all[name], missing = before, true
		}
	}
	return all, missing
}

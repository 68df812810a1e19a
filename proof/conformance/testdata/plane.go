// Package controlplane: this file replaces kube-apiserver and etcd in controller-runtime's package of that name.
package controlplane

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/informertest/cluster"
	"github.com/typedinformer/informer/informertest/crds"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"
)

var (
	serversMu sync.Mutex // protects servers
	servers   = map[*ControlPlane]*informertest.Server{}
)

// Start starts a server of package informertest.
func (f *ControlPlane) Start() error {
	begin := time.Now()
	server := cluster.New(informertest.Options{
		Auth:       &informertest.Auth{},
		Middleware: f.withFeatureGates,
	})
	crds.Serve(server)
	took := time.Since(begin)

	serversMu.Lock()
	servers[f] = server
	serversMu.Unlock()
	user, err := f.AddUser(User{Name: "default", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return err
	}
	f.defaultUserCfg = user.Config()
	return report(took)
}

// report appends the duration of a start to a file.
func report(took time.Duration) error {
	file, err := os.OpenFile(os.Getenv("CONFORMANCE_STARTS"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(file, took); err != nil {
		return err
	}
	return file.Close()
}

// withFeatureGates makes the server behave as flags of kube-apiserver say.
func (f *ControlPlane) withFeatureGates(next http.Handler) http.Handler {
	flags := f.GetAPIServer().Configure().AsStrings(nil)
	if !slices.Contains(flags, "--feature-gates=AggregatedDiscoveryEndpoint=false") {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept"), "as=APIGroupDiscoveryList") {
			r.Header.Set("Accept", "application/json")
		}
		next.ServeHTTP(w, r)
	})
}

// Stop stops the server.
func (f *ControlPlane) Stop() error {
	serversMu.Lock()
	server := servers[f]
	delete(servers, f)
	serversMu.Unlock()
	if server != nil {
		server.Close()
	}
	return nil
}

// AddUser returns the credentials of a user.
func (f *ControlPlane) AddUser(user User, base *rest.Config) (*AuthenticatedUser, error) {
	serversMu.Lock()
	server := servers[f]
	serversMu.Unlock()
	if server == nil {
		return nil, fmt.Errorf("the server has not started")
	}
	if base == nil {
		base = &rest.Config{}
	}
	config, known := rest.CopyConfig(base), server.ConfigFor(authenticationv1.UserInfo{Username: user.Name, Groups: user.Groups})
	config.Host, config.CAData = known.Host, known.CAData
	config.CertData, config.KeyData = known.CertData, known.KeyData
	return &AuthenticatedUser{cfg: config, cfgIsComplete: true, plane: f}, nil
}

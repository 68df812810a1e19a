package informertest

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/typedinformer/informer/watchcache"
)

// Auth makes a [Server] serve HTTPS, with a certificate authority of its own, and know its users: by client
// certificates or bearer tokens that [Server.ConfigFor] and [Server.TokenFor] make. Impersonation works.
//
// Without credentials, a request comes from system:anonymous. Credentials that the server does not know fail with 401
// Unauthorized. The server speaks HTTP/1.1 only.
type Auth struct {
	// Authorize decides whether a request may be done; if not, it fails with 403 Forbidden and the reason. Nil allows
	// everything to users other than system:anonymous. The server calls it concurrently, and also for reviews of access.
	//
	// It is not asked for what no cluster denies by default: anything by the group system:masters; discovery and reviews
	// of oneself by system:authenticated; and the version and health of the server.
	Authorize func(authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus
}

// Groups and users that kube-apiserver knows.
const (
	masters         = "system:masters"
	authenticated   = "system:authenticated"
	unauthenticated = "system:unauthenticated"
	anonymous       = "system:anonymous"
	serviceAccounts = "system:serviceaccounts"
	serviceAccount  = "system:serviceaccount:" // before namespace:name
)

// users are the credentials that a server knows.
type users struct {
	auth      Auth
	authority *authority
	serving   *tls.Config

	mu     sync.Mutex // protects tokens
	tokens map[string]credential
}

// credential is what a token proves.
type credential struct {
	user    authenticationv1.UserInfo
	expires time.Time // zero means never
}

// newUsers returns the users of a server at that host.
func newUsers(auth Auth, host string) (*users, error) {
	authority, err := newAuthority()
	if err != nil {
		return nil, err
	}
	serving, err := authority.serving(host)
	if err != nil {
		return nil, err
	}
	return &users{auth: auth, authority: authority, serving: serving, tokens: map[string]credential{}}, nil
}

// ConfigFor returns a client configuration like [Server.Config], with the credentials of that user: a client
// certificate, or a token if the user has a UID or Extra, which a certificate does not tell. It panics if the server
// has no [Auth].
func (s *Server) ConfigFor(user authenticationv1.UserInfo) *rest.Config {
	config := s.anonymousConfig()
	if user.UID != "" || len(user.Extra) > 0 {
		config.BearerToken = s.TokenFor(user)
		return config
	}
	cert, key, err := s.mustHaveUsers().authority.issueClient(user.Username, user.Groups)
	if err != nil {
		panic(fmt.Sprintf("informertest: a certificate for %s: %v", user.Username, err))
	}
	config.CertData, config.KeyData = cert, key
	return config
}

// TokenFor returns a new bearer token of that user. It panics if the server has no [Auth].
func (s *Server) TokenFor(user authenticationv1.UserInfo) string {
	return s.mustHaveUsers().add(rand.Text(), credential{user: user})
}

// RevokeToken makes the server refuse a token from now on, with 401 Unauthorized.
func (s *Server) RevokeToken(token string) {
	if s.users == nil {
		return
	}
	s.users.mu.Lock()
	defer s.users.mu.Unlock()
	delete(s.users.tokens, token)
}

// Kubeconfig returns a kubeconfig file, in YAML, for a client configuration. It has what [Server.ConfigFor] sets, and
// impersonation, but no plugins. It returns an error for a server in memory, which no other process can reach.
func Kubeconfig(config *rest.Config) ([]byte, error) {
	if config.Dial != nil {
		return nil, fmt.Errorf("%s cannot be reached by the address in a kubeconfig", config.Host)
	}
	const name = "informertest"
	return yaml.Marshal(clientcmdapi.Config{
		APIVersion: "v1",
		Kind:       "Config",
		Clusters: []clientcmdapi.NamedCluster{{Name: name, Cluster: clientcmdapi.Cluster{
			Server:                   config.Host,
			TLSServerName:            config.ServerName,
			InsecureSkipTLSVerify:    config.Insecure,
			CertificateAuthority:     config.CAFile,
			CertificateAuthorityData: config.CAData,
		}}},
		AuthInfos: []clientcmdapi.NamedAuthInfo{{Name: name, AuthInfo: clientcmdapi.AuthInfo{
			ClientCertificate:     config.CertFile,
			ClientCertificateData: config.CertData,
			ClientKey:             config.KeyFile,
			ClientKeyData:         config.KeyData,
			Token:                 config.BearerToken,
			TokenFile:             config.BearerTokenFile,
			Username:              config.Username,
			Password:              config.Password,
			Impersonate:           config.Impersonate.UserName,
			ImpersonateUID:        config.Impersonate.UID,
			ImpersonateGroups:     config.Impersonate.Groups,
			ImpersonateUserExtra:  config.Impersonate.Extra,
		}}},
		Contexts: []clientcmdapi.NamedContext{{Name: name,
			Context: clientcmdapi.Context{Cluster: name, AuthInfo: name}}},
		CurrentContext: name,
	})
}

// anonymousConfig returns a client configuration without credentials.
func (s *Server) anonymousConfig() *rest.Config {
	config := &rest.Config{Host: s.URL, QPS: -1}
	if s.options.InMemory {
		config.Dial = s.dial
		// The host name is not real, so no proxy can know it. A function here also keeps client-go from caching the
		// transport, which would outlive a synctest bubble.
		config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	if s.users != nil {
		config.CAData = s.users.authority.pem
	}
	return config
}

func (s *Server) mustHaveUsers() *users {
	if s.users == nil {
		panic("informertest: Options.Auth is nil, so the server knows no users")
	}
	return s.users
}

// secured returns a listener that serves HTTPS, or l itself if the server has no users.
func (s *Server) secured(l net.Listener) net.Listener {
	if s.users == nil {
		return l
	}
	return tls.NewListener(l, s.users.serving)
}

// add adds a token and returns it.
func (u *users) add(token string, proves credential) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tokens[token] = proves
	return token
}

// authenticate returns the user of a request by its credentials, and whether these are known.
func (u *users) authenticate(r *http.Request) (user authenticationv1.UserInfo, known bool) {
	refused := r.Header.Get("Authorization") != ""
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		subject, err := u.authority.verify(r.TLS.PeerCertificates[0])
		if err == nil {
			user = authenticationv1.UserInfo{Username: subject.CommonName, Groups: subject.Organization}
			return withGroup(user, authenticated), true
		}
		refused = true
	}
	if token, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); isBearer {
		return u.byToken(token)
	}
	return authenticationv1.UserInfo{Username: anonymous, Groups: []string{unauthenticated}}, !refused
}

func (u *users) byToken(token string) (user authenticationv1.UserInfo, known bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	found, known := u.tokens[token]
	if !known || !found.expires.IsZero() && time.Now().After(found.expires) {
		return user, false
	}
	return withGroup(found.user, authenticated), true
}

// withGroup returns user as a member of group too.
func withGroup(user authenticationv1.UserInfo, group string) authenticationv1.UserInfo {
	if !slices.Contains(user.Groups, group) {
		user.Groups = append(slices.Clone(user.Groups), group)
	}
	return user
}

// withUsers rejects requests whose credentials are unknown, and those that their user may not do.
func (s *Server) withUsers(next http.Handler) http.Handler {
	if s.users == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req := r.Context().Value(requestKey{}).(Request)
		err := req.refused
		if err == nil {
			err = s.users.authorize(req.attributes(r))
		}
		if err != nil {
			w.Header().Set("X-Content-Type-Options", "nosniff")
			watchcache.WriteError(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// identify sets the user of a request, or the error to respond with.
func (u *users) identify(r *http.Request, req *Request) {
	user, known := u.authenticate(r)
	if !known {
		req.refused = apierrors.NewUnauthorized("Unauthorized")
		return
	}
	req.User, req.refused = u.impersonated(r.Header, user)
}

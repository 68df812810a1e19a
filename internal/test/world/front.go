package world

import (
	"net/http/httputil"
	"net/url"

	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/test/testkit"
)

// Front returns a reverse proxy in front of the server, over HTTP/2 with a certificate authority of its own. A
// connection has at most streams requests at a time; zero means HTTP/1.1.
func (w World) Front(streams int) *testkit.SecureServer {
	w.Helper()
	config := w.Server.Config()
	transport, err := rest.TransportFor(config)
	if err != nil {
		w.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		w.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
	}
	return testkit.NewSecureServer(w.T, streams, proxy.ServeHTTP)
}

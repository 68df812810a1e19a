package canned

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// Wire is how a client speaks to a server that [Start] started.
type Wire string

const (
	// HTTP2 is HTTP/2 with TLS, with a flush for each event. A cluster speaks so.
	HTTP2 Wire = "HTTP/2 with TLS"
	// HTTP1 is HTTP/1.1 with TLS, with a flush for each event.
	HTTP1 Wire = "HTTP/1.1 with TLS"
	// Plain is HTTP/1.1 without TLS, with one flush for all events that are ready.
	Plain Wire = "plain HTTP/1.1"
)

// Wires are all of them.
var Wires = []Wire{HTTP2, HTTP1, Plain}

// Serve serves one server until the process ends. It first prints its URL on a line, for [measure.Serve].
func Serve(c Config) error {
	before := debug.SetGCPercent(20) // while it encodes: what it holds shares the machine's memory with clients
	s, err := Start(c)
	if err != nil {
		return err
	}
	debug.SetGCPercent(before)
	runtime.GC()
	fmt.Println(s.URL)
	return <-s.ended
}

// Started is a server that listens on two ports, with TLS and without.
type Started struct {
	URL              string // of the port without TLS, for a [Control]
	plain, encrypted net.Listener
	ended            chan error
}

// Start starts a server on free ports.
func Start(c Config) (s *Started, err error) {
	server, err := New(c)
	if err != nil {
		return nil, err
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	s = &Started{ended: make(chan error, 2)}
	if s.plain, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	if s.encrypted, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		s.plain.Close()
		return nil, err
	}
	s.URL = "http://" + s.plain.Addr().String()
	server.info.TLS = "https://" + s.encrypted.Addr().String()
	server.info.CA = certificate
	go func() { s.ended <- http.Serve(s.plain, server) }()
	go func() {
		encrypted := &http.Server{Handler: server, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}}
		s.ended <- encrypted.ServeTLS(s.encrypted, "", "")
	}()
	return s, nil
}

// Close ends listening. Open connections stay.
func (s *Started) Close() {
	s.plain.Close()
	s.encrypted.Close()
}

// Client returns the configuration of a client without a limit of requests, that accepts only this format. Only
// Plain works with a server that Start did not start.
func (c Control) Client(info Info, wire Wire, media string) (*rest.Config, error) {
	media, _, _ = strings.Cut(media, ";") // a client for metadata adds the rest
	config := &rest.Config{Host: c.Server, QPS: -1, ContentConfig: rest.ContentConfig{AcceptContentTypes: media, ContentType: media}}
	if wire == Plain {
		return config, nil
	}
	if info.TLS == "" {
		return nil, fmt.Errorf("the server does not speak %s", wire)
	}
	config.Host, config.CAData, config.BearerToken = info.TLS, info.CA, info.Token
	switch wire {
	case HTTP2:
	case HTTP1:
		config.NextProtos = []string{"http/1.1"}
	default:
		return nil, fmt.Errorf("unknown wire %q", wire)
	}
	return config, nil
}

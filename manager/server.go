package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits of a server. It disconnects a client that exceeds them. The time of a response is not limited: a CPU profile
// takes long.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second // of a whole request; the API server waits for a webhook no longer
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
)

// Server is an HTTP server. A client must send the headers of a request within 10 s, at most 32 kB of them, and the
// whole request within 30 s. The contexts of its requests carry the values of Run's context, and end when the server
// has stopped.
type Server struct {
	// Name names the server in errors and logs. Empty means "server".
	Name string
	// Addr is the host and port to listen on, such as ":8081" or "127.0.0.1:8081". Empty means Listener.
	Addr string
	// Listener accepts the connections if Addr is empty. The server closes it.
	Listener net.Listener
	// TLS makes the server speak HTTPS, and HTTP/2. It must contain a certificate, or a function that returns one. Nil
	// means plain HTTP.
	TLS *tls.Config
	// Handler answers the requests.
	Handler http.Handler
}

func (s *Server) validate() error {
	switch {
	case (s.Addr == "") == (s.Listener == nil):
		return fmt.Errorf("%s: set either Server.Addr or Server.Listener", s.name())
	case s.Handler == nil:
		return fmt.Errorf("%s: Server.Handler is nil", s.name())
	}
	return nil
}

func (s *Server) name() string {
	name := s.Name
	if name == "" {
		name = "server"
	}
	if s.Addr != "" {
		return name + " at " + s.Addr
	}
	return name
}

// server is a Server of a Manager.
type server struct {
	Server
	forced   context.Context // ends at the deadline of the shutdown
	logger   *slog.Logger
	listener net.Listener // nil before listen
}

// listen opens the listener. Calling it again does nothing.
func (s *server) listen(ctx context.Context) (err error) {
	switch {
	case s.listener != nil:
	case s.Listener != nil:
		s.listener = s.Listener
	default:
		s.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.Addr)
	}
	return err
}

// close closes the listener of a server that did not run.
func (s *server) close() {
	if s.listener != nil {
		_ = s.listener.Close()
	} else if s.Listener != nil {
		_ = s.Listener.Close()
	}
}

// run serves requests until ctx ends. It then answers those under way, until the deadline of the shutdown.
func (s *server) run(ctx context.Context) error {
	if err := s.listen(ctx); err != nil { // it was added while Run was under way
		return err
	}
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	h := &http.Server{
		Handler:           s.Handler,
		TLSConfig:         s.TLS,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ErrorLog:          slog.NewLogLogger(s.logger.With("server", s.name()).Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() {
		if s.TLS != nil {
			served <- h.ServeTLS(s.listener, "", "")
		} else {
			served <- h.Serve(s.listener)
		}
	}()
	select {
	case err := <-served:
		_ = h.Close()
		return err
	case <-ctx.Done():
	}
	cut := h.Shutdown(s.forced)
	cancel()
	_ = h.Close()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	if cut != nil {
		return fmt.Errorf("requests under way were cut off: %v", cut) // not %w: it would count as the end of a context
	}
	return nil
}

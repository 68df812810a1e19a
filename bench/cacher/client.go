package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// The windows are those of Go's HTTP/2 client.
const (
	streamWindow     = 4 << 20
	connectionWindow = 1 << 30
)

// connection is an HTTP/2 connection of a client that does little more than count, so that most of the machine is left
// to the server.
type connection struct {
	tls    *tls.Conn
	framer *http2.Framer // read uses its reading half
	ended  chan struct{} // closed when read returns

	mu      sync.Mutex // protects the fields below, and writing
	out     *bufio.Writer
	header  bytes.Buffer
	encoder *hpack.Encoder
	next    uint32 // the next stream
	bodies  map[uint32]*body
	err     error // why the connection has ended
}

// body follows the body of one response.
type body struct {
	to      consumer
	unacked int           // bytes since the last update of the window
	opened  chan struct{} // closed when the header of the response has come
	closed  chan struct{} // closed at the end
	err     error         // set before one of them is closed
}

// consumer takes the bytes of a body. It need not keep them.
type consumer interface{ consume(p []byte) }

// dial opens a connection.
func dial(info serverInfo) (*connection, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(info.CA) {
		return nil, errors.New("the server's certificate is not valid")
	}
	t, err := tls.Dial("tcp", info.Address, &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}})
	if err != nil {
		return nil, err
	}
	c := &connection{tls: t, ended: make(chan struct{}), out: bufio.NewWriter(t), next: 1, bodies: map[uint32]*body{}}
	c.encoder = hpack.NewEncoder(&c.header)
	c.framer = http2.NewFramer(c.out, bufio.NewReaderSize(t, 64<<10))
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.framer.SetReuseFrames()
	c.out.WriteString(http2.ClientPreface)
	err = errors.Join(
		c.framer.WriteSettings(http2.Setting{ID: http2.SettingEnablePush},
			http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow}),
		c.framer.WriteWindowUpdate(0, connectionWindow-65535),
		c.out.Flush(),
	)
	if err != nil {
		t.Close()
		return nil, err
	}
	go c.read()
	return c, nil
}

// close ends the connection and waits for its reader.
func (c *connection) close() {
	c.tls.Close()
	<-c.ended
}

// get requests a path. It does not wait for the response.
func (c *connection) get(path string, query url.Values, accept string, to consumer) (*body, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	b := &body{to: to, opened: make(chan struct{}), closed: make(chan struct{})}
	id := c.next
	c.next += 2
	c.bodies[id] = b
	c.header.Reset()
	for _, field := range []hpack.HeaderField{
		{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"},
		{Name: ":authority", Value: c.tls.RemoteAddr().String()},
		{Name: ":path", Value: path + "?" + query.Encode()}, {Name: "accept", Value: accept},
	} {
		if err := c.encoder.WriteField(field); err != nil {
			return nil, err
		}
	}
	return b, errors.Join(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.header.Bytes(),
		EndStream: true, EndHeaders: true}), c.out.Flush())
}

// read reads frames until the connection ends.
func (c *connection) read() {
	defer close(c.ended)
	var err error
	unacked := 0 // bytes of all streams since the last update of the window
	for err == nil {
		var frame http2.Frame
		if frame, err = c.framer.ReadFrame(); err == nil {
			err = c.take(frame, &unacked)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = fmt.Errorf("the connection has ended: %w", err)
	for id := range c.bodies {
		c.endLocked(id, c.err)
	}
}

func (c *connection) take(frame http2.Frame, unacked *int) error {
	id := frame.Header().StreamID
	c.mu.Lock()
	b := c.bodies[id]
	c.mu.Unlock()
	switch f := frame.(type) {
	case *http2.DataFrame:
		if b == nil {
			return nil // of a stream that has ended
		}
		b.to.consume(f.Data())
		n := int(f.Header().Length)
		b.unacked += n
		*unacked += n
		return c.acknowledge(id, b, unacked, f.StreamEnded())
	case *http2.MetaHeadersFrame:
		if b == nil {
			return nil
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if status := f.PseudoValue("status"); status != "200" && status != "" {
			c.endLocked(id, fmt.Errorf("the response has status %s", status))
			return nil
		}
		open(b)
		if f.StreamEnded() {
			c.endLocked(id, nil)
		}
	case *http2.RSTStreamFrame:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.endLocked(id, fmt.Errorf("the server has reset the stream: %v", f.ErrCode))
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return c.write(func() error { return c.framer.WriteSettingsAck() })
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return c.write(func() error { return c.framer.WritePing(true, f.Data) })
		}
	case *http2.GoAwayFrame:
		return fmt.Errorf("the server has sent GOAWAY: %v", f.ErrCode)
	}
	return nil
}

// acknowledge opens the windows again, and ends the body if it is complete.
func (c *connection) acknowledge(id uint32, b *body, unacked *int, complete bool) error {
	if complete {
		c.mu.Lock()
		c.endLocked(id, nil)
		c.mu.Unlock()
	} else if b.unacked >= streamWindow/2 {
		n := uint32(b.unacked)
		b.unacked = 0
		if err := c.write(func() error { return c.framer.WriteWindowUpdate(id, n) }); err != nil {
			return err
		}
	}
	if *unacked < connectionWindow/16 {
		return nil
	}
	n := uint32(*unacked)
	*unacked = 0
	return c.write(func() error { return c.framer.WriteWindowUpdate(0, n) })
}

func (c *connection) write(frame func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(frame(), c.out.Flush())
}

func open(b *body) {
	select {
	case <-b.opened:
	default:
		close(b.opened)
	}
}

// endLocked ends a body; err is nil if it is complete.
func (c *connection) endLocked(id uint32, err error) {
	if b, ok := c.bodies[id]; ok {
		delete(c.bodies, id)
		b.err = err
		open(b)
		close(b.closed)
	}
}

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/typedinformer/informer/bench/internal/measure"
)

// The media types that clients accept.
const (
	acceptJSON             = "application/json"
	acceptProtobuf         = "application/vnd.kubernetes.protobuf"
	asMetadataList         = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	acceptJSONMetadata     = acceptJSON + asMetadataList
	acceptProtobufMetadata = acceptProtobuf + asMetadataList
)

// peer is a server in another process.
type peer struct {
	name    string
	control string
	stop    func()
	info    serverInfo
}

// startPeer starts a server process of that implementation.
func startPeer(name string, pods, nodes int) (*peer, error) {
	control, stop, err := measure.Serve("-as="+name, fmt.Sprint("-pods=", pods), fmt.Sprint("-nodes=", nodes))
	if err != nil {
		return nil, err
	}
	p := &peer{name: name, control: control, stop: stop}
	if err := p.ask("info", &p.info); err != nil {
		stop()
		return nil, err
	}
	return p, nil
}

// ask sends a request to the server's control.
func (p *peer) ask(path string, result any) error {
	response, err := http.Get("http://" + p.control + "/" + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s of %s: %s", path, p.name, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(result)
}

// refresh brings info up to date.
func (p *peer) refresh() error { return p.ask("info", &p.info) }

func (p *peer) usage(path string) (u usage, err error) { return u, p.ask(path, &u) }

// change applies n changes with a pause after each.
func (p *peer) change(n int, pause time.Duration) (c changed, err error) {
	return c, p.ask(fmt.Sprintf("change?n=%d&pause=%v", n, pause), &c)
}

// watches are open watches of one server.
type watches struct {
	tally       tally
	connections []*connection
	bodies      []*body
	frames      []*frames
}

// watchConfig says which watches to open.
type watchConfig struct {
	watchers      int
	perConnection int // watches on each connection
	accept        string
	query         func(watcher int) url.Values // of a watch
	initial       bool                         // expect a bookmark at the end of the initial events, from each watch
}

// openWatches opens watches. It returns when the response of each has begun or, if initial is set, when each has its
// initial events. Call close in every case.
func openWatches(p *peer, c watchConfig) (w *watches, err error) {
	w = &watches{}
	if c.initial {
		w.tally.expect(want{bookmarks: int64(c.watchers)})
	}
	for i := range c.watchers {
		if i%c.perConnection == 0 {
			conn, err := dial(p.info)
			if err != nil {
				return w, err
			}
			w.connections = append(w.connections, conn)
		}
		query := url.Values{"watch": {"1"}}
		for name, values := range c.query(i) {
			query[name] = values
		}
		f := &frames{tally: &w.tally, protobuf: c.accept != acceptJSON}
		b, err := w.connections[len(w.connections)-1].get("/api/v1/pods", query, c.accept, f)
		if err != nil {
			return w, err
		}
		w.bodies, w.frames = append(w.bodies, b), append(w.frames, f)
	}
	for _, b := range w.bodies {
		select {
		case <-b.opened:
		case <-time.After(time.Minute):
			return w, errors.New("a watch does not begin")
		}
	}
	if c.initial {
		if err := w.wait(); err != nil {
			return w, err
		}
	}
	return w, w.check()
}

// wait waits until the tally has what it expects.
func (w *watches) wait() error {
	timeout := time.After(2 * time.Minute)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-w.tally.reached:
			return w.check()
		case <-timeout:
			return &missedError{fmt.Sprintf("%d events and %d bookmarks have come, want %+v", w.tally.events.Load(),
				w.tally.bookmarks.Load(), w.tally.want)}
		case <-tick.C:
			if err := w.check(); err != nil {
				return err
			}
		}
	}
}

// missedError indicates that a server has not sent all events.
type missedError struct{ why string }

func (e *missedError) Error() string { return e.why }

// check returns a missedError if watches have ended.
func (w *watches) check() error {
	ended := 0
	var first error
	for _, b := range w.bodies {
		select {
		case <-b.closed:
			ended++
			first = cmp.Or(first, b.err)
		default:
		}
	}
	switch {
	case first != nil:
		return &missedError{fmt.Sprintf("%d of %d watches have ended: %v", ended, len(w.bodies), first)}
	case ended > 0:
		return &missedError{fmt.Sprintf("%d of %d watches have ended", ended, len(w.bodies))}
	}
	return nil
}

func (w *watches) close() {
	for _, c := range w.connections {
		c.close()
	}
}

// list requests a list, all its pages, on a connection. It returns the number of bytes.
func list(c *connection, path string, query url.Values, accept string) (int64, error) {
	total := int64(0)
	for {
		var page content
		b, err := c.get(path, query, accept, &page)
		if err != nil {
			return 0, err
		}
		<-b.closed
		if b.err != nil {
			return 0, b.err
		}
		total += page.bytes
		token, more := page.next()
		if !more {
			return total, nil
		}
		query.Set("continue", token)
	}
}

package main

import (
	"bytes"
	"io"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/typedinformer/informer/bench/internal/measure"
)

// TestMain lets the test run as the processes that it starts, as the program does.
func TestMain(m *testing.M) {
	if slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-as=") }) {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestCompare measures every row, with few watchers. Every watcher receives every event, or it would fail.
func TestCompare(t *testing.T) {
	var out bytes.Buffer
	if err := compare(quick, "", &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	for _, want := range []string{
		"| 30 watchers, JSON | one change at a time, CPU an event |",
		"| 30 watchers, protobuf | burst of 50, time of all |",
		"| 20 watchers of a node each | one change at a time, CPU a change |",
		"| list of pages of 500, JSON | time |",
		"| list of all, metadata, protobuf | CPU |",
		"| 30 idle watchers | memory of a watcher |",
		"| restart: 20 watchers list 50 pods each by watching | time |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table has no row %q", want)
		}
	}
}

// getter requests a path and returns the body or, if n is not 0, its beginning as soon as that has n bytes.
type getter func(path string, query url.Values, accept string, n int) []byte

// start starts a server with a client.
func start(t *testing.T, implementation string) (*server, getter) {
	t.Helper()
	s, _, err := startServer(serverConfig{implementation, 300, 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	c, err := dial(s.info)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return s, func(path string, query url.Values, accept string, n int) []byte {
		t.Helper()
		got := collector{n: n, full: make(chan struct{})}
		b, err := c.get(path, query, accept, &got)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-b.closed:
			if b.err != nil {
				t.Fatalf("%s: %v", query.Encode(), b.err)
			}
		case <-got.full:
		}
		got.mu.Lock()
		defer got.mu.Unlock()
		return got.bytes
	}
}

// collector keeps a body. It closes full when it has n bytes, if n is not 0.
type collector struct {
	n    int
	full chan struct{}

	mu    sync.Mutex // protects the field below
	bytes []byte
}

func (c *collector) consume(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n > 0 && len(c.bytes) >= c.n {
		return
	}
	if c.bytes = append(c.bytes, p...); c.n > 0 && len(c.bytes) >= c.n {
		close(c.full)
	}
}

// TestBothAnswerAlike compares the responses of both implementations byte by byte, so that the benchmark compares the
// same work.
func TestBothAnswerAlike(t *testing.T) {
	ours, getOurs := start(t, "watchcache")
	theirs, getTheirs := start(t, "cacher")
	before := ours.info.ResourceVersion
	for _, s := range []*server{ours, theirs} {
		if _, err := s.change(10, 0); err != nil {
			t.Fatal(err)
		}
	}
	same := func(path string, query url.Values, accept string, n int) {
		t.Helper()
		a, b := getOurs(path, query, accept, n), getTheirs(path, query, accept, n)
		if n = min(len(a), len(b)); len(a) < 1000 || !bytes.Equal(a[:n], b[:n]) {
			t.Errorf("%s?%s as %s: watchcache answers %d bytes, the Cacher %d", path, query.Encode(), accept, len(a), len(b))
		}
	}
	for _, accept := range []string{acceptJSON, acceptProtobuf, acceptJSONMetadata, acceptProtobufMetadata} {
		same(podsPath, url.Values{"resourceVersion": {ours.info.ResourceVersion}}, accept, 0)
		same("/api/v1/namespaces/"+ours.info.Namespace+"/pods", url.Values{}, accept, 0)
		same(podsPath, url.Values{"fieldSelector": {nodeName + "=" + ours.info.Nodes[0]}}, accept, 0)
		same(podsPath, url.Values{"labelSelector": {"team=" + ours.info.Team}}, accept, 0)
	}
	// Continue tokens are opaque, and those of the Cacher have a slash more.
	token := regexp.MustCompile(`"continue":"[^"]+"`)
	for _, accept := range []string{acceptJSON, acceptJSONMetadata} {
		a := getOurs(podsPath, url.Values{"limit": {"50"}}, accept, 0)
		b := getTheirs(podsPath, url.Values{"limit": {"50"}}, accept, 0)
		if !token.Match(a) || !bytes.Equal(token.ReplaceAll(a, nil), token.ReplaceAll(b, nil)) {
			t.Errorf("a page as %s: watchcache answers %d bytes, the Cacher %d", accept, len(a), len(b))
		}
	}
	for _, accept := range []string{acceptJSON, acceptProtobuf} {
		same(podsPath, url.Values{"watch": {"1"}, "resourceVersion": {before}}, accept, 10_000)
		same(podsPath, url.Values{"watch": {"1"}, "sendInitialEvents": {"true"}, "resourceVersionMatch": {"NotOlderThan"},
			"allowWatchBookmarks": {"true"}}, accept, 300_000)
	}
}

// TestFrames counts frames that come in pieces of every size.
func TestFrames(t *testing.T) {
	event := func(kind string) []byte { return []byte(`{"type":"` + kind + `","object":{"kind":"Pod"}}` + "\n") }
	framed := func(kind string) []byte {
		message := append([]byte{1<<3 | 2, byte(len(kind))}, kind...)
		message = append(message, bytes.Repeat([]byte{'x'}, 30)...)
		return append([]byte{0, 0, 0, byte(len(message))}, message...)
	}
	for name, frame := range map[string]func(string) []byte{"JSON": event, "protobuf": framed} {
		var all []byte
		for _, kind := range []string{"ADDED", "BOOKMARK", "MODIFIED", "DELETED"} {
			all = append(all, frame(kind)...)
		}
		for piece := 1; piece <= len(all); piece++ {
			tally := &tally{}
			tally.expect(want{changes: 3, watches: 1})
			f := &frames{tally: tally, protobuf: name == "protobuf"}
			began := measure.Now()
			for part := range slices.Chunk(all, piece) {
				f.consume(part)
			}
			if tally.events.Load() != 3 || tally.bookmarks.Load() != 1 || tally.bytes.Load() != int64(len(all)) || f.err != nil {
				t.Fatalf("%s in pieces of %d: %d events, %d bookmarks, error %v", name, piece, tally.events.Load(),
					tally.bookmarks.Load(), f.err)
			}
			select {
			case <-tally.reached:
			default:
				t.Fatalf("%s in pieces of %d: not all has come", name, piece)
			}
			if tally.times[2] < began {
				t.Errorf("%s in pieces of %d: the time of the last change is missing", name, piece)
			}
		}
		tally := &tally{}
		tally.expect(want{})
		f := &frames{tally: tally, protobuf: name == "protobuf"}
		if f.consume(frame("ERROR")); f.err == nil {
			t.Errorf("%s: an ERROR event goes unnoticed", name)
		}
	}
}

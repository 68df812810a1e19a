package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync/atomic"

	"github.com/typedinformer/informer/bench/internal/measure"
)

// tally counts what several watches receive.
type tally struct {
	events    atomic.Int64 // without bookmarks
	bookmarks atomic.Int64
	bytes     atomic.Int64
	want
	times   []int64       // when each change had reached its last watch, by measure.Now
	reached chan struct{} // closed when everything wanted has come
}

// want is what a tally counts up to: that many changes for that many watches each, or bookmarks.
type want struct{ changes, watches, bookmarks int64 }

// expect begins to count anew. Nothing may be under way.
func (t *tally) expect(w want) {
	t.events.Store(0)
	t.bookmarks.Store(0)
	t.bytes.Store(0)
	t.want, t.times, t.reached = w, make([]int64, w.changes), make(chan struct{})
}

func (t *tally) add(events, bookmarks, bytes int64) {
	t.bytes.Add(bytes)
	if events > 0 && t.changes > 0 {
		now, after := measure.Now(), t.events.Add(events)
		for k := (after-events)/t.watches + 1; k <= after/t.watches && k <= t.changes; k++ {
			t.times[k-1] = now // nobody else has this k
			if k == t.changes {
				close(t.reached)
			}
		}
	} else {
		t.events.Add(events)
	}
	if bookmarks > 0 && t.bookmarks.Add(bookmarks) == t.want.bookmarks {
		close(t.reached)
	}
}

// frames counts the frames of one watch.
type frames struct {
	tally    *tally
	protobuf bool
	seen     int64  // events
	head     []byte // the beginning of the present frame
	left     int    // bytes of the present frame that are still to come; protobuf only
	err      error  // set after an ERROR event
}

const (
	lengthSize = 4  // a frame of protobuf begins with its length
	headSize   = 20 // the beginning of a frame that has the type of the event
)

func (f *frames) consume(p []byte) {
	before, size, bookmarks := f.seen, len(p), int64(0)
	for len(p) > 0 {
		var ended bool
		if p, ended = f.skip(p); !ended {
			break
		}
		switch f.kind() {
		case 'B':
			bookmarks++
		case 'E':
			f.err = errors.New("the watch has an ERROR event")
		default:
			f.seen++
		}
		f.head = f.head[:0]
	}
	f.tally.add(f.seen-before, bookmarks, int64(size))
}

// skip skips the present frame and keeps its beginning. It reports whether the frame has ended.
func (f *frames) skip(p []byte) (rest []byte, ended bool) {
	if !f.protobuf {
		n := bytes.IndexByte(p, '\n') + 1
		if n == 0 {
			f.keep(p)
			return nil, false
		}
		f.keep(p[:n])
		return p[n:], true
	}
	if f.left == 0 {
		n := min(lengthSize-len(f.head), len(p))
		f.keep(p[:n])
		if p = p[n:]; len(f.head) < lengthSize {
			return nil, false
		}
		f.left = int(binary.BigEndian.Uint32(f.head))
	}
	n := min(f.left, len(p))
	f.keep(p[:n])
	f.left -= n
	return p[n:], f.left == 0
}

func (f *frames) keep(p []byte) { f.head = append(f.head, p[:min(len(p), headSize-len(f.head))]...) }

// kind returns the first letter of the type of the event.
func (f *frames) kind() byte {
	index := len(`{"type":"`)
	if f.protobuf {
		index = lengthSize + 2 // the tag and the length of the type
	}
	if len(f.head) <= index {
		return 0
	}
	return f.head[index]
}

// content counts the bytes of a list and keeps the beginning, which has the continue token.
type content struct {
	bytes int64
	head  []byte
}

func (c *content) consume(p []byte) {
	c.bytes += int64(len(p))
	c.head = append(c.head, p[:min(len(p), 2048-len(c.head))]...)
}

// tokenStart begins each continue token of kube-apiserver: {"v":" in base64.
var tokenStart = []byte("eyJ2Ijoi")

// next returns the continue token, if there is one.
func (c *content) next() (token string, ok bool) {
	i := bytes.Index(c.head, tokenStart)
	if i < 0 {
		return "", false
	}
	end := bytes.IndexFunc(c.head[i:], func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
	if end < 0 {
		return "", false
	}
	return string(c.head[i : i+end]), true
}

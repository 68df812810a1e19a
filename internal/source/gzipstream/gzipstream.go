// Package gzipstream compresses and decompresses the streams of watches in gzip. Each flush of the server ends a member
// (RFC 1952, section 2.2), so that a client can read each event when it arrives.
package gzipstream

import (
	"bufio"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync"
)

// reader is a body in gzip. It returns what a member has when that arrives, without waiting for the next member, as
// gzip.Reader does.
type reader struct {
	io.Closer
	in     *bufio.Reader
	member *gzip.Reader // nil before the first one
	within bool         // member has not ended
}

// NewReader returns the content of body, which is in gzip. It reads from body when the content is read.
func NewReader(body io.ReadCloser) io.ReadCloser {
	return &reader{Closer: body, in: bufio.NewReader(body)}
}

// Read implements io.Reader.
func (r *reader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		if !r.within {
			if err := r.next(); err != nil {
				return 0, err
			}
		}
		n, err := r.member.Read(b)
		if err == io.EOF {
			r.within, err = false, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// next begins the next member. It returns io.EOF if there is none.
func (r *reader) next() (err error) {
	if r.member == nil {
		r.member, err = gzip.NewReader(r.in)
	} else {
		err = r.member.Reset(r.in)
	}
	if err != nil {
		return err
	}
	r.member.Multistream(false)
	r.within = true
	return nil
}

// Wrap returns a writer for the response to r, and a function to call at the end. If r is a streaming list and accepts
// gzip, a successful response is compressed at the lowest level, for the life of the stream, like that of
// kube-apiserver 1.37 with the feature gate WatchListCompression. Otherwise, the writer is w.
func Wrap(w http.ResponseWriter, r *http.Request) (_ http.ResponseWriter, end func()) {
	if !streams(r) || !accepted(r.Header.Get("Accept-Encoding")) {
		return w, func() {}
	}
	z := &writer{ResponseWriter: w}
	return z, func() { _ = z.close() }
}

// streams reports whether r is a streaming list. As in kube-apiserver, a watch with bookmarks and without a resource
// version is one, unless it says otherwise.
func streams(r *http.Request) bool {
	query := r.URL.Query()
	enabled := func(name string) bool {
		value := strings.ToLower(query.Get(name))
		return query.Has(name) && value != "false" && value != "0"
	}
	version := query.Get("resourceVersion")
	initial := enabled("sendInitialEvents") || !query.Has("sendInitialEvents") && !query.Has("resourceVersionMatch") &&
		(version == "" || version == "0")
	return r.Method == http.MethodGet && enabled("watch") && initial && enabled("allowWatchBookmarks")
}

// accepted reports whether a client that accepts these encodings gets gzip from kube-apiserver, which ignores weights.
func accepted(encodings string) bool {
	for encoding := range strings.SplitSeq(encodings, ",") {
		if strings.TrimSpace(encoding) == "gzip" {
			return true
		}
	}
	return false
}

// writers are free gzip.Writers. An idle watch holds none.
var writers = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	return z
}}

// writer is a response that is compressed if its status is 200.
type writer struct {
	http.ResponseWriter
	compressed bool         // the header says so
	member     *gzip.Writer // the member since the last flush; nil if it is empty
}

// Unwrap returns the underlying http.ResponseWriter, for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) WriteHeader(code int) {
	if code == http.StatusOK {
		w.compressed = true
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Add("Vary", "Accept-Encoding")
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *writer) Write(b []byte) (int, error) {
	if !w.compressed {
		return w.ResponseWriter.Write(b)
	}
	if w.member == nil {
		w.member = writers.Get().(*gzip.Writer)
		w.member.Reset(w.ResponseWriter)
	}
	return w.member.Write(b)
}

// FlushError ends the member, and flushes, like http.ResponseController.Flush.
func (w *writer) FlushError() error {
	if w.member != nil {
		if err := w.member.Flush(); err != nil {
			return err
		}
	}
	if err := w.close(); err != nil {
		return err
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush is FlushError for code that asks for an http.Flusher.
func (w *writer) Flush() { _ = w.FlushError() }

// close ends the member, if there is one.
func (w *writer) close() error {
	if w.member == nil {
		return nil
	}
	err := w.member.Close()
	w.member.Reset(nil)
	writers.Put(w.member)
	w.member = nil
	return err
}

package gzipstream

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/iotest"
)

// zipped returns each text as a member.
func zipped(texts ...string) []byte {
	var b bytes.Buffer
	for _, text := range texts {
		z := gzip.NewWriter(&b)
		z.Write([]byte(text))
		z.Close()
	}
	return b.Bytes()
}

// serve returns the response of handler to a request for path by a client that accepts these encodings.
func serve(t *testing.T, path, accept string, handler http.HandlerFunc) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if accept != "" {
		r.Header.Set("Accept-Encoding", accept)
	}
	out := httptest.NewRecorder()
	w, end := Wrap(out, r)
	handler(w, r)
	end()
	return out.Result()
}

const streamingList = "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

// A client reads an event when its member has arrived, although the next member has not. It does so for any size of a read.
// Guarantees: R27
func TestMembersAreReadAsTheyArrive(t *testing.T) {
	for _, whole := range []bool{true, false} {
		in, out := io.Pipe()
		r := NewReader(in)
		b := make([]byte, 100)
		for _, text := range []string{"first", "second"} {
			go out.Write(zipped(text, ""))
			for got := ""; got != text; {
				size := 2
				if whole {
					size = len(b)
				}
				n, err := r.Read(b[:size])
				if err != nil {
					t.Fatal(err)
				}
				got += string(b[:n])
			}
		}
		go out.Close()
		if n, err := r.Read(b); n != 0 || err != io.EOF {
			t.Errorf("after the last member: %d bytes, %v", n, err)
		}
		r.Close()
		if _, err := out.Write(nil); err != io.ErrClosedPipe {
			t.Errorf("Close does not close the body: %v", err)
		}
	}
}

// An event that is flushed within a member is read when it arrives, too.
// Guarantees: R27
func TestFlushWithinAMember(t *testing.T) {
	in, out := io.Pipe()
	r, z := NewReader(in), gzip.NewWriter(out)
	for _, text := range []string{"first", "second"} {
		flushed := make(chan error, 1)
		go func() {
			z.Write([]byte(text))
			flushed <- z.Flush()
		}()
		b := make([]byte, len(text))
		if _, err := io.ReadFull(r, b); err != nil || string(b) != text {
			t.Fatalf("%q, %v", b, err)
		}
		if err := <-flushed; err != nil {
			t.Fatal(err)
		}
	}
}

// The content is what gzip.Reader returns, and damage is the same error, however the bytes arrive.
// Guarantees: R27
func FuzzReader(f *testing.F) {
	f.Add(zipped("a", "", "bc"))
	f.Add(zipped())
	f.Add(zipped("abc")[:12])
	f.Add(append(zipped("abc"), "garbage"...))
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		const limit = 1 << 20
		var want []byte
		z, wantErr := gzip.NewReader(bytes.NewReader(raw))
		if wantErr == nil {
			want, wantErr = io.ReadAll(io.LimitReader(z, limit))
		} else if wantErr == io.EOF {
			wantErr = nil
		}
		for name, body := range map[string]io.Reader{"whole": bytes.NewReader(raw), "by byte": iotest.OneByteReader(bytes.NewReader(raw))} {
			got, err := io.ReadAll(io.LimitReader(NewReader(io.NopCloser(body)), limit))
			if !bytes.Equal(got, want) || !errors.Is(err, wantErr) {
				t.Errorf("%s: %d bytes, %v; gzip.Reader: %d bytes, %v", name, len(got), err, len(want), wantErr)
			}
		}
	})
}

// A streaming list is compressed for a client that accepts gzip: one member for each flush, and the level and headers of kube-apiserver.
// Other watches, lists, errors, and clients that do not accept gzip get the content as it is.
// Guarantees: R27, W10
func TestStreamingListsAreCompressed(t *testing.T) {
	handler := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(code)
			c := http.NewResponseController(w)
			for _, event := range []string{"", "one", "two", "", "three"} {
				w.Write([]byte(event)[:len(event)/2])
				w.Write([]byte(event)[len(event)/2:])
				if err := c.Flush(); err != nil {
					t.Error(err)
				}
			}
			w.Write([]byte("rest"))
		}
	}
	for name, c := range map[string]struct {
		path, accept string
		code         int
		compressed   bool
	}{
		"streaming list":              {streamingList, "gzip", 200, true},
		"with another encoding":       {streamingList, "br , gzip", 200, true},
		"without a resource version":  {"/api/v1/pods?watch=1&allowWatchBookmarks=1", "gzip", 200, true},
		"resource version 0":          {"/api/v1/pods?watch=true&allowWatchBookmarks=1&resourceVersion=0", "gzip", 200, true},
		"error":                       {streamingList, "gzip", 500, false},
		"identity":                    {streamingList, "identity", 200, false},
		"nothing accepted":            {streamingList, "", 200, false},
		"without bookmarks":           {"/api/v1/pods?watch=1&sendInitialEvents=true", "gzip", 200, false},
		"watch from a version":        {"/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion=5", "gzip", 200, false},
		"watch without initial state": {"/api/v1/pods?watch=1&allowWatchBookmarks=true&sendInitialEvents=false", "gzip", 200, false},
		"list":                        {"/api/v1/pods", "gzip", 200, false},
	} {
		resp := serve(t, c.path, c.accept, handler(c.code))
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if !c.compressed {
			if resp.Header.Get("Content-Encoding") != "" || string(body) != "onetwothreerest" {
				t.Errorf("%s: %v, %q", name, resp.Header, body)
			}
			continue
		}
		if resp.Header.Get("Content-Encoding") != "gzip" || resp.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %v", name, resp.Header)
		}
		var members []string
		in := bytes.NewReader(body)
		for in.Len() > 0 {
			z, err := gzip.NewReader(in)
			if err != nil {
				t.Fatal(err)
			}
			z.Multistream(false)
			member, err := io.ReadAll(z)
			if err != nil {
				t.Fatal(err)
			}
			members = append(members, string(member))
		}
		if want := []string{"", "one", "two", "", "three", "rest"}; !slices.Equal(members, want) {
			t.Errorf("%s: members %q, want %q", name, members, want)
		}
	}
}

package client

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

// hostile is a response that no server should send.
type hostile struct {
	verb        string // of the request: list, stream or watch
	contentType string // empty means JSON; "-" none
	header      string // an extra header, "Key: value"
	code        int    // zero means 200
	send        func(w io.Writer, r *http.Request)
	want        string        // part of the error's text
	wrapped     error         // an error that it wraps
	skips       bool          // the client skips an object over the size limit, up to the end
	within      time.Duration // how soon the informer must recover; zero means a minute
}

// Lengths in protobuf, as varints: the first lacks a byte.
const (
	fourGiB = "\xff\xff\xff\xff\x0f"
	noEnd   = "\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
)

// endless is the number of bytes sent in place of an endless body: more than the client may read, but few enough that a
// test without the limit ends.
const endless = 128 << 20

// sends returns a function that writes text once, and then again repeatedly.
func sends(text string, again ...string) func(io.Writer, *http.Request) {
	return func(w io.Writer, _ *http.Request) {
		_, err := io.WriteString(w, text)
		if len(again) == 0 {
			return
		}
		chunk := []byte(strings.Repeat(again[0], 64<<10/len(again[0])+1))
		for sent := 0; err == nil && sent < endless; sent += len(chunk) {
			_, err = w.Write(chunk)
		}
	}
}

// drips returns a function that writes text once, and then again after each interval until the request ends.
func drips(interval time.Duration, text, again string) func(io.Writer, *http.Request) {
	return func(w io.Writer, r *http.Request) {
		_, err := io.WriteString(w, text)
		for err == nil && r.Context().Err() == nil {
			w.(http.Flusher).Flush()
			<-time.After(interval)
			_, err = io.WriteString(w, again)
		}
	}
}

// compressed returns a function that writes the output of send with gzip.
func compressed(send func(io.Writer, *http.Request)) func(io.Writer, *http.Request) {
	return func(w io.Writer, r *http.Request) {
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		defer z.Close()
		send(z, r)
	}
}

var hostiles = map[string]hostile{
	// Endless bodies.
	"list/white space":             {verb: "list", send: sends("{", " "), wrapped: informer.ErrTooLarge},
	"list/white space behind":      {verb: "list", send: sends(world.ListHead+"]}", "\n"), wrapped: informer.ErrTooLarge},
	"list/white space among items": {verb: "list", send: sends(world.ListHead, "\t"), wrapped: informer.ErrTooLarge},
	"list/metadata":                {verb: "list", send: sends(`{"kind":"PodList","metadata":{"continue":"`, "x"), wrapped: informer.ErrTooLarge},
	"list/members":                 {verb: "list", send: sends(`{"kind":"PodList"`, `,"a":1`), wrapped: informer.ErrTooLarge},
	"list/large members":           {verb: "list", send: sends(`{"kind":"PodList"`, `,"a":"`+strings.Repeat("x", 99_000)+`"`), wrapped: informer.ErrTooLarge},
	"list/number":                  {verb: "list", send: sends(`{"kind":`, "1"), wrapped: informer.ErrTooLarge},
	"list/item's string":           {verb: "list", send: sends(world.ListHead+world.PodHead+`"x":"`, "x"), wrapped: io.ErrUnexpectedEOF, skips: true},
	"list/item's escapes":          {verb: "list", send: sends(world.ListHead+world.PodHead+`"x":"`, `\"`), wrapped: io.ErrUnexpectedEOF, skips: true},
	"list/item's nesting":          {verb: "list", send: sends(world.ListHead+world.PodHead+`"x":`, `[{"":`), wrapped: io.ErrUnexpectedEOF, skips: true},
	"stream/frame":                 {verb: "stream", send: sends(strings.Replace(world.FrameHead, "MODIFIED", "ADDED", 1)+`"x":"`, "x"), wrapped: io.ErrUnexpectedEOF, skips: true},
	"watch/frame":                  {verb: "watch", send: sends(world.FrameHead+`"x":"`, "x"), wrapped: io.ErrUnexpectedEOF, skips: true},
	"watch/white space":            {verb: "watch", send: sends("", " "), wrapped: informer.ErrTooLarge},
	"watch/type":                   {verb: "watch", send: sends(`{"type":"`, "MODIFIED"), wrapped: informer.ErrTooLarge},
	"list/500":                     {verb: "list", code: 500, send: sends(`{"kind":"Status","status":"Failure","message":"`, "x"), want: "an error on the server"},
	"list/500 as text":             {verb: "list", code: 500, contentType: "text/plain", send: sends("", "no use "), want: "no use no use"},
	"watch/500":                    {verb: "watch", code: 500, send: sends("", "x"), want: "an error on the server"},
	"list/protobuf items' metadata": {verb: "list", contentType: world.ProtobufType, wrapped: informer.ErrTooLarge,
		send: sends(world.ProtoHead+noEnd, "\x0a\x04\x12\x0277")},
	"list/protobuf unknown fields": {verb: "list", contentType: world.ProtobufType, wrapped: informer.ErrTooLarge, send: sends(world.ProtoHead+noEnd, "\x18\x01")},
	"list/protobuf envelope":       {verb: "list", contentType: world.ProtobufType, wrapped: informer.ErrTooLarge, send: sends("k8s\x00", "\x1a\x01x")},
	"list/protobuf long field":     {verb: "list", contentType: world.ProtobufType, wrapped: informer.ErrTooLarge, send: sends("k8s\x00\x1a"+noEnd, "x")},
	"list/protobuf fixed fields":   {verb: "list", contentType: world.ProtobufType, wrapped: informer.ErrTooLarge, send: sends(world.ProtoHead+noEnd, "\x1912345678\x1d1234")},

	// False lengths.
	"list/protobuf item of 4 GiB":      {verb: "list", contentType: world.ProtobufType, wrapped: informer.ErrTooLarge, send: sends(world.ProtoHead + noEnd + "\x12" + fourGiB)},
	"list/protobuf metadata of 4 GiB":  {verb: "list", contentType: world.ProtobufType, wrapped: informer.ErrTooLarge, send: sends(world.ProtoHead + noEnd + "\x0a" + fourGiB)},
	"list/protobuf kind of 4 GiB":      {verb: "list", contentType: world.ProtobufType, wrapped: informer.ErrTooLarge, send: sends("k8s\x00\x0a" + fourGiB)},
	"list/protobuf item of 31 MiB":     {verb: "list", contentType: world.ProtobufType, wrapped: io.ErrUnexpectedEOF, send: sends(world.ProtoHead + noEnd + "\x12\x80\x80\xc0\x0f")},
	"list/protobuf item beyond list":   {verb: "list", contentType: world.ProtobufType, want: "longer than its message", send: sends(world.ProtoHead + "\x04\x12\x7f12")},
	"list/protobuf list beyond body":   {verb: "list", contentType: world.ProtobufType, wrapped: io.ErrUnexpectedEOF, send: sends(world.ProtoHead + "\x7f\x0a\x04\x12\x0277")},
	"list/protobuf varint too long":    {verb: "list", contentType: world.ProtobufType, want: "malformed protobuf", send: sends("k8s\x00", "\xff")},
	"list/protobuf varint too large":   {verb: "list", contentType: world.ProtobufType, want: "malformed protobuf", send: sends("k8s\x00\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02")},
	"list/protobuf field zero":         {verb: "list", contentType: world.ProtobufType, want: "malformed protobuf", send: sends(world.ProtoHead + "\x06\x02\x04\x12\x0277")},
	"list/protobuf group":              {verb: "list", contentType: world.ProtobufType, want: "malformed protobuf", send: sends(world.ProtoHead+noEnd, "\x1b")},
	"list/protobuf two lists":          {verb: "list", contentType: world.ProtobufType, want: "two lists", send: sends(world.ProtoHead + "\x00\x12\x00")},
	"list/protobuf without list":       {verb: "list", contentType: world.ProtobufType, wrapped: io.ErrUnexpectedEOF, send: sends(strings.TrimSuffix(world.ProtoHead, "\x12"))},
	"watch/protobuf frame of 4 GiB":    {verb: "watch", contentType: world.ProtobufType, wrapped: informer.ErrTooLarge, send: sends("\xff\xff\xff\xff")},
	"watch/protobuf frame of 31 MiB":   {verb: "watch", contentType: world.ProtobufType, wrapped: io.ErrUnexpectedEOF, send: sends("\x01\xf0\x00\x00\x0a")},
	"watch/protobuf frame over 32 MiB": {verb: "watch", contentType: world.ProtobufType, want: "frame of 33554433 bytes", send: sends("\x02\x00\x00\x01", "x")},
	"watch/protobuf frame too short":   {verb: "watch", contentType: world.ProtobufType, want: "malformed protobuf", send: sends("\x00\x00\x00\x05\x0a\x05ADDED")},
	"watch/protobuf empty frame":       {verb: "watch", contentType: world.ProtobufType, want: "without type or object", send: sends("\x00\x00\x00\x00")},
	"watch/protobuf no object":         {verb: "watch", contentType: world.ProtobufType, want: "without type or object", send: sends("\x00\x00\x00\x07\x0a\x05ADDED")},
	"watch/protobuf no envelope":       {verb: "watch", contentType: world.ProtobufType, want: "malformed protobuf", send: sends("\x00\x00\x00\x0f\x0a\x05ADDED\x12\x06\x0a\x04mumb")},

	// Unexpected content.
	"list/html":               {verb: "list", contentType: "text/html; charset=utf-8", want: `content type "text/html; charset=utf-8"`, send: sends("<html>")},
	"list/yaml":               {verb: "list", contentType: "application/yaml", want: `content type "application/yaml"`, send: sends("kind: PodList")},
	"list/no content type":    {verb: "list", contentType: "-", want: `content type ""`, send: sends(world.ListHead + "]}")},
	"list/odd content type":   {verb: "list", contentType: "application/json; a=b; a=c", want: "content type", send: sends(world.ListHead + "]}")},
	"list/protobuf as JSON":   {verb: "list", want: `JSON: 'k' where '{'`, send: sends(world.ProtoHead + "\x00")},
	"list/JSON as protobuf":   {verb: "list", contentType: world.ProtobufType, want: `it begins with "{\"ki" instead of "k8s\x00"`, send: sends(world.ListHead + "]}")},
	"list/Table":              {verb: "list", want: "a Table instead of a list", send: sends(`{"kind":"Table","rows":[]}`)},
	"list/Status":             {verb: "list", want: "a Status instead of a list", send: sends(`{"kind":"Status","code":200}`)},
	"list/long kind":          {verb: "list", want: "a PodPodPod", send: sends(`{"kind":"` + strings.Repeat("Pod", 99_999) + `"}`)},
	"list/object":             {verb: "list", want: "without items", send: sends(`{"kind":"PodList"}`)},
	"list/items not an array": {verb: "list", want: "without items", send: sends(`{"kind":"PodList","items":{}}`)},
	"list/array":              {verb: "list", want: `JSON: '['`, send: sends(`[]`)},
	"list/empty":              {verb: "list", wrapped: io.ErrUnexpectedEOF, send: sends("")},
	"list/two lists":          {verb: "list", want: "two lists", send: sends(world.ListHead + `],"items":[]}`)},
	"list/more behind":        {verb: "list", want: "where the end is expected", send: sends(world.ListHead + `]}{}`)},
	"list/metadata of a kind": {verb: "list", want: "metadata", send: sends(`{"kind":"PodList","metadata":[],"items":[]}`)},
	"list/deep metadata":      {verb: "list", want: "exceeded max depth", send: sends(`{"kind":"PodList","metadata":` + strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000) + "}")},
	"watch/html":              {verb: "watch", contentType: "text/html", want: `content type "text/html"`, send: sends("<html>")},
	"watch/protobuf as JSON":  {verb: "watch", want: `JSON: '\x00' where '{'`, send: sends("\x00\x00\x00\x05\x0a\x05ADDED")},
	"watch/JSON as protobuf":  {verb: "watch", contentType: world.ProtobufType, want: "frame of 2065855609 bytes", send: sends(world.FrameHead)},
	"watch/list":              {verb: "watch", want: "cannot watch the collection", send: sends(world.ListHead + "]}")},
	"watch/long type":         {verb: "watch", want: `type "MODIFIEDMODIFIED`, send: sends(`{"type":"` + strings.Repeat("MODIFIED", 99_999) + `","object":{}}`)},
	"watch/deep Status":       {verb: "watch", want: "exceeded max depth", send: sends(`{"type":"ERROR","object":{"kind":"Status","x":` + strings.Repeat(`[`, 20_000) + strings.Repeat("]", 20_000) + "}}")},
	"watch/long Status":       {verb: "watch", want: "xxx ...", send: sends(`{"type":"ERROR","object":{"kind":"Status","status":"Failure","message":"` + strings.Repeat("x", 60_000) + `"}}`)},
	"watch/huge Status":       {verb: "watch", wrapped: informer.ErrTooLarge, send: sends(`{"type":"ERROR","object":{"kind":"Status","status":"Failure","details":{"causes":[` + strings.Repeat("{},", 1_000_000) + `{}]}}}`)},
	"list/deep error":         {verb: "list", code: 500, want: "an error on the server", send: sends(`{"kind":"Status","status":"Failure","x":`, "[")},
	"list/401":                {verb: "list", code: 401, contentType: "text/html", want: "provide credentials", send: sends("<html>")},

	// Encodings.
	"list/gzip bomb":        {verb: "list", header: "Content-Encoding: gzip", wrapped: io.ErrUnexpectedEOF, skips: true, send: compressed(sends(world.ListHead+world.PodHead+`"x":"`, "x"))},
	"list/gzip white space": {verb: "list", header: "Content-Encoding: gzip", wrapped: informer.ErrTooLarge, send: compressed(sends("", " "))},
	"watch/gzip bomb":       {verb: "watch", header: "Content-Encoding: gzip", wrapped: io.ErrUnexpectedEOF, skips: true, send: compressed(sends(world.FrameHead+`"x":"`, "x"))},
	"list/gzip error bomb":  {verb: "list", code: 500, header: "Content-Encoding: gzip", want: "an error on the server", send: compressed(sends("", " "))},
	"list/gzip that is not": {verb: "list", header: "Content-Encoding: gzip", wrapped: gzip.ErrHeader, send: sends(world.ListHead + "]}")},
	"list/gzip cut":         {verb: "list", header: "Content-Encoding: gzip", wrapped: io.ErrUnexpectedEOF, send: sends("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff")},
	"list/brotli":           {verb: "list", header: "Content-Encoding: br", want: `content encoding "br", which was not requested`, send: sends("?")},

	// Slow responses.
	"list/no headers": {verb: "list", wrapped: informer.ErrNoProgress, within: 2 * time.Minute, send: func(_ io.Writer, r *http.Request) { <-r.Context().Done() }},
	"list/silence":    {verb: "list", wrapped: informer.ErrNoProgress, within: 2 * time.Minute, send: drips(time.Hour, world.ListHead, "")},
	"list/drip":       {verb: "list", wrapped: informer.ErrNoProgress, within: 2 * time.Minute, send: drips(5*time.Second, world.ListHead, " ")},
	"list/drip of items": {verb: "list", wrapped: informer.ErrNoProgress, within: 2 * time.Minute,
		send: drips(5*time.Second, world.ListHead+world.PodHead+`"a":1}`, `,`+world.PodHead+`"a":1}`)},
	"list/drip behind": {verb: "list", wrapped: informer.ErrNoProgress, within: 2 * time.Minute, send: drips(5*time.Second, world.ListHead+"]}", "\n")},
	"list/500 drip":    {verb: "list", code: 500, want: "an error on the server", send: drips(5*time.Second, "", " ")},
	"watch/500 drip":   {verb: "watch", code: 500, want: "an error on the server", send: drips(5*time.Second, "", " ")},
	"stream/drip":      {verb: "stream", wrapped: informer.ErrNoProgress, send: drips(5*time.Second, "", " ")},
	"watch/no headers": {verb: "watch", wrapped: informer.ErrNoProgress, within: 12 * time.Minute, send: func(_ io.Writer, r *http.Request) { <-r.Context().Done() }},
	"watch/drip":       {verb: "watch", wrapped: informer.ErrNoProgress, within: 12 * time.Minute, send: drips(5*time.Second, world.FrameHead+`"x":"`, "x")},

	// Redirects to other servers.
	"list/another host":   {verb: "list", code: 302, header: "Location: http://elsewhere/api/v1/pods", want: "redirects to another one, http://elsewhere", send: sends("")},
	"list/another scheme": {verb: "list", code: 307, header: "Location: https://in-memory/api/v1/pods", want: "redirects to another one, https://in-memory", send: sends("")},
	"watch/another host":  {verb: "watch", code: 302, header: "Location: //elsewhere:1/", want: "redirects to another one, http://elsewhere:1", send: sends("")},
}

// A bad response becomes an error. It takes bounded time and memory, whatever else the server would send, and the informer
// recovers when the server does.
// Guarantees: R22
func TestHostileServer(t *testing.T) {
	for name, h := range hostiles {
		t.Run(name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				inf, _ := w.PodInformer(informer.Config[*corev1.Pod]{PagedList: h.verb == "list"})
				ctx, cancel := context.WithTimeout(w.Context(), time.Hour) // more than any case takes
				defer cancel()
				w.Create(world.NewPod("ns", "a", "v=1"))
				if h.verb == "watch" {
					defer world.Start(w.T, inf)()
					synctest.Wait()
				}
				var once atomic.Bool
				var taken atomic.Int64
				w.Answer(func(w http.ResponseWriter, r *http.Request) bool {
					if world.AsksToWatch(r) != (h.verb != "list") || world.AsksToStream(r) != (h.verb == "stream") || once.Swap(true) {
						return false
					}
					h.answer(counting{w, &taken}, r)
					return true
				})
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				began := time.Now()
				if h.verb == "watch" {
					w.Server.EndWatches()
					synctest.Wait()
				} else {
					ended := make(chan error, 1)
					go func() { ended <- inf.Run(ctx) }()
					defer func() { cancel(); <-ended }()
				}
				if err := inf.WaitSynced(ctx); err != nil {
					w.Fatal(err)
				}
				w.Relabel("ns", "a", "2")
				w.Create(world.NewPod("ns", "b", "v=1"))
				if err := inf.WaitForResourceVersion(ctx, w.Server.ResourceVersion()); err != nil {
					w.Fatal(err)
				}
				world.EqualsServer(w, inf)
				world.AuditAgrees(w, inf)
				within := h.within
				if within == 0 {
					within = time.Minute
				}
				if took := time.Since(began); took > within {
					w.Errorf("recovered after %v", took)
				}
				runtime.ReadMemStats(&after)
				if taken := taken.Load(); taken > 34<<20 && !h.skips {
					w.Errorf("read %d MiB", taken>>20)
				}
				if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 256<<20 { // growing a buffer to 32 MiB allocates 64 MiB
					w.Errorf("allocated %d MiB", allocated>>20)
				}
				if !once.Load() {
					w.Error("the bad response was not sent")
				}
				err := inf.Status().Reflectors[0].LastError
				if err == nil || h.wrapped != nil && !errors.Is(err, h.wrapped) || !strings.Contains(err.Error(), h.want) {
					w.Errorf("got error %.1000v, want %q, %v", err, h.want, h.wrapped)
				}
				if err != nil && len(err.Error()) > 10_000 {
					w.Errorf("the error has %d bytes", len(err.Error()))
				}
			})
		})
	}
}

// counting counts the bytes that the client reads of a response; net.Pipe buffers nothing.
type counting struct {
	http.ResponseWriter
	taken *atomic.Int64
}

func (c counting) Flush() { c.ResponseWriter.(http.Flusher).Flush() }

func (c counting) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.taken.Add(int64(n))
	return n, err
}

func (h hostile) answer(w http.ResponseWriter, r *http.Request) {
	switch h.contentType {
	case "":
		w.Header().Set("Content-Type", "application/json")
	case "-":
		w.Header()["Content-Type"] = nil
	default:
		w.Header().Set("Content-Type", h.contentType)
	}
	if key, value, ok := strings.Cut(h.header, ": "); ok {
		w.Header().Set(key, value)
	}
	if h.code != 0 {
		w.WriteHeader(h.code)
	}
	h.send(w, r)
}

// nests returns objects with value in different places, nested too deep.
func nests(value string) map[string]string {
	return map[string]string{
		"unknown field": `{"x":` + value + `,` + world.PodHead[1:] + `"y":1}`,
		"known field":   world.PodHead + `"spec":` + value + `}`,
		"metadata":      `{"metadata":{"annotations":` + value + `,` + world.PodHead[len(`{"metadata":{`):] + `"y":1}`,
		"item":          value,
	}
}

// An object that is nested too deep is one object that cannot be decoded.
// Guarantees: R17
func TestNestingBomb(t *testing.T) {
	t.Parallel()
	for _, depth := range []int{10_001, 100_000, testkit.Rounds(1_000_000, 10_000_000)} {
		for shape, brackets := range map[string][2]string{"array": {"[", "]"}, "object": {`{"":`, "}"}} {
			bomb := strings.Repeat(brackets[0], depth) + strings.Repeat(brackets[1], depth)
			if len(bomb) > 30<<20 {
				continue // too large, which is another error
			}
			for place, item := range nests(bomb) {
				t.Run(fmt.Sprintf("%d/%s/%s", depth, shape, place), func(t *testing.T) {
					world.Bubble(t, func(w world.World) {
						w.Answer(func(w http.ResponseWriter, r *http.Request) bool {
							w.Header().Set("Content-Type", "application/json")
							if !world.AsksToWatch(r) {
								fmt.Fprintf(w, `%s%s,{"metadata":{"namespace":"ns","name":"b"}}]}`, world.ListHead, item)
								return true
							}
							fmt.Fprintf(w, `{"type":"ADDED","object":%s}{"type":"ADDED","object":{"metadata":{"namespace":"ns","name":"c","resourceVersion":"9"}}}`, item)
							w.(http.Flusher).Flush()
							<-r.Context().Done()
							return true
						})
						pods := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, world.Paged[*corev1.Pod]())
						defer world.Start(w.T, pods)()
						dynamic := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, world.Paged[*unstructured.Unstructured]())
						defer world.Start(w.T, dynamic)()
						slim := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, world.Paged[*world.SlimPod]())
						defer world.Start(w.T, slim)()
						synctest.Wait()
						checkDeep(w, pods)
						checkDeep(w, dynamic)
						checkDeep(w, slim)
					})
				})
			}
		}
	}
}

// checkDeep checks that the store has the two valid objects only.
func checkDeep[T informer.Object](w world.World, inf *informer.Informer[T]) {
	w.Helper()
	if _, ok := inf.Store().Get(informer.Key{Namespace: "ns", Name: "b"}); !ok || inf.Store().Len() != 2 {
		w.Errorf("%d objects", inf.Store().Len())
	}
	status := inf.Status().Reflectors[0]
	failed := &informer.DecodeError{}
	if !errors.As(status.LastError, &failed) || status.DecodeErrors != 2 || status.Traffic.Lists != 1 || status.Traffic.Watches != 1 {
		w.Errorf("status %+v", status)
	} else if text := failed.Error(); len(text) > 2000 {
		w.Errorf("the error has %d bytes", len(text))
	}
}

// Time that the informer spends on decoding does not count as the server's silence.
// Guarantees: R22
func TestTimeToDecodeIsNoSilence(t *testing.T) {
	t.Run("list", func(t *testing.T) { decodesSlowly(t, informer.Config[*corev1.Pod]{PagedList: true}, time.Hour) })
	t.Run("streaming list", func(t *testing.T) { decodesSlowly(t, informer.Config[*corev1.Pod]{}, time.Minute) })
}

func decodesSlowly(t *testing.T, config informer.Config[*corev1.Pod], takes time.Duration) {
	config.Transform = func(p *corev1.Pod) (*corev1.Pod, error) {
		<-time.After(takes)
		return p, nil
	}
	world.Bubble(t, func(w world.World) {
		inf, _ := w.PodInformer(config)
		for _, name := range []string{"a", "b", "c"} {
			pod := world.NewPod("ns", name)
			pod.Annotations = map[string]string{"x": strings.Repeat("x", 100_000)} // each takes several reads
			w.Create(pod)
		}
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- inf.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		if err := inf.WaitSynced(ctx); err != nil {
			w.Fatal(err)
		}
		if s := inf.Status().Reflectors[0]; s.LastError != nil || s.Traffic.Lists != 1 || inf.Store().Len() != 3 {
			w.Errorf("%d objects, status %+v", inf.Store().Len(), s)
		}
	})
}

// recursivePod has the methods of a pod that decode protobuf, and contains itself.
type recursivePod struct {
	corev1.Pod
	Parts []recursivePod
}

// The client requests JSON for types that contain themselves, and decodes no format that it did not request.
// Guarantees: R22
func TestProtobufThatWasNotAskedFor(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Answer(func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", world.ProtobufType)
			io.WriteString(w, world.ProtoHead+"\x08\x12\x06\x0a\x04\x0a\x02no")
			return true
		})
		refuses[*world.SlimPod](w)
		refuses[*unstructured.Unstructured](w)
		refuses[*recursivePod](w)
	})
}

func refuses[T informer.Object](w world.World) {
	w.Helper()
	config := world.Quiet[T]()
	config.PagedList = true
	client := w.Client(func(c *rest.Config) { c.ContentType = world.ProtobufType })
	inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
	ctx, cancel := context.WithTimeout(w.Context(), time.Hour)
	defer cancel()
	inf.Run(ctx)
	status := inf.Status().Reflectors[0]
	if status.LastError == nil || !strings.Contains(status.LastError.Error(), "the server sent protobuf") || inf.Store().Len() != 0 {
		w.Errorf("%T: %v", *new(T), status.LastError)
	}
	for _, accept := range w.Accepts() {
		if accept != "application/json;drop=metadata.managedFields" {
			w.Errorf("%T: requested %s", *new(T), accept)
		}
	}
}

// A list fails if a continue token repeats: following it would never end.
// Guarantees: R22
func TestContinueTokenAgain(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		inf, _ := w.PodInformer(informer.Config[*corev1.Pod]{PagedList: true})
		var requests atomic.Int32
		w.Answer(func(w http.ResponseWriter, r *http.Request) bool {
			if world.AsksToWatch(r) || requests.Add(1) > 3 {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"kind":"PodList","metadata":{"resourceVersion":"2","continue":"%d"},"items":[%s"a":1}]}`, requests.Load()/2, world.PodHead) // 0, 1, 1
			return true
		})
		defer world.Start(w.T, inf)()
		if err := inf.Status().Reflectors[0].LastError; err == nil || !strings.Contains(err.Error(), "same continue token") {
			w.Error(err)
		}
		if inf.Store().Len() != 0 {
			w.Errorf("%d objects", inf.Store().Len())
		}
	})
}

// The reflector retries within a limit, however long the server's Retry-After.
// Guarantees: R11
func TestRetryAfterHasALimit(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		inf, _ := w.PodInformer(informer.Config[*corev1.Pod]{PagedList: true})
		var once atomic.Bool
		w.Answer(func(w http.ResponseWriter, r *http.Request) bool {
			if once.Swap(true) {
				return false
			}
			w.Header().Set("Retry-After", fmt.Sprint(int64(math.MaxInt64)))
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		})
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- inf.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		began := time.Now()
		inf.WaitSynced(w.Context())
		if took := time.Since(began); took < 10*time.Minute || took > 11*time.Minute {
			w.Errorf("synced after %v", took)
		}
	})
}

package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/source/decode"
)

// How late events of a watch are while 400 writers send requests over HTTP/2, whose responses take 50 ms. A connection has 100 requests at most.
// With connections=shared, the watch has none of its own.
func BenchmarkEventsBehindWriters(b *testing.B) {
	const writers = 400
	for _, connections := range []string{"own", "shared"} {
		b.Run("connections="+connections, func(b *testing.B) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", decode.MediaJSON)
				if r.Method == http.MethodPost {
					body, _ := io.ReadAll(r.Body)
					<-time.After(50 * time.Millisecond)
					w.Write(body)
					return
				}
				for {
					fmt.Fprintln(w, time.Now().UnixNano())
					w.(http.Flusher).Flush()
					select {
					case <-time.After(5 * time.Millisecond):
					case <-r.Context().Done():
						return
					}
				}
			}))
			server.EnableHTTP2 = true
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 100}
			server.StartTLS()
			defer server.Close()
			config := &rest.Config{Host: server.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{
				CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}}
			if connections == "shared" {
				transport, err := rest.TransportFor(config)
				if err != nil {
					b.Fatal(err)
				}
				config = &rest.Config{Host: server.URL, QPS: -1, Transport: transport}
			}
			c, err := New(config)
			if err != nil {
				b.Fatal(err)
			}
			defer c.server.closeIdle()
			ctx, cancel := context.WithCancel(b.Context())
			watch, err := c.Send(ctx, Request{Method: http.MethodGet, Path: "watch", Watch: true})
			if err != nil {
				b.Fatal(err)
			}
			defer watch.Close()
			var writing sync.WaitGroup
			defer writing.Wait()
			defer cancel()
			object := bytes.Repeat([]byte("x"), 10<<10)
			for range writers {
				writing.Go(func() {
					for ctx.Err() == nil {
						resp, err := c.Send(ctx, Request{Method: http.MethodPost, Path: "write", Body: object})
						if err == nil {
							io.Copy(io.Discard, resp)
							resp.Close()
						}
					}
				})
			}
			in := bufio.NewReader(watch)
			var late []time.Duration
			for b.Loop() {
				line, err := in.ReadString('\n')
				if err != nil {
					b.Fatal(err)
				}
				sent, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
				if err != nil {
					b.Fatal(err)
				}
				late = append(late, time.Since(time.Unix(0, sent)))
			}
			slices.Sort(late)
			b.ReportMetric(float64(late[len(late)/2].Microseconds())/1000, "ms-p50")
			b.ReportMetric(float64(late[len(late)*99/100].Microseconds())/1000, "ms-p99")
			b.ReportMetric(float64(late[len(late)-1].Microseconds())/1000, "ms-max")
		})
	}
}

// Package canned serves pods like kube-apiserver, with bytes that are all encoded beforehand. Serving them costs little
// more than the kernel's copying, so that a measurement is about the client.
//
// It answers lists, whole or in pages, streaming lists (KEP-3157), watches, and the discovery requests that lead to
// pods, in JSON and in protobuf, and metadata only in protobuf. A [Control] can make it release changes, as fast as the
// client reads or at a rate, and expire the open watches. [Start] serves it over each [Wire].
package canned

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/bench/internal/measure"
	"github.com/typedinformer/informer/internal/test/fleet"
)

const (
	JSON     = "application/json"
	Protobuf = "application/vnd.kubernetes.protobuf"
	// Metadata is PartialObjectMetadata in protobuf.
	Metadata = Protobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// Config is the configuration of a server.
type Config struct {
	// Pods is the number of pods, Changes the number of changes that can be released.
	Pods, Changes int
	// Padding is the number of bytes that each pod has more, in an environment variable.
	Padding int
	// Formats are the server's formats. A client gets the one that it accepts, or else the first one.
	Formats []string
}

// Server is a http.Handler.
type Server struct {
	http.Handler
	info     Info
	formats  []*format
	versions []uint64               // of the changes
	changed  []types.NamespacedName // the pods of the changes

	mu       sync.Mutex    // protects the fields below
	news     chan struct{} // closed and replaced when one of them changes
	released int           // number of changes that watches may send
	session  int           // of the client
	expired  int           // number of times that the watches expired
	watches  int           // that have sent their initial events
	sent     []int64       // when the changes were sent, by measure.Now
	served   []string      // the formats of the answers in this session
}

// New encodes the pods and changes of c. That takes about 100 microseconds and 12 kB for each, in both formats.
func New(c Config) (*Server, error) {
	f := fleet.New(fleet.Config{Pods: c.Pods})
	s := &Server{
		news: make(chan struct{}),
		sent: make([]int64, c.Changes),
	}
	for _, media := range c.Formats {
		format, err := newFormat(media, f.ResourceVersion())
		if err != nil {
			return nil, err
		}
		s.formats = append(s.formats, format)
	}
	var keys []types.NamespacedName
	padding := strings.Repeat("x", c.Padding)
	for pod := range f.All() {
		pad(pod, padding)
		keys = append(keys, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
		for _, format := range s.formats {
			if err := format.addPod(pod); err != nil {
				return nil, err
			}
		}
	}
	s.info = InfoOf(keys)
	s.info.ResourceVersion = f.ResourceVersion()

	for change := range f.Updates(1) {
		if len(s.versions) == c.Changes {
			break
		}
		version, err := strconv.ParseUint(change.Object.ResourceVersion, 10, 64)
		if err != nil {
			return nil, err
		}
		s.versions = append(s.versions, version)
		pad(change.Object, padding)
		s.changed = append(s.changed, types.NamespacedName{Namespace: change.Object.Namespace, Name: change.Object.Name})
		for _, format := range s.formats {
			if err := format.addChange(change.Type, change.Object); err != nil {
				return nil, err
			}
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/pods", s.pods)
	for path, body := range discovery {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", JSON)
			_, _ = w.Write([]byte(body))
		})
	}
	HandleControl(mux, s)
	s.Handler = mux
	return s, nil
}

// pad adds text to a pod, if it is not empty.
func pad(pod *corev1.Pod, text string) {
	if text != "" {
		first := &pod.Spec.Containers[0]
		first.Env = append(first.Env, corev1.EnvVar{Name: "PADDING", Value: text})
	}
}

// discovery has the responses that lead to pods.
var discovery = map[string]string{
	"/version": `{"major":"1","minor":"37","gitVersion":"v1.37.2"}`,
	"/api":     `{"kind":"APIVersions","versions":["v1"]}`,
	"/apis":    `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
	"/api/v1":  `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list","watch"],"shortNames":["po"]}]}`,
}

// pods answers lists and watches.
func (s *Server) pods(w http.ResponseWriter, r *http.Request) {
	f := s.formats[0]
	for accepted := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		i := slices.IndexFunc(s.formats, func(f *format) bool { return f.isAccepted(strings.TrimSpace(accepted)) })
		if i >= 0 {
			f = s.formats[i]
			break
		}
	}
	s.mu.Lock()
	if !slices.Contains(s.served, f.media) {
		s.served = append(s.served, f.media)
	}
	s.mu.Unlock()
	query := r.URL.Query()
	switch watch := query.Get("watch"); watch {
	case "", "0", "false":
		s.list(w, f, query.Get("resourceVersion"), query.Get("limit"), query.Get("continue"))
	default:
		s.watch(r, w, f, query.Get("resourceVersion"), query.Get("sendInitialEvents") == "true")
	}
}

// list answers with all pods, or with a page of them. Like kube-apiserver's watch cache, it does not page a list "at
// any version".
func (s *Server) list(w http.ResponseWriter, f *format, version, limit, token string) {
	from, _ := strconv.Atoi(token)
	from = min(max(from, 0), len(f.pods))
	to := len(f.pods)
	meta := metav1.ListMeta{ResourceVersion: s.info.ResourceVersion}
	if n, _ := strconv.Atoi(limit); n > 0 && n < to-from && version != "0" {
		to = from + n
		meta.Continue = strconv.Itoa(to)
		meta.RemainingItemCount = new(int64(len(f.pods) - to))
	}
	w.Header().Set("Content-Type", f.typ)
	w.Header().Set("Content-Length", strconv.Itoa(f.listSize(meta, from, to)))
	buffered := bufio.NewWriterSize(w, 256<<10)
	f.writeList(buffered, meta, from, to)
	_ = buffered.Flush()
}

// watch sends the released changes after version, and before them all pods if initial is set. With TLS it flushes after
// each event, like kube-apiserver, which does so whenever no other event waits.
func (s *Server) watch(r *http.Request, w http.ResponseWriter, f *format, version string, initial bool) {
	ctx, unbuffered := r.Context(), r.TLS != nil
	w.Header().Set("Content-Type", f.watchType)
	since, _ := strconv.ParseUint(version, 10, 64)
	next := sort.Search(len(s.versions), func(i int) bool { return s.versions[i] > since })
	buffered := bufio.NewWriterSize(w, 256<<10)
	flush := func() {
		_ = buffered.Flush()
		_ = http.NewResponseController(w).Flush()
	}
	s.mu.Lock()
	session, expired := s.session, s.expired
	s.mu.Unlock()
	send := func(frame []byte) {
		_, _ = buffered.Write(frame)
		if unbuffered {
			flush()
		}
	}
	if initial {
		for i := range f.pods {
			send(f.pods[i].frame)
		}
		send(f.bookmark)
		next = 0
	}
	flush()
	s.mu.Lock()
	s.watches++
	s.tellLocked()
	defer func() {
		s.watches--
		s.tellLocked()
		s.mu.Unlock()
	}()
	for ctx.Err() == nil && session == s.session {
		news, released := s.news, s.released
		if expired != s.expired {
			_, _ = w.Write(f.expired)
			return
		}
		now := measure.Now()
		for i := next; i < released; i++ {
			s.sent[i] = cmp.Or(s.sent[i], now)
		}
		s.mu.Unlock()
		if next < released {
			for ; next < released; next++ {
				send(f.changes[next])
			}
			flush()
		} else {
			select {
			case <-news:
			case <-ctx.Done():
			}
		}
		s.mu.Lock()
	}
}

func (s *Server) tellLocked() {
	close(s.news)
	s.news = make(chan struct{})
}

// Release implements Backend.
func (s *Server) Release(n, rate int) (first int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = s.released
	switch {
	case n < 0 || first+n > len(s.versions):
		return 0, fmt.Errorf("%d changes: %d of %d have been released", n, first, len(s.versions))
	case rate <= 0:
		s.released += n
		s.tellLocked()
	default:
		session, began := s.session, time.Now()
		go func() {
			for i := range n {
				time.Sleep(time.Until(began.Add(time.Duration(i+1) * time.Second / time.Duration(rate))))
				s.mu.Lock()
				if session == s.session {
					s.released++
					s.tellLocked()
				}
				s.mu.Unlock()
			}
		}()
	}
	return first, nil
}

// Expire implements Backend. It waits until there is a watch.
func (s *Server) Expire(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.watches == 0 {
		news := s.news
		s.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	s.expired++
	s.tellLocked()
	return nil
}

// Reset implements Backend.
func (s *Server) Reset() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session++
	s.released = 0
	s.served = nil
	clear(s.sent)
	s.tellLocked()
	return s.info
}

// Released implements Backend.
func (s *Server) Released(_ context.Context, from, to int) (Released, error) {
	if from < 0 || to < from || to > len(s.versions) {
		return Released{}, fmt.Errorf("only %d changes exist", len(s.versions))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	released := Released{Keys: s.changed[from:to], Sent: slices.Clone(s.sent[from:to])}
	for _, version := range s.versions[from:to] {
		released.Versions = append(released.Versions, strconv.FormatUint(version, 10))
	}
	return released, nil
}

// Served implements Backend.
func (s *Server) Served() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.served)
}

// CPU implements Backend.
func (s *Server) CPU() (time.Duration, error) { return measure.CPU(), nil }

// Memory implements Backend.
func (s *Server) Memory() (Memory, error) { return Memory{}, nil }

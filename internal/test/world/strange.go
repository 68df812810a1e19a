package world

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/watchcache"
)

// Rewritten returns a Fault.Rewrite that calls change with a copy of each object with that key. The key of bookmarks is
// empty.
func Rewritten(key informer.Key, change func(*corev1.Pod)) func(informer.Key, []byte) []byte {
	return func(k informer.Key, object []byte) []byte {
		if k != key {
			return object
		}
		pod := &corev1.Pod{}
		var err error
		if bytes.HasPrefix(object, []byte("{")) {
			err = json.Unmarshal(object, pod)
		} else {
			err = pod.Unmarshal(object)
		}
		if err != nil {
			panic(err)
		}
		change(pod)
		return Encode(pod, object)
	}
}

// EarlyBookmarks returns a Fault.Rewrite of a server whose bookmarks overtake its next events, as those of kine did:
// each is ahead by that many resource versions.
func EarlyBookmarks(ahead int) func(informer.Key, []byte) []byte {
	return Rewritten(informer.Key{}, func(p *corev1.Pod) {
		if len(p.Annotations) == 0 { // not the one after initial events
			p.ResourceVersion = Later(p.ResourceVersion, ahead)
		}
	})
}

// Later returns the resource version that follows rv by n.
func Later(rv string, n int) string {
	number, err := strconv.Atoi(rv)
	if err != nil {
		panic(err)
	}
	return strconv.Itoa(number + n)
}

// TooLargeFor is the answer of a server at version current to a request for version rv. Clients should wait that long.
func TooLargeFor(rv, current string, wait time.Duration) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %s, current: %s", rv, current),
		int(wait.Seconds()))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}

// ExpireToken answers a request with a continue token: the token has expired, but the rest of the list can be read at
// the latest version, as kube-apiserver says.
func ExpireToken(w http.ResponseWriter, r *http.Request) {
	token := map[string]any{}
	raw, err := base64.RawURLEncoding.DecodeString(r.URL.Query().Get("continue"))
	if err == nil {
		err = json.Unmarshal(raw, &token)
	}
	token["rv"] = -1
	raw, again := json.Marshal(token)
	if err != nil || again != nil {
		panic(fmt.Sprint(err, again))
	}
	expired := apierrors.NewResourceExpired("The provided continue parameter is too old")
	expired.ErrStatus.Continue = base64.RawURLEncoding.EncodeToString(raw)
	watchcache.WriteError(w, r, expired)
}

// ListServer has pods that can be listed and not watched. Its Answer is that of a [World].
type ListServer struct {
	// Watch is the status code of the answer to a watch. Zero means that the server ignores the parameter watch.
	Watch int

	mu      sync.Mutex // protects the fields below
	version string
	pods    []*corev1.Pod
	lists   int
}

// Set sets the resource version of the list, which may be empty, and the pods.
func (s *ListServer) Set(version string, pods ...*corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.pods = version, pods
}

// Lists returns the number of lists so far.
func (s *ListServer) Lists() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

// Answer answers lists and watches of pods.
func (s *ListServer) Answer(w http.ResponseWriter, r *http.Request) bool {
	if !strings.HasSuffix(r.URL.Path, "/pods") {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if AsksToWatch(r) && s.Watch != 0 {
		watchcache.WriteError(w, r, apierrors.NewGenericServerResponse(s.Watch, "watch", PodGVR.GroupResource(), "", "", 0, false))
		return true
	}
	if !AsksToWatch(r) {
		s.lists++
	}
	WritePods(w, r, s.version, "", s.pods...)
	return true
}

// WritePods writes a list with that resource version and continue token, in the format that the request accepts.
func WritePods(w http.ResponseWriter, r *http.Request, version, token string, pods ...*corev1.Pod) {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: version, Continue: token}}
	for _, p := range pods {
		list.Items = append(list.Items, *p)
	}
	kind := runtime.TypeMeta{APIVersion: "v1", Kind: "PodList"}
	if !strings.Contains(r.Header.Get("Accept"), ProtobufType) {
		list.APIVersion, list.Kind = kind.APIVersion, kind.Kind
		w.Header().Set("Content-Type", JSONType)
		_ = json.NewEncoder(w).Encode(list)
		return
	}
	raw, err := list.Marshal()
	if err == nil {
		raw, err = (&runtime.Unknown{TypeMeta: kind, Raw: raw}).Marshal()
	}
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", ProtobufType)
	_, _ = w.Write(append([]byte("k8s\x00"), raw...))
}

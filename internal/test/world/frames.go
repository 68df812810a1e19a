package world

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/typedinformer/informer/internal/test/testkit"
)

// Frame returns one event of a watch, with an encoded object, as an API server sends it.
func Frame(media, event string, object []byte) []byte {
	if media == JSONType {
		return fmt.Appendf(nil, `{"type":%q,"object":%s}`+"\n", event, bytes.TrimSpace(object))
	}
	w := metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Raw: object}}
	message, _ := w.Marshal()
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)
}

// Write sends a body, or a part of it, at once.
func Write(w http.ResponseWriter, media string, body []byte) {
	w.Header().Set("Content-Type", media)
	_, _ = w.Write(body)
	_ = http.NewResponseController(w).Flush()
}

// AnswerWatch makes frames the answer to the next watch that is no streaming list, one after each pause, and ends the
// present watches. The new one then stays open until end. Later ones go to the server.
func (w World) AnswerWatch(media string, pause time.Duration, frames func() [][]byte) (end func()) {
	var once atomic.Bool
	done := make(chan struct{})
	w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
		if !AsksToWatch(r) || AsksToStream(r) || once.Swap(true) {
			return false
		}
		for _, frame := range frames() {
			<-testkit.After(pause)
			Write(rw, media, frame)
		}
		select {
		case <-done:
		case <-r.Context().Done():
		}
		return true
	})
	w.Server.EndWatches()
	return sync.OnceFunc(func() { close(done) })
}

// codecs has the core group only: the scheme of client-go would link all of k8s.io/api to each suite.
var codecs = sync.OnceValue(func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	_ = corev1.AddToScheme(scheme) // it fails for types that have no name
	return serializer.NewCodecFactory(scheme)
})

// Encoded returns an object of the core group as an API server sends it alone.
func (w World) Encoded(media string, obj runtime.Object) []byte {
	w.Helper()
	info, _ := runtime.SerializerInfoForMediaType(codecs().SupportedMediaTypes(), media)
	raw, err := runtime.Encode(codecs().EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), obj)
	if err != nil {
		w.Fatal(err)
	}
	return raw
}

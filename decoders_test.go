package informer

import (
	"math/rand"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/typedinformer/informer/internal/fleet"
)

// checkProtobuf decodes raw by our decoder and by the generated code. What ours takes, the other takes, and equally.
func checkProtobuf(t *testing.T, d *protobufDecoder, typ reflect.Type, raw []byte) (taken bool) {
	t.Helper()
	ours, theirs := reflect.New(typ), reflect.New(typ)
	taken, err := d.decode(raw, ours.Elem(), nil)
	if !taken || err != nil {
		return false
	}
	if err := theirs.Interface().(unmarshaler).Unmarshal(raw); err != nil {
		t.Fatalf("%q: taken, and refused by the generated code: %v", raw, err)
	}
	if !reflect.DeepEqual(theirs.Interface(), ours.Interface()) {
		t.Fatalf("%q: differs (-generated +ours):\n%s", raw, cmp.Diff(theirs.Interface(), ours.Interface()))
	}
	return true
}

// checkJSON decodes raw by our decoder and by the library. What ours takes, the library takes, and equally.
func checkJSON(t *testing.T, d *jsonDecoder, typ reflect.Type, raw []byte) (taken bool) {
	t.Helper()
	ours, theirs := reflect.New(typ), reflect.New(typ)
	taken, err := d.decode(raw, ours.Elem(), nil)
	if !taken || err != nil {
		return false
	}
	if err := json.Unmarshal(raw, theirs.Interface(), jsonOptions); err != nil {
		t.Fatalf("%s: taken, and refused by the library: %v", raw, err)
	}
	if !reflect.DeepEqual(theirs.Interface(), ours.Interface()) {
		t.Fatalf("%s: differs (-library +ours):\n%s", raw, cmp.Diff(theirs.Interface(), ours.Interface()))
	}
	return true
}

// Our decoders take what API servers write, of every built-in kind.
func TestDecodersTakeBuiltinKinds(t *testing.T) {
	for _, gvk := range builtinKinds() {
		typ := scheme.Scheme.AllKnownTypes()[gvk]
		inJSON, inProtobuf := newPeer(t, mediaJSON, gvk.GroupVersion()), newPeer(t, mediaProtobuf, gvk.GroupVersion())
		fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(7), scheme.Codecs)
		fromJSON, fromProtobuf := newJSONDecoder(true, newInterner()), newProtobufDecoder(true, newInterner())
		for range 5 {
			obj := reflect.New(typ).Interface().(runtime.Object)
			fill.Fill(obj)
			if raw := inJSON.encode(t, obj); !checkJSON(t, fromJSON, typ, raw) {
				t.Errorf("%v: refused: %s", gvk, raw)
			}
			if raw, _ := unwrapProtobuf(inProtobuf.encode(t, obj)); !checkProtobuf(t, fromProtobuf, typ, raw) {
				t.Errorf("%v: refused: %q", gvk, raw)
			}
		}
	}
	fromJSON, fromProtobuf := newJSONDecoder(true, newInterner()), newProtobufDecoder(true, newInterner())
	inJSON, inProtobuf := newPeer(t, mediaJSON, corev1.SchemeGroupVersion), newPeer(t, mediaProtobuf, corev1.SchemeGroupVersion)
	for pod := range fleet.New(fleet.Config{Pods: 300}).All() {
		if raw := inJSON.encode(t, pod); !checkJSON(t, fromJSON, reflect.TypeFor[corev1.Pod](), raw) {
			t.Errorf("refused: %s", raw)
		}
		if raw, _ := unwrapProtobuf(inProtobuf.encode(t, pod)); !checkProtobuf(t, fromProtobuf, reflect.TypeFor[corev1.Pod](), raw) {
			t.Errorf("refused: %q", raw)
		}
	}
}

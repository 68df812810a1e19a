package informer

import (
	"fmt"
	"log/slog"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/typedinformer/informer/internal/decode"
)

// The informer and the subscription of packed objects have every setting of those that they do the work of.
func TestCompactHasEverySetting(t *testing.T) {
	config := Config[*thing]{
		Transform:         func(t *thing) (*thing, error) { return t, nil },
		Filter:            func(*metav1.PartialObjectMetadata) bool { return true },
		KeepManagedFields: true,
		Share:             true,
		Compact:           true,
		Prototype:         &thing{},
		OnDecodeError:     func(*DecodeError) {},
		OnFailure:         func(error) {},
		PagedList:         true,
		PageSize:          3,
		AbsentIsSynced:    true,
		Snapshot:          SnapshotConfig{Storage: SnapshotDir("dir"), Revision: "1"},
		Logger:            slog.New(slog.DiscardHandler),
	}
	checkSettings(t, config, compactConfig(config, &packer{}), "Share", "Compact", "Prototype")

	subscription := SubscriptionConfig[*thing]{
		Name:       "name",
		Delivery:   DeliverEvery,
		MaxBacklog: 7,
		Block:      true,
		Filter:     func(*thing) bool { return true },
		Resync:     time.Hour,
		NewOnly:    true,
		OnPanic:    func(any) {},
	}
	_, of := compactSubscription(HandlerFuncs[*thing]{}, subscription)
	checkSettings(t, subscription, of)
	_, of = compactSubscription(HandlerFuncs[*thing]{}, SubscriptionConfig[*thing]{})
	if want := fmt.Sprintf("%T", HandlerFuncs[*thing]{}); of.Name != want {
		t.Errorf("the subscription is named %q, want %q", of.Name, want)
	}
}

// checkSettings checks that packed has the fields of config, except for those that packed objects do not need. Functions and
// loggers need only be there.
func checkSettings(t *testing.T, config, packed any, except ...string) {
	t.Helper()
	has := map[string]bool{}
	for _, name := range except {
		has[name] = true
	}
	want, got := reflect.ValueOf(config), reflect.ValueOf(packed)
	for i := range want.NumField() {
		name := want.Type().Field(i).Name
		field := got.FieldByName(name)
		switch {
		case want.Field(i).IsZero():
			t.Errorf("%T.%s is not set in this test", config, name)
		case has[name]:
		case field.IsZero() || field.Comparable() && !field.Equal(want.Field(i)):
			t.Errorf("%T.%s is %v, want %v", packed, name, field, want.Field(i))
		}
	}
}

// Packed objects decode in the format and with the list that each came with.
func TestPackedHasItsFormatAndList(t *testing.T) {
	pods := func(kind, version string) *decode.ListInfo { return &decode.ListInfo{Kind: kind, APIVersion: version} }
	k, err := newPacker(reflect.TypeFor[*unstructured.Unstructured](), false)
	if err != nil {
		t.Fatal(err)
	}
	var all []*packed
	lists := []*decode.ListInfo{nil, pods("Pod", "v1"), pods("Pod", "v2"), pods("Node", "v2"), nil}
	for _, list := range lists {
		obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a"}}}
		all = append(all, k.packBytes(obj, decode.JSON, []byte(`{"metadata":{"name":"a"}}`), list, nil))
	}
	for i, p := range all {
		var want decode.ListInfo
		if lists[i] != nil {
			want = *lists[i]
		}
		if got := p.decode(nil).(*unstructured.Unstructured); got.GetKind() != want.Kind || got.GetAPIVersion() != want.APIVersion {
			t.Errorf("object %d is a %s %s, want a %s %s", i, got.GetAPIVersion(), got.GetKind(), want.APIVersion, want.Kind)
		}
	}

	if k, err = newPacker(reflect.TypeFor[*corev1.Pod](), false); err != nil {
		t.Fatal(err)
	}
	all = nil
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	protobuf, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		all = append(all, k.packBytes(pod, decode.JSON, []byte(`{"metadata":{"name":"a"}}`), nil, nil), k.packBytes(pod, decode.Protobuf, protobuf, nil, nil))
	}
	for i, p := range all {
		if got := p.decode(nil).(*corev1.Pod); got.Name != "a" {
			t.Errorf("pod %d is %v", i, got)
		}
	}
}

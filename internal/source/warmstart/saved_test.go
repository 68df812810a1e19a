package warmstart

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/store/compact"
)

// memory is a Storage.
type memory map[string][]byte

func (m memory) Load(_ context.Context, name string) (io.ReadCloser, error) {
	file, ok := m[name]
	if !ok {
		return nil, os.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(file)), nil
}

func (m memory) Save(_ context.Context, name string, write func(io.Writer) error) error {
	var file bytes.Buffer
	if err := write(&file); err != nil {
		return err
	}
	m[name] = file.Bytes()
	return nil
}

// file returns the only file.
func (m memory) file(t testing.TB) (name string, content []byte) {
	t.Helper()
	if len(m) != 1 {
		t.Fatalf("files %v", slices.Collect(maps.Keys(m)))
	}
	for name, content = range m {
	}
	return name, content
}

// server is a Source at a version.
type server struct{ version string }

func (s *server) Current(context.Context, string) (string, error) { return s.version, nil }
func (s *server) Loading()                                        {}

// rig saves and loads the objects of one collection of pods.
type rig struct {
	testing.TB
	storage memory
	server  *server
	config  Config
	packer  *compact.Packer // packs the objects; nil if they are not packed
	log     bytes.Buffer
}

// newRig returns a rig for objects of type T.
func newRig[T any](t testing.TB, pack bool) *rig {
	t.Helper()
	r := &rig{TB: t, storage: memory{}, server: &server{version: "7"}}
	goType := reflect.TypeFor[T]()
	pool, err := decode.NewPool(goType, "", false, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.config = Config{
		Storage:  r.storage,
		MaxAge:   time.Hour,
		Identity: Identity{Resource: corev1.SchemeGroupVersion.WithResource("pods")},
		Cluster:  &Cluster{server: "https://server", uid: "cluster", known: true, asking: make(chan struct{}, 1)},
		Source:   r.server,
		Decoders: pool,
		Packing:  plain{},
		Log:      slog.New(slog.NewTextHandler(&r.log, nil)),
	}
	r.config.Identity.SetType(goType)
	if pack {
		if r.packer, err = compact.NewPacker(goType, false, nil, nil); err != nil {
			t.Fatal(err)
		}
		r.config.Packing = packing{r.packer}
	}
	return r
}

// plain is the Packing of a collection that holds objects as they are decoded.
type plain struct{}

func (plain) Encoded(object.Object, []byte) (e decode.Encoded, ok bool, err error) {
	return e, false, nil
}
func (plain) Whole(obj object.Object) any { return obj }
func (plain) Restored(decoder *decode.Decoder, e decode.Encoded, share bool) (object.Object, error) {
	obj, err := decoder.Decode(e.Format, e.Raw, decode.Origin{List: e.List, Share: share})
	if err != nil {
		return nil, err
	}
	return obj.(object.Object), nil
}

// packing is a Packing of packed objects.
type packing struct{ *compact.Packer }

func (p packing) Encoded(obj object.Object, buf []byte) (decode.Encoded, bool, error) {
	return p.Packer.Encoded(obj.(*compact.Object), buf)
}
func (p packing) Whole(obj object.Object) any { return p.Packer.Whole(obj.(*compact.Object)) }
func (p packing) Restored(decoder *decode.Decoder, e decode.Encoded, share bool) (object.Object, error) {
	return p.Packer.Restored(decoder, e, share)
}

// content returns the content of a store at a version.
func (r *rig) content(version string, objects ...object.Object) Content {
	if r.packer != nil {
		for i, obj := range objects {
			objects[i] = r.packer.Hold(obj)
		}
	}
	return Content{Objects: slices.Values(objects), Version: version, Listed: time.Now()}
}

// save saves objects at a version, and returns the error in the status.
func (r *rig) save(s *State, version string, objects ...object.Object) error {
	s.Save(r.Context(), r.content(version, objects...), true)
	return s.Status().SaveError
}

// load loads the objects with a new State.
func (r *rig) load() (objects []any, s *State, err error) {
	s = New(r.config)
	_, err = s.Load(r.Context(), "", func(obj object.Object) {
		if p, ok := obj.(*compact.Object); ok {
			objects = append(objects, p.Decoded(nil))
		} else {
			objects = append(objects, obj)
		}
	})
	return objects, s, err
}

// cold checks that a load fails with why, and loads nothing.
func (r *rig) cold(why string) {
	r.Helper()
	_, s, err := r.load()
	if cold := (Cold{}); !errors.As(err, &cold) || !strings.Contains(err.Error(), why) {
		r.Errorf("the load returned %v, want %s", err, why)
	}
	if s.Status().Loaded {
		r.Errorf("loaded: %+v", s.Status())
	}
}

func newPod(name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), ResourceVersion: version}}
}

// each runs test for objects that are packed, and for others.
func each(t *testing.T, test func(t *testing.T, compact bool)) {
	t.Run("plain", func(t *testing.T) { test(t, false) })
	t.Run("compact", func(t *testing.T) { test(t, true) })
}

// The status says what was saved and loaded, and up to which version the store has to catch up.
// Guarantees: S4
func TestStatusOfSaveAndLoad(t *testing.T) {
	each(t, func(t *testing.T, compact bool) {
		r := newRig[*corev1.Pod](t, compact)
		if _, _, err := r.load(); !errors.Is(err, fs.ErrNotExist) || !errors.As(err, new(Cold)) {
			t.Errorf("without a file: %v", err)
		}
		first := New(r.config)
		if err := r.save(first, "7", newPod("a", "5"), newPod("b", "6")); err != nil {
			t.Fatal(err)
		}
		_, file := r.storage.file(t)
		if s := first.Status(); s.Saves != 1 || s.SavedObjects != 2 || s.SavedVersion != "7" || s.SavedBytes != int64(len(file)) {
			t.Errorf("saved: %+v", s)
		}
		r.server.version = "9"
		objects, again, err := r.load()
		if err != nil || len(objects) != 2 {
			t.Fatalf("%d objects, %v", len(objects), err)
		}
		if s := again.Status(); !s.Loaded || s.LoadedObjects != 2 || s.LoadedVersion != "7" || s.CatchUpTo != "9" {
			t.Errorf("loaded: %+v", s)
		}
		if again.CaughtUp(); again.Status().CatchUpTo != "" {
			t.Errorf("caught up: %+v", again.Status())
		}
	})
}

// Nothing is saved again before anything changes, or the file has half of its greatest age.
// Guarantees: S4
func TestUnchangedContentIsSavedOnce(t *testing.T) {
	r := newRig[*corev1.Pod](t, false)
	s := New(r.config)
	c := r.content("7", newPod("a", "5"))
	saves := func(want int, what string) {
		t.Helper()
		s.Save(t.Context(), c, true)
		if st := s.Status(); st.Saves != want || st.SaveError != nil {
			t.Errorf("%s: %+v", what, st)
		}
	}
	saves(1, "first")
	saves(1, "unchanged")
	c.Version = "8"
	saves(2, "version")
	c.Shard = "shard"
	saves(3, "shard")
	c.Listed = c.Listed.Add(time.Second)
	saves(4, "list")
	s.stored.time = s.stored.time.Add(-31 * time.Minute)
	saves(5, "age")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	c.Version = "9"
	if s.Save(canceled, c, false); s.Status().Saves != 5 || s.Status().SaveError != nil {
		t.Errorf("canceled: %+v", s.Status())
	}
}

// A failure shows in the status, and in the log once. The last state stays.
// Guarantees: S4
func TestFailedSaveLeavesTheLastState(t *testing.T) {
	r := newRig[*corev1.Pod](t, false)
	s := New(r.config)
	if err := r.save(s, "7", newPod("a", "5")); err != nil {
		t.Fatal(err)
	}
	_, before := r.storage.file(t)
	stale := r.content("8", newPod("a", "5"))
	stale.Stale = true
	ends := r.content("8")
	ends.Objects = func(func(object.Object) bool) { runtime.Goexit() }
	for what, c := range map[string]Content{"could not be decoded": stale, "called runtime.Goexit": ends} {
		s.Save(t.Context(), c, true)
		if st := s.Status(); st.Saves != 1 || st.SaveError == nil || !strings.Contains(st.SaveError.Error(), what) {
			t.Errorf("%s: %+v", what, st)
		}
	}
	if _, after := r.storage.file(t); !bytes.Equal(before, after) {
		t.Error("the file has changed")
	}
	if err := r.save(s, "9", newPod("a", "5")); err != nil {
		t.Error(err)
	}
	if n := strings.Count(r.log.String(), "cannot be saved"); n != 1 || strings.Count(r.log.String(), "succeeds again") != 1 {
		t.Errorf("log:\n%s", r.log.String())
	}
}

// The last save sends no request: it fails if the server has not been identified yet.
// Guarantees: S4, L2
func TestLastSaveNeedsAKnownServer(t *testing.T) {
	r := newRig[*corev1.Pod](t, false)
	r.config.Cluster.known = false
	if err := r.save(New(r.config), "7", newPod("a", "5")); err == nil || !strings.Contains(err.Error(), "not been identified") {
		t.Error(err)
	}
}

package warmstart

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/snapshotfile"
)

// With any byte changed, and after any truncation, nothing is loaded.
// Guarantees: S4
func TestEveryDamageOfASavedStateShows(t *testing.T) {
	each(t, func(t *testing.T, compact bool) {
		r := newRig[*corev1.Pod](t, compact)
		if err := r.save(New(r.config), "7", newPod("a", "5")); err != nil {
			t.Fatal(err)
		}
		name, whole := r.storage.file(t)
		for i := range whole {
			damaged := bytes.Clone(whole)
			damaged[i] ^= 0x41
			for what, content := range map[string][]byte{"byte": damaged, "end at": whole[:i]} {
				r.storage[name] = content
				if _, s, err := r.load(); err == nil || s.Status().Loaded {
					t.Fatalf("%s %d of %d shows no damage: %v", what, i, len(whole), err)
				}
			}
		}
	})
}

// changeHeader replaces the header of the only file.
func (r *rig) changeHeader(change func(header map[string]any)) {
	r.Helper()
	r.rewrite(change, func(*snapshotfile.Record) {})
}

// rewrite replaces the header and the records of the only file.
func (r *rig) rewrite(change func(header map[string]any), edit func(*snapshotfile.Record)) {
	r.Helper()
	must := func(err error) {
		r.Helper()
		if err != nil {
			r.Fatal(err)
		}
	}
	name, whole := r.storage.file(r)
	in, err := snapshotfile.NewReader(bytes.NewReader(whole))
	must(err)
	header := map[string]any{}
	must(json.Unmarshal(in.Header, &header))
	change(header)
	changed, err := json.Marshal(header)
	must(err)
	var file bytes.Buffer
	out, err := snapshotfile.NewWriter(&file, changed)
	must(err)
	for {
		rest, err := in.Next(nil)
		if err == io.EOF {
			must(out.Close())
			r.storage[name] = file.Bytes()
			return
		}
		must(err)
		for len(rest) > 0 {
			var record snapshotfile.Record
			record, rest, err = snapshotfile.Cut(rest)
			must(err)
			edit(&record)
			must(out.Append(record))
		}
	}
}

// A saved state is refused if it is of something else, too old, or its header does not say what the objects are of: a
// time in the future hides their age, and versions that are no numbers have no order.
// Guarantees: S4
func TestHeaderOfASavedStateIsChecked(t *testing.T) {
	ago := func(d time.Duration) func() any { return func() any { return time.Now().Add(-d) } }
	constant := func(value any) func() any { return func() any { return value } }
	for _, test := range []struct {
		name, field string
		value       func() any
		why         string // empty if it is loaded
	}{
		{"unchanged", "Server", constant("https://server"), ""},
		{"saved in the future", "Time", ago(-61 * time.Second), "it was saved 1m1s in the future"},
		{"listed in the future", "Listed", ago(-61 * time.Second), "its list began 1m1s in the future"},
		{"saved by another clock", "Time", ago(-time.Minute), ""},
		{"listed by another clock", "Listed", ago(-time.Minute), ""},
		{"old", "Time", ago(61 * time.Minute), "it was saved 1h1m0s ago"},
		{"young", "Time", ago(59 * time.Minute), ""},
		{"listed more than a day ago", "Listed", ago(24*time.Hour + time.Minute), "the last list of the whole collection was 24h1m0s ago"},
		{"a version that is no number", "ResourceVersion", constant("2a"), "are not numbers"},
		{"no version", "ResourceVersion", constant(""), "are not numbers"},
		{"a version that the server lost", "ResourceVersion", constant("8"), "the server was restored to resource version 7"},
		{"server", "Server", constant("https://other"), "it is from the server https://other"},
		{"certificate authority", "CA", constant("other"), "another certificate authority"},
		{"cluster", "Cluster", constant("other"), "has the UID other, not cluster"},
		{"unknown cluster", "Cluster", constant(""), "could not when it saved"},
		{"resource", "Resource", constant(map[string]string{"Group": "", "Version": "v1", "Resource": "nodes"}), "another resource, namespace or selector"},
		{"namespace", "Namespace", constant("other"), "another resource, namespace or selector"},
		{"label selector", "LabelSelector", constant("a"), "another resource, namespace or selector"},
		{"field selector", "FieldSelector", constant("a"), "another resource, namespace or selector"},
		{"shard", "Shard", constant("half"), "another shard"},
		{"type", "Type", constant("*other.Pod"), "it is of the Go type *other.Pod, not *k8s.io/api/core/v1.Pod"},
		{"fields", "Fields", constant("other"), "the fields of *k8s.io/api/core/v1.Pod have changed"},
		{"managed fields", "ManagedFields", constant(true), "KeepManagedFields has changed"},
		{"transform", "Transform", constant(true), "Transform has changed"},
		{"filter", "Filter", constant(true), "Filter has changed"},
		{"revision", "Revision", constant("2"), `it has the revision "2", not ""`},
		{"no JSON type", "Transform", constant("yes"), "cannot be read"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig[*corev1.Pod](t, false)
				if err := r.save(New(r.config), "7", newPod("a", "5")); err != nil {
					t.Fatal(err)
				}
				r.changeHeader(func(header map[string]any) {
					if _, ok := header[test.field]; !ok {
						t.Errorf("the header has no %s", test.field)
					}
					header[test.field] = test.value()
				})
				if test.why != "" {
					r.cold(test.why)
				} else if objects, _, err := r.load(); err != nil || len(objects) != 1 {
					t.Errorf("%d objects, %v", len(objects), err)
				}
			})
		})
	}
}

// A saved state with an object of another namespace than its header says is refused.
// Guarantees: S4
func TestSavedStateOfAnotherNamespaceIsRefused(t *testing.T) {
	each(t, func(t *testing.T, compact bool) {
		r := newRig[*corev1.Pod](t, compact)
		r.config.Identity.Namespace = "other"
		if err := r.save(New(r.config), "7", newPod("a", "5")); err != nil {
			t.Fatal(err)
		}
		r.cold("an object is of another namespace")
	})
}

// A saved state with objects of another kind is refused, with both kinds in the error: in JSON, an object names its kind, and
// in both formats, that of its list may be known.
// Guarantees: R22, S4
func TestSavedStateOfAnotherKindIsRefused(t *testing.T) {
	each(t, func(t *testing.T, compact bool) {
		for name, c := range map[string]struct {
			change func(*snapshotfile.Record)
			why    string // empty if it is loaded
		}{
			"nothing":         {func(*snapshotfile.Record) {}, ""},
			"list of pods":    {func(r *snapshotfile.Record) { r.Kind, r.APIVersion = "PodList", "v1" }, ""},
			"list of nodes":   {func(r *snapshotfile.Record) { r.Kind, r.APIVersion = "NodeList", "v1" }, `a NodeList: the server sent another kind than requested: "Node" instead of "Pod"`},
			"list of a group": {func(r *snapshotfile.Record) { r.Kind, r.APIVersion = "NodeList", "other.io/v1" }, `"Node" instead of "Pod"`},
			"no list":         {func(r *snapshotfile.Record) { r.Kind, r.APIVersion = "Pod", "v1" }, "a Pod instead of a list"},
			"node": {func(r *snapshotfile.Record) {
				r.Format, r.Raw = recordJSON, []byte(`{"kind":"Node","apiVersion":"v1","metadata":{"namespace":"ns","name":"a","uid":"uid-a","resourceVersion":"5"}}`)
			}, `"Node" instead of "Pod"`},
			"pod": {func(r *snapshotfile.Record) {
				r.Format, r.Raw = recordJSON, []byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"ns","name":"a","uid":"uid-a","resourceVersion":"5"}}`)
			}, ""},
		} {
			t.Run(name, func(t *testing.T) {
				r := newRig[*corev1.Pod](t, compact)
				r.config.Kind = decode.NewKind(reflect.TypeFor[*corev1.Pod](), "pods")
				if err := r.save(New(r.config), "7", newPod("a", "5")); err != nil {
					t.Fatal(err)
				}
				r.rewrite(func(map[string]any) {}, c.change)
				if c.why != "" {
					r.cold(c.why)
				} else if objects, _, err := r.load(); err != nil || len(objects) != 1 {
					t.Errorf("%d objects, %v", len(objects), err)
				}
			})
		}
	})
}

// A load lists instead of waiting for damage to go away, and warns of it. Other reasons are no warning.
// Guarantees: S4
func TestOnlyDamageIsAWarning(t *testing.T) {
	r := newRig[*corev1.Pod](t, false)
	s := New(r.config)
	s.GiveUp(coldBecause("any reason"))
	s.GiveUp(coldBecause("damage: %w", &snapshotfile.DamagedError{}))
	for level, want := range map[string]int{"level=INFO": 1, "level=WARN": 1} {
		if n := strings.Count(r.log.String(), level); n != want {
			t.Errorf("%s %d times:\n%s", level, n, r.log.String())
		}
	}
	if s.Status().LoadError == nil {
		t.Error("no error in the status")
	}
}

// typesNamedPod returns types with one name and different fields, as that of an object has in two versions of a program.
func typesNamedPod() []reflect.Type {
	var all []reflect.Type
	add := func(t reflect.Type) { all = append(all, t) }
	func() { type pod struct{ A int }; add(reflect.TypeFor[*pod]()) }()
	func() { type pod struct{ B int }; add(reflect.TypeFor[*pod]()) }()
	func() { type pod struct{ A string }; add(reflect.TypeFor[*pod]()) }()
	func() { type pod struct{ A, B int }; add(reflect.TypeFor[*pod]()) }()
	func() { type pod struct{ A *pod }; add(reflect.TypeFor[*pod]()) }()
	func() {
		type pod struct {
			A int `json:"a"`
		}
		add(reflect.TypeFor[*pod]())
	}()
	func() {
		type spec struct{ A int }
		type pod struct{ Spec []spec }
		add(reflect.TypeFor[*pod]())
	}()
	func() {
		type spec struct{ B int }
		type pod struct{ Spec []spec }
		add(reflect.TypeFor[*pod]())
	}()
	func() {
		type spec struct{ A int }
		type pod struct{ Spec map[string]spec }
		add(reflect.TypeFor[*pod]())
	}()
	func() {
		type spec struct{ B int }
		type pod struct{ Spec map[string]spec }
		add(reflect.TypeFor[*pod]())
	}()
	func() {
		type spec struct{ A int }
		type pod struct{ spec }
		add(reflect.TypeFor[*pod]())
	}()
	func() {
		type sum [2]byte
		type pod struct{ Sum sum }
		add(reflect.TypeFor[*pod]())
	}()
	func() {
		type sum [3]byte
		type pod struct{ Sum sum }
		add(reflect.TypeFor[*pod]())
	}()
	return all
}

// The identity of a type changes with each field, tag or type of a field, at any depth.
// Guarantees: S4
func TestIdentityOfATypeHasItsFields(t *testing.T) {
	sums := map[string]reflect.Type{}
	for i, typ := range typesNamedPod() {
		var id Identity
		if id.SetType(typ); id.Type != "*github.com/typedinformer/informer/internal/source/warmstart.pod" {
			t.Errorf("type %s", id.Type)
		}
		if before, ok := sums[id.Fields]; ok {
			t.Errorf("type %d: %v has the fields of %v", i, typ.Elem().Field(0), before.Elem().Field(0))
		}
		sums[id.Fields] = typ
	}
}

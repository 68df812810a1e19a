package informer_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/snapshotfile"
)

// withHeader returns the only saved state with another header.
func withHeader(w world, c informer.WarmStartConfig, change func(header map[string]any)) []byte {
	w.Helper()
	must := func(err error) {
		w.Helper()
		if err != nil {
			w.Fatal(err)
		}
	}
	raw, err := os.ReadFile(files(w.T, c)[0])
	must(err)
	in, err := snapshotfile.NewReader(bytes.NewReader(raw))
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
			return file.Bytes()
		}
		must(err)
		for len(rest) > 0 {
			var r snapshotfile.Record
			r, rest, err = snapshotfile.Cut(rest)
			must(err)
			must(out.Append(r))
		}
	}
}

// A header that does not say what the objects are of is refused: a time in the future hides their age, and versions
// that are no numbers have no order.
// Guarantees: S4
func TestHeaderOfASavedStateIsChecked(t *testing.T) {
	later := func(d time.Duration) any { return time.Now().Add(d) }
	for _, test := range []struct {
		name, field string
		value       func() any
		why         string // empty for a warm start
	}{
		{"saved in the future", "Time", func() any { return later(61 * time.Second) }, "it was saved 1m1s in the future"},
		{"listed in the future", "Listed", func() any { return later(61 * time.Second) }, "its list began 1m1s in the future"},
		{"saved by another clock", "Time", func() any { return later(time.Minute) }, ""},
		{"listed by another clock", "Listed", func() any { return later(time.Minute) }, ""},
		{"a version that is no number", "ResourceVersion", func() any { return "2a" }, "are not numbers"},
		{"no version", "ResourceVersion", func() any { return "" }, "are not numbers"},
	} {
		forEachCompactPod(t, test.name, func(w world, compact bool) {
			config := quiet[*corev1.Pod]()
			config.Compact = compact
			config.WarmStart = warmStartDir(t)
			w.create(newPod("ns", "a", "v=1"))
			w.live(w.client(), pods, config).stop()
			w.overwrite(withHeader(w, config.WarmStart, func(header map[string]any) { header[test.field] = test.value() }), config.WarmStart)
			again := w.live(w.client(), pods, config)
			s := again.status()
			if s.Loaded != (test.why == "") || test.why != "" && !strings.Contains(s.LoadError.Error(), test.why) {
				t.Errorf("%+v", s)
			}
			equalsServer(w, again.Informer)
			again.stop()
		})
	}
}

// A saved state with an object of another namespace than its header says is refused.
// Guarantees: S4
func TestSavedStateOfAnotherNamespaceIsRefused(t *testing.T) {
	forEachCompactPod(t, "", func(w world, compact bool) {
		one, all := quiet[*corev1.Pod](), quiet[*corev1.Pod]()
		one.Compact, all.Compact = compact, compact
		one.WarmStart, all.WarmStart = warmStartDir(t), warmStartDir(t)
		w.create(newPod("ns", "a", "v=1"), newPod("other", "b", "v=1"))
		resource := pods
		resource.Namespaces = []string{"ns"}
		w.live(w.client(), resource, one).stop()
		w.live(w.client(), pods, all).stop()
		w.overwrite(withHeader(w, all.WarmStart, func(header map[string]any) { header["Namespace"] = "ns" }), one.WarmStart)
		again := w.live(w.client(), resource, one)
		if s := again.status(); s.Loaded || !strings.Contains(s.LoadError.Error(), "an object is of another namespace") {
			t.Errorf("%+v", s)
		}
		if got := names(again.Store().List()); got != "ns/a" {
			t.Errorf("the store has %s", got)
		}
		again.stop()
	})
}

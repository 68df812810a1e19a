package informertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// apply returns the patched document, or the error.
func apply(apply func([]byte, jsonpatch.Patch) ([]byte, error), document, patch string) (string, error) {
	operations, err := jsonpatch.DecodePatch([]byte(patch))
	if err != nil {
		return "", err
	}
	got, err := apply([]byte(document), operations)
	return string(got), err
}

// upstream is kube-apiserver's implementation.
func upstream(document []byte, patch jsonpatch.Patch) ([]byte, error) { return patch.Apply(document) }

// Guarantees: W10
func TestJSONPatchIsAsInKubeAPIServer(t *testing.T) {
	for _, test := range []struct{ document, patch, want string }{ // an empty want is an error
		{`{"a":1}`, `[{"op":"add","path":"/b","value":[1,2]}]`, `{"a":1,"b":[1,2]}`},
		{`{"a":1}`, `[{"op":"add","path":"/b"}]`, `{"a":1,"b":null}`},
		{`{"a":[1,2]}`, `[{"op":"add","path":"/a/1","value":3}]`, `{"a":[1,3,2]}`},
		{`{"a":[1,2]}`, `[{"op":"add","path":"/a/-","value":3}]`, `{"a":[1,2,3]}`},
		{`{"a":[1,2]}`, `[{"op":"add","path":"/a/-1","value":3}]`, `{"a":[1,2,3]}`},
		{`{"a":[1,2]}`, `[{"op":"add","path":"/a/2","value":3}]`, `{"a":[1,2,3]}`},
		{`{"a":[1,2]}`, `[{"op":"add","path":"/a/3","value":3}]`, ``},
		{`{"a":[1,2]}`, `[{"op":"add","path":"/a/-4","value":3}]`, ``},
		{`{"a":[1,2]}`, `[{"op":"add","path":"/a/x","value":3}]`, ``},
		{`{"a":1}`, `[{"op":"add","path":"/b/c","value":3}]`, ``},
		{`{"a":1}`, `[{"op":"add","path":"/a/c","value":3}]`, ``},
		{`{"a":null}`, `[{"op":"add","path":"/a/c","value":3}]`, ``},
		{`{"a":1}`, `[{"op":"add","path":"","value":{}}]`, ``},
		{`{"a":1}`, `[{"op":"add","path":"b","value":2}]`, ``},
		{`{"a":1}`, `[{"op":"add","value":2}]`, ``},
		{`{"a~/b":{"c":1}}`, `[{"op":"replace","path":"/a~0~1b/c","value":2}]`, `{"a~/b":{"c":2}}`},
		{`{"a":1}`, `[{"op":"replace","path":"/b","value":2}]`, `{"a":1,"b":2}`}, // RFC 6902 requires the field to exist
		{`{"a":[1]}`, `[{"op":"replace","path":"/a/-1","value":2}]`, `{"a":[2]}`},
		{`{"a":[1]}`, `[{"op":"replace","path":"/a/1","value":2}]`, ``},
		{`{"a":1}`, `[{"op":"replace","path":"","value":{"b":2}}]`, `{"b":2}`},
		{`{"a":[1,2,3]}`, `[{"op":"remove","path":"/a/1"},{"op":"remove","path":"/a/-1"}]`, `{"a":[1]}`},
		{`{"a":1}`, `[{"op":"remove","path":"/b"}]`, ``},
		{`{"a":[]}`, `[{"op":"remove","path":"/a/0"}]`, ``},
		{`{"a":{"b":1},"c":[]}`, `[{"op":"move","from":"/a/b","path":"/c/0"}]`, `{"a":{},"c":[1]}`},
		{`{"a":{"b":1}}`, `[{"op":"move","from":"/a","path":"/a/b"}]`, ``},
		{`{"a":1}`, `[{"op":"move","from":"/b","path":"/c"}]`, ``},
		{`{"a":1}`, `[{"op":"move","path":"/c"}]`, ``},
		{`{"a":{"b":1}}`, `[{"op":"copy","from":"/a","path":"/a/c"},{"op":"add","path":"/a/c/b","value":2}]`, `{"a":{"b":1,"c":{"b":2}}}`},
		{`{"a":1}`, `[{"op":"copy","from":"/b","path":"/c"}]`, `{"a":1,"c":null}`},
		{`{"a":1}`, `[{"op":"copy","from":"","path":"/c"}]`, ``},
		{`{"a":[1]}`, `[{"op":"copy","from":"/a/1","path":"/c"}]`, ``},
		{`{"a":[1,{"b":"c"}]}`, `[{"op":"test","path":"/a","value":[1,{"b":"c"}]}]`, `{"a":[1,{"b":"c"}]}`},
		{`{"a":[1,{"b":"c"}]}`, `[{"op":"test","path":"","value":{"a":[1,{"b":"c"}]}}]`, `{"a":[1,{"b":"c"}]}`},
		{`{"a":1}`, `[{"op":"test","path":"/a","value":2}]`, ``},
		{`{"a":1}`, `[{"op":"test","path":"/a","value":[1]}]`, ``},
		{`{"a":[1,2]}`, `[{"op":"test","path":"/a","value":[1]}]`, ``},
		{`{"a":1}`, `[{"op":"test","path":"/b","value":null}]`, `{"a":1}`},
		{`{"a":1}`, `[{"op":"test","path":"/b","value":1}]`, ``},
		{`{"a":12345678901234567890}`, `[{"op":"copy","from":"/a","path":"/b"}]`, `{"a":12345678901234567890,"b":12345678901234567890}`},
		{`{"a":1}`, `[{"op":"twist","path":"/a"}]`, ``},
		{`{"a":1}`, `[null]`, ``},
	} {
		for name, with := range map[string]func([]byte, jsonpatch.Patch) ([]byte, error){"ours": applyJSONPatch, "kube-apiserver's": upstream} {
			got, err := apply(with, test.document, test.patch)
			if got != test.want || (err != nil) != (test.want == "") {
				t.Errorf("%s: %s of %s: %s, %v, want %q", name, test.patch, test.document, got, err, test.want)
			}
		}
	}
}

// A patch that makes kube-apiserver's package panic is an error here.
func TestJSONPatchNeverPanics(t *testing.T) {
	for _, patch := range []string{
		`[{"op":"test","path":""}]`,
		`[{"op":"test","path":"/nulls","value":[1,1]}]`,
		`[{"op":"replace","path":""},{"op":"add","path":"/a","value":1}]`,
	} {
		if got, err := apply(applyJSONPatch, `{"nulls":[null,null]}`, patch); err == nil {
			t.Errorf("%s: %s", patch, got)
		}
	}
}

// Guarantees: W10
func TestJSONPatchLimitsWhatItCopies(t *testing.T) {
	value := strings.Repeat("x", 1<<10-2) // with its quotes, 1 KiB
	document := fmt.Sprintf(`{"a":%q}`, value)
	copies := func(n int, from string) string {
		var operations []string
		for i := range n {
			operations = append(operations, fmt.Sprintf(`{"op":"copy","from":%q,"path":"/b%d"}`, from, i))
		}
		return "[" + strings.Join(operations, ",") + "]"
	}
	if _, err := apply(applyJSONPatch, document, copies(maxPatchCopies>>10, "/a")); err != nil {
		t.Errorf("copies of 3 MiB: %v", err)
	}
	_, err := apply(applyJSONPatch, document, copies(maxPatchCopies>>10+1, "/a"))
	if tooMuch := (*jsonpatch.AccumulatedCopySizeError)(nil); !errors.As(err, &tooMuch) ||
		err.Error() != "Unable to complete the copy, the accumulated size increase of copy is 3146752, exceeding the limit 3145728" {
		t.Errorf("copies of more: %v", err)
	}

	// Each operation of this patch doubles the document.
	var operations []string
	for i := range 1000 {
		operations = append(operations, fmt.Sprintf(`{"op":"copy","from":"/a","path":"/a/%d"}`, i))
	}
	if _, err := apply(applyJSONPatch, fmt.Sprintf(`{"a":{"b":%q}}`, strings.Repeat("x", 1<<16)), "["+strings.Join(operations, ",")+"]"); err == nil {
		t.Error("a document of more than 2^1000 bytes")
	}
}

// TestJSONPatchIsAsInKubeAPIServer_Random compares random patches with kube-apiserver's results.
func TestJSONPatchIsAsInKubeAPIServer_Random(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(choices ...string) string { return choices[random.IntN(len(choices))] }
	path := func() (p string) {
		for range 1 + random.IntN(3) {
			p += "/" + pick("a", "b", "c", "0", "1", "-", "-1", "2")
		}
		return p
	}
	value := func() string {
		return pick(`1`, `"x"`, `null`, `{}`, `[]`, `{"a":[1,2]}`, `[{"b":1},2]`, `true`, `1.50`)
	}
	applied := 0
	for range 5_000 {
		var operations []string
		for range 1 + random.IntN(4) {
			op := map[string]any{"op": pick("add", "remove", "replace", "move", "copy", "test"), "path": path(), "from": path(), "value": json.RawMessage(value())}
			b, err := json.Marshal(op)
			if err != nil {
				t.Fatal(err)
			}
			operations = append(operations, string(b))
		}
		document := fmt.Sprintf(`{"a":%s,"b":%s,"c":%s}`, value(), value(), value())
		patch := "[" + strings.Join(operations, ",") + "]"
		want, wantErr, panicked := "", error(nil), false
		func() {
			defer func() { panicked = recover() != nil }()
			want, wantErr = apply(upstream, document, patch)
		}()
		got, err := apply(applyJSONPatch, document, patch)
		if panicked {
			continue
		}
		if (err == nil) != (wantErr == nil) || got != want {
			t.Fatalf("seed %d: %s of %s:\ngot  %s, %v\nwant %s, %v", seed, patch, document, got, err, want, wantErr)
		}
		if err == nil {
			applied++
		}
	}
	if applied < 150 { // about 280 are expected; 20 fewer are normal
		t.Errorf("seed %d: only %d patches applied", seed, applied)
	}
}

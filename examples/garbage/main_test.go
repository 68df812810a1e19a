package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// Objects whose owners do not exist are garbage, and what they own is, too. An object that one owner keeps is none.
func TestGarbageIsPrinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		if err := run(t.Context(), nil, &out); err != nil {
			t.Fatal(err)
		}
		want := `replicasets.apps default/old-7f: its owner Deployment old does not exist
configmaps default/theme: its owner Shop flowers does not exist
pods default/old-1: its owner ReplicaSet old-7f is garbage
3 of 9 objects of 8 kinds are garbage
`
		if got := sorted(out.String()); got != sorted(want) {
			t.Errorf("printed\n%s\nwant\n%s", got, sorted(want))
		}
	})
}

// sorted returns the lines of a text in order: kinds join the set in the order of their names.
func sorted(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// If a kind cannot be listed, its objects may exist: what they own is no garbage.
func TestWhatIsNotKnownIsNoGarbage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simulate()
		defer server.Close()
		defer server.Inject(informertest.Fault{Resource: "shops", Error: apierrors.NewForbidden(schema.GroupResource{}, "", nil)})()
		client, err := informer.NewClient(server.Config())
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := report(t.Context(), client, 10*time.Second, &out); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.Contains(got, "not known: ") || !strings.Contains(got, "shops.shop.example.com") ||
			strings.Contains(got, "theme") || !strings.Contains(got, "old-1") {
			t.Errorf("printed\n%s", got)
		}
	})
}

package clientgo

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/typedinformer/informer/proof/internal/copied"
)

// client-go's own tests of the informers of the metadata and the dynamic client, most over fake clients, pass with ours.
//
// Guarantees: P1, P5
func TestInformersOverFakes(t *testing.T) {
	if *whose == "theirs" {
		t.Log("client-go's tests pass with client-go's informers")
		return
	}
	ctx := t.Context()
	root, err := copied.Root(ctx)
	if err != nil {
		t.Fatal(err)
	}
	version, err := copied.Version(ctx, filepath.Join(root, "clientgo"), "k8s.io/client-go", "-modfile=go.newest.mod")
	if err != nil {
		t.Fatal(err)
	}
	client, err := copied.Copy(ctx, "k8s.io/client-go", version, filepath.Join(t.TempDir(), "client-go"))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.UseInformers(ctx, root); err != nil {
		t.Fatal(err)
	}
	for folder, atLeast := range map[string]int{"metadata/metadatainformer": 6, "dynamic/dynamicinformer": 10} {
		passed := 0
		for _, o := range all(t, client, copied.Run{Packages: []string{"./" + folder}, Flags: []string{"-timeout=10m"}}, "our") {
			switch {
			case o.Passed:
				passed++
			case !o.Skipped:
				t.Errorf("fails: %s\n%s", o.Test, o.Message)
			}
		}
		if passed < atLeast {
			t.Errorf("%s: %d tests passed, want at least %d", strings.TrimSuffix(folder, "/"), passed, atLeast)
		}
	}
}

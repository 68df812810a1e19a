package kubernetes

import (
	"path/filepath"
	"testing"

	"github.com/typedinformer/informer/proof/internal/copied"
	"github.com/typedinformer/informer/proof/internal/outcome"
)

// unit are packages whose own tests run controllers over fake clientsets.
var unit = []suite{
	{"k8s.io/kubernetes/pkg/controller/replicaset", 30},
}

// Unit tests of Kubernetes' controllers pass when the informers of their fake clientsets are ours.
//
// Guarantees: P1, P5
func TestUnit(t *testing.T) {
	ctx := t.Context()
	k, err := copySource(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, err := copied.Root(ctx)
	if err != nil {
		t.Fatal(err)
	}
	version, err := copied.Version(ctx, k.Dir, "k8s.io/client-go")
	if err != nil {
		t.Fatal(err)
	}
	client, err := copied.Copy(ctx, "k8s.io/client-go", version, filepath.Join(k.Dir, "client-go"))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.UseInformers(ctx, root); err != nil {
		t.Fatal(err)
	}
	if err := k.Require(ctx, map[string]string{
		"github.com/typedinformer/informer":          root,
		"github.com/typedinformer/informer/clientgo": filepath.Join(root, "clientgo"),
		"k8s.io/client-go":                           client.Dir,
	}); err != nil {
		t.Fatal(err)
	}
	for _, s := range unit {
		t.Run(filepath.Base(s.name), func(t *testing.T) {
			all, err := k.Test(ctx, copied.Run{
				Packages: []string{s.name},
				Flags:    []string{"-trimpath", "-timeout=" + bound.String()},
				Env:      append([]string{"CGO_ENABLED=0"}, k.env()...),
			})
			if err != nil {
				t.Fatal(err)
			}
			n := outcome.CountOf(all)
			t.Logf("Kubernetes %s: %d passed, %d failed, %d skipped", k.version, n.Passed, n.Failed, n.Skipped)
			check(t, s, all, nil)
			checkEnough(t, s, "ours", all)
		})
	}
}

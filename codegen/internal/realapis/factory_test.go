package realapis

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// clientsets are published modules with a clientset and listers of code-generator.
var clientsets = []struct {
	module    string
	clientset string
	packages  string // with the types
	version   string // the only one, below the output directory
}{
	{"sigs.k8s.io/lws@v0.8.0", "sigs.k8s.io/lws/client-go/clientset/versioned", "sigs.k8s.io/lws/api/...", "leaderworkerset/v1"},
	{"sigs.k8s.io/jobset@v0.8.0", "sigs.k8s.io/jobset/client-go/clientset/versioned", "sigs.k8s.io/jobset/api/...", "jobset/v1alpha2"},
}

// A factory for a published clientset compiles. It leaves out packages without a client, such as those of configuration
// files.
func TestFactoriesOfPublishedClientsets(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	codegen := filepath.Join(t.TempDir(), "codegen")
	run(t, "go", "build", "-o", codegen, "github.com/typedinformer/informer/codegen")
	for _, c := range clientsets {
		t.Run(c.module, func(t *testing.T) {
			dir := probe(t, c.module)
			inProbe(t, dir, exec.CommandContext(t.Context(), codegen, "-factory", c.clientset, c.packages))
			inProbe(t, dir, exec.CommandContext(t.Context(), "go", "mod", "edit",
				"-replace=github.com/typedinformer/informer="+root,
				"-replace=github.com/typedinformer/informer/clientgo="+filepath.Join(root, "clientgo"),
				"-require=github.com/typedinformer/informer/clientgo@v0.0.0"))
			inProbe(t, dir, exec.CommandContext(t.Context(), "go", "build", "./..."))
			versions, err := filepath.Glob(filepath.Join(dir, "informers", "*", "*", "interface.go"))
			if err != nil {
				t.Fatal(err)
			}
			if want := filepath.Join(dir, "informers", c.version, "interface.go"); !slices.Equal(versions, []string{want}) {
				t.Errorf("versions: %v, want %s", versions, want)
			}
		})
	}
}

package conformance

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/typedinformer/informer/proof/internal/copied"
)

const module = "sigs.k8s.io/controller-runtime"

// copySource copies the sources of controller-runtime to dir, at the newest version that crcache is tested with. It makes
// the copy use the versions of k8s.io/* that module crds is tested with, so that these are compiled once for all.
func copySource(ctx context.Context, project, dir string) (m copied.Module, err error) {
	newest := "-modfile=go.newest.mod"
	version, err := copied.Version(ctx, filepath.Join(project, "crcache"), module, newest)
	if err != nil {
		return m, err
	}
	apiextensions := "k8s.io/apiextensions-apiserver" // it requires the others, each of the same version
	tested, err := copied.Version(ctx, filepath.Join(project, "informertest", "crds"), apiextensions, newest)
	if err != nil {
		return m, err
	}
	if m, err = copied.Copy(ctx, module, version, dir); err != nil {
		return m, err
	}
	_, err = copied.Go(ctx, m.Dir, "mod", "edit", "-require="+apiextensions+"@"+tested)
	return m, err
}

//go:embed testdata/plane.go
var plane []byte

// useOurs changes m, the copy of controller-runtime's sources, so that its test environment starts a server of package
// informertest in the process of the test.
func useOurs(ctx context.Context, m copied.Module, project string) error {
	err := m.Require(ctx, map[string]string{
		"github.com/typedinformer/informer":                   project,
		"github.com/typedinformer/informer/informertest/crds": filepath.Join(project, "informertest", "crds"),
	})
	if err != nil {
		return err
	}
	controlPlane := filepath.Join(m.Dir, "pkg", "internal", "testing", "controlplane")
	if err := os.WriteFile(filepath.Join(controlPlane, "zz_informertest.go"), plane, 0o644); err != nil {
		return err
	}
	receiver := "func (f *ControlPlane) "
	err = replace(filepath.Join(controlPlane, "plane.go"),
		receiver+"Start(", receiver+"startBinaries(",
		receiver+"Stop(", receiver+"stopBinaries(",
		receiver+"AddUser(", receiver+"addUserOfBinaries(",
	)
	if err != nil {
		return err
	}
	return replace(filepath.Join(m.Dir, "pkg", "envtest", "server.go"), "if te.DownloadBinaryAssets {", "if false {")
}

// replace changes texts of a file. Each pair is the old text, which the file must have exactly once, and the new one.
func replace(file string, pairs ...string) error {
	src, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text := string(src)
	for i := 0; i < len(pairs); i += 2 {
		if n := strings.Count(text, pairs[i]); n != 1 {
			return fmt.Errorf("%s has %q %d times, want once", file, pairs[i], n)
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

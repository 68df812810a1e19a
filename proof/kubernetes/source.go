package kubernetes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/typedinformer/informer/proof/internal/copied"
)

const (
	module = "k8s.io/kubernetes"
	theirs = "k8s.io/client-go/informers"
	ours   = "github.com/typedinformer/informer/clientgo/informers"
)

// kubernetes is a module whose folder has a copy of Kubernetes, which it requires.
type kubernetes struct {
	copied.Module
	version string // of Kubernetes
}

// env returns the environment by which the tests find their sources. They are compiled with -trimpath, as the
// kube-apiserver of e2e, so their path begins with the name of the module, and they add these folders to it.
func (k kubernetes) env() []string {
	return []string{"TEST_SRCDIR=" + filepath.Join(k.Dir, "trimmed"), "TEST_WORKSPACE=."}
}

// copySource makes a module in dir that requires Kubernetes from a copy below dir. All modules have the versions of
// e2e/apiserver, so packages that its kube-apiserver was compiled from are not compiled again.
func copySource(ctx context.Context, dir string) (k kubernetes, err error) {
	root, err := copied.Root(ctx)
	if err != nil {
		return k, err
	}
	apiserver := filepath.Join(root, "e2e", "apiserver")
	version, err := copied.Version(ctx, apiserver, module)
	if err != nil {
		return k, err
	}
	if _, err := copied.Copy(ctx, module, version, filepath.Join(dir, "kubernetes")); err != nil {
		return k, err
	}
	trimmed := filepath.Join(dir, "trimmed", module+"@"+version)
	if err := os.MkdirAll(filepath.Dir(trimmed), 0o755); err != nil {
		return k, err
	}
	if err := os.Symlink(filepath.Join(dir, "kubernetes"), trimmed); err != nil {
		return k, err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(apiserver, name))
		if err != nil {
			return k, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return k, err
		}
	}
	_, err = copied.Go(ctx, dir, "mod", "edit", "-module=tests", "-droptool="+module+"/cmd/kube-apiserver",
		"-replace="+module+"=./kubernetes")
	return kubernetes{copied.Module{Dir: dir}, version}, err
}

// useOurs makes the copy use our informers. storage has the fields of a clientgo Options, in Go; empty for the default.
func useOurs(ctx context.Context, m copied.Module, storage string) error {
	root, err := copied.Root(ctx)
	if err != nil {
		return err
	}
	err = m.Require(ctx, map[string]string{
		"github.com/typedinformer/informer":          root,
		"github.com/typedinformer/informer/clientgo": filepath.Join(root, "clientgo"),
	})
	if err != nil {
		return err
	}
	to := ours
	if storage != "" {
		to = module + "/informerswithstorage"
	}
	files, err := m.Rewrite(map[string]string{theirs: to})
	if err != nil {
		return err
	}
	if files < 100 {
		return fmt.Errorf("only %d files of %s import %s", files, module, theirs)
	}
	if storage == "" {
		return nil
	}
	folder := filepath.Join(m.Dir, "kubernetes", "informerswithstorage")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "informers.go"), []byte(copied.InformersWithStorage(storage)), 0o644)
}

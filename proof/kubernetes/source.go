package kubernetes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/typedinformer/informer/proof/internal/copied"
)

const (
	module = "k8s.io/kubernetes"
	theirs = "k8s.io/client-go/informers"
	ours   = "github.com/typedinformer/informer/clientgo/informers"
)

// unversioned matches the modules in Kubernetes' go.mod that have its own version.
var unversioned = regexp.MustCompile(`(?m)^\s+(k8s\.io/\S+) v0\.0\.0$`)

// copySource copies the sources of Kubernetes at version, such as v1.36.3, to dir, and completes their go.mod.
func copySource(ctx context.Context, version, dir string) (copied.Module, error) {
	m, err := copied.Copy(ctx, module, version, dir)
	if err != nil {
		return m, err
	}
	goMod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return m, err
	}
	rest, ok := strings.CutPrefix(version, "v1.")
	if !ok {
		return m, fmt.Errorf("version %q of %s is not v1.MINOR.PATCH", version, module)
	}
	args := []string{"mod", "edit"}
	for _, found := range unversioned.FindAllSubmatch(goMod, -1) {
		args = append(args, fmt.Sprintf("-replace=%[1]s=%[1]s@v0.%[2]s", found[1], rest))
	}
	_, err = copied.Go(ctx, dir, args...)
	return m, err
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
	folder := filepath.Join(m.Dir, "informerswithstorage")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "informers.go"), []byte(withStorage(storage)), 0o644)
}

// withStorage returns the source of a package that is like our informers, with storage set in each factory.
func withStorage(storage string) string {
	return `package informers

import (
	"time"

	"` + ours + `"
	"k8s.io/client-go/kubernetes"
)

type (
	SharedInformerFactory = informers.SharedInformerFactory
	SharedInformerOption  = informers.SharedInformerOption
	GenericInformer       = informers.GenericInformer
)

var (
	WithCustomResyncConfig = informers.WithCustomResyncConfig
	WithTweakListOptions   = informers.WithTweakListOptions
	WithNamespace          = informers.WithNamespace
	WithTransform          = informers.WithTransform
)

func NewSharedInformerFactory(client kubernetes.Interface, resync time.Duration) SharedInformerFactory {
	return NewSharedInformerFactoryWithOptions(client, resync)
}

func NewSharedInformerFactoryWithOptions(client kubernetes.Interface, resync time.Duration, options ...SharedInformerOption) SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(client, resync,
		append(options, informers.WithStorage(informers.Options{` + storage + `}))...)
}
`
}

package copied

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// UseInformers changes m, a copy of client-go: what makes an informer over a ListerWatcher in its packages of informers,
// the generated ones and those of the dynamic and the metadata client, calls package clientgo/cache of the project in
// folder root. So these informers are ours with a fake client, too.
func (m Module) UseInformers(ctx context.Context, root string) error {
	const theirs, ours = `"k8s.io/client-go/tools/cache"`, `"github.com/typedinformer/informer/clientgo/cache"`
	replacer := strings.NewReplacer(
		"cache.NewSharedIndexInformer", "ours.NewSharedIndexInformer",
		theirs, theirs+"\n\tours "+ours,
	)
	files := 0
	for _, folder := range []string{"informers", "dynamic/dynamicinformer", "metadata/metadatainformer"} {
		if err := filepath.WalkDir(filepath.Join(m.Dir, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			before, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(before), "cache.NewSharedIndexInformer") {
				return err
			}
			files++
			return os.WriteFile(path, []byte(replacer.Replace(string(before))), 0o644)
		}); err != nil {
			return err
		}
	}
	if files < 40 {
		return fmt.Errorf("only %d files of client-go make an informer", files)
	}
	return m.Require(ctx, map[string]string{
		"github.com/typedinformer/informer":          root,
		"github.com/typedinformer/informer/clientgo": filepath.Join(root, "clientgo"),
	})
}

package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/typedinformer/informer/proof/internal/copied"
)

const (
	informer   = "github.com/typedinformer/informer"
	clientgo   = informer + "/clientgo"
	informers  = `"k8s.io/client-go/informers"`
	kubernetes = "k8s.io/kubernetes"
	// storageVar is the environment variable that chooses the layout of our informers: Shared or Compact. If it is empty,
	// they have the default of clientgo.
	storageVar = "PROOF_STORAGE"
	// debugVar is the environment variable with the address of the pages of net/http/pprof.
	debugVar = "PROOF_DEBUG"
)

// edit replaces a text that occurs once in a file of a program.
type edit struct{ file, from, to string }

// build compiles programs into folder bin, each with client-go's informers and with ours, except those that are there.
func build(ctx context.Context, all []program, bin string) error {
	dir, err := os.MkdirTemp("", "proof-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, p := range all {
		if _, err := os.Stat(filepath.Join(bin, p.binary(kinds[1]))); err == nil {
			continue
		}
		if err := p.build(ctx, filepath.Join(dir, p.name), bin); err != nil {
			return fmt.Errorf("build %s: %w", p, err)
		}
	}
	return nil
}

// build compiles p in folder dir, which must not exist.
func (p program) build(ctx context.Context, dir, bin string) error {
	project, err := copied.Root(ctx)
	if err != nil {
		return err
	}
	version := p.version
	if p.module == kubernetes {
		if version, err = copied.Version(ctx, filepath.Join(project, "e2e", "apiserver"), kubernetes); err != nil {
			return err
		}
	}
	source := filepath.Join(dir, "source")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	m, err := copied.Copy(ctx, p.module, version, source)
	if err != nil {
		return err
	}
	if p.module == kubernetes {
		if m, err = around(ctx, dir, project); err != nil {
			return err
		}
	}
	if err := m.Require(ctx, map[string]string{
		informer: project, clientgo: filepath.Join(project, "clientgo"),
	}); err != nil {
		return err
	}
	if err := write(filepath.Join(source, "proofinformers", "informers.go"), ourInformers()); err != nil {
		return err
	}
	if err := write(filepath.Join(source, p.main, "zz_proof.go"), debugPages); err != nil {
		return err
	}
	if err := apply(source, p.equal); err != nil {
		return err
	}
	if err := p.compile(ctx, m, version, filepath.Join(bin, p.binary(kinds[0]))); err != nil {
		return err
	}
	if err := apply(source, append(undo(p.equal), p.edits...)); err != nil {
		return err
	}
	return p.compile(ctx, m, version, filepath.Join(bin, p.binary(kinds[1])))
}

// around makes a module in dir that requires Kubernetes from the copy below it. Kubernetes' own go.mod needs modules
// that are not in its copy, so this one has the versions of e2e/apiserver.
func around(ctx context.Context, dir, project string) (copied.Module, error) {
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(project, "e2e", "apiserver", name))
		if err != nil {
			return copied.Module{}, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return copied.Module{}, err
		}
	}
	_, err := copied.Go(ctx, dir, "mod", "edit", "-module=programs", "-droptool="+kubernetes+"/cmd/kube-apiserver",
		"-replace="+kubernetes+"=./source")
	return copied.Module{Dir: dir}, err
}

// compile compiles p in module m, to a file. Without the version in its flags, a part of Kubernetes assumes v0.0.0, and
// derives its feature gates and their defaults from that.
func (p program) compile(ctx context.Context, m copied.Module, version, to string) error {
	flags := "-s -w"
	if parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3); p.module == kubernetes && len(parts) == 3 {
		flags += fmt.Sprintf(" -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s",
			"k8s.io/component-base/version", version, parts[0], parts[1])
	}
	_, err := copied.Go(ctx, m.Dir, "build", "-mod=mod", "-trimpath", "-ldflags", flags, "-o", to,
		path.Join(p.module, p.main))
	return err
}

// apply changes the copy of a program in dir.
func apply(dir string, edits []edit) error {
	for _, e := range edits {
		file := filepath.Join(dir, filepath.FromSlash(e.file))
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if n := strings.Count(string(text), e.from); n != 1 {
			return fmt.Errorf("%s has %s %d times: this version is not known", e.file, e.from, n)
		}
		if err := os.WriteFile(file, []byte(strings.Replace(string(text), e.from, e.to, 1)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// undo returns what reverts edits.
func undo(edits []edit) (reverse []edit) {
	for _, e := range slices.Backward(edits) {
		reverse = append(reverse, edit{e.file, e.to, e.from})
	}
	return reverse
}

func write(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// ourInformers returns the source of a package that is like our informers. Each factory has the storage that storageVar
// chooses.
func ourInformers() string {
	return copied.InformersWithStorage(`DropManagedFields: true, Layout: layouts[os.Getenv("`+storageVar+`")]`) + `
var layouts = map[string]*informer.Layout{
	"Shared":  new(informer.LayoutShared),
	"Compact": new(informer.LayoutCompact),
}
`
}

// debugPages is the source of a file that is added to the main package of each program.
const debugPages = `package main

import (
	"net/http"
	_ "net/http/pprof"
	"os"
)

func init() {
	if address := os.Getenv("` + debugVar + `"); address != "" {
		go func() { panic(http.ListenAndServe(address, nil)) }()
	}
}
`

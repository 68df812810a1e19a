package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/typedinformer/informer/proof/internal/copied"
)

const (
	informer   = "github.com/typedinformer/informer"
	clientgo   = informer + "/clientgo"
	informers  = `"k8s.io/client-go/informers"`
	kubernetes = "k8s.io/kubernetes"
	// storageVar is the environment variable that chooses how our informers hold objects: Share, Compact or neither.
	storageVar = "PROOF_STORAGE"
	// debugVar is the environment variable with the address of the pages of net/http/pprof.
	debugVar = "PROOF_DEBUG"
)

// edit replaces a text that occurs once in a file of a program.
type edit struct{ file, from, to string }

// workspace is a folder with the module that programs are compiled in, and copies of their modules.
type workspace struct {
	project string // the folder of this project
	dir     string
	version string // of Kubernetes
}

// newWorkspace makes a module in dir with the versions of e2e/apiserver, so packages that its kube-apiserver was
// compiled from are not compiled again.
func newWorkspace(ctx context.Context, dir string) (w workspace, err error) {
	w.dir = dir
	if w.project, err = copied.Root(ctx); err != nil {
		return w, err
	}
	apiserver := filepath.Join(w.project, "e2e", "apiserver")
	if w.version, err = copied.Version(ctx, apiserver, kubernetes); err != nil {
		return w, err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(apiserver, name))
		if err != nil {
			return w, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return w, err
		}
	}
	if err := (copied.Module{Dir: dir}).Require(ctx, map[string]string{
		informer: w.project, clientgo: filepath.Join(w.project, "clientgo"),
	}); err != nil {
		return w, err
	}
	_, err = copied.Go(ctx, dir, "mod", "edit", "-module=programs", "-droptool="+kubernetes+"/cmd/kube-apiserver")
	return w, err
}

// build compiles a program into folder bin, with client-go's informers and with ours.
func (w workspace) build(ctx context.Context, p program, bin string) error {
	dir := filepath.Join(w.dir, strings.ReplaceAll(p.module, "/", "+"))
	if _, err := os.Stat(dir); err != nil { // no other program of this module was built
		version := p.version
		if version == "" {
			version = w.version
		}
		if _, err := copied.Copy(ctx, p.module, version, dir); err != nil {
			return err
		}
		if _, err := copied.Go(ctx, w.dir, "mod", "edit", "-require="+p.module+"@"+version,
			"-replace="+p.module+"="+dir); err != nil {
			return err
		}
		if err := write(filepath.Join(dir, "proofinformers", "informers.go"), ourInformers()); err != nil {
			return err
		}
	}
	if err := write(filepath.Join(dir, p.main, "zz_proof.go"), debugPages); err != nil {
		return err
	}
	if err := w.compile(ctx, p, filepath.Join(bin, p.binary(kinds[0]))); err != nil {
		return err
	}
	if err := useOurs(dir, p); err != nil {
		return err
	}
	return w.compile(ctx, p, filepath.Join(bin, p.binary(kinds[1])))
}

// buildAll builds programs into folder bin, except those that are there.
func buildAll(ctx context.Context, all []program, bin string) error {
	dir, err := os.MkdirTemp("", "proof-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	w, err := newWorkspace(ctx, dir)
	if err != nil {
		return err
	}
	for _, p := range all {
		if _, err := os.Stat(filepath.Join(bin, p.binary(kinds[1]))); err == nil {
			continue
		}
		if err := w.build(ctx, p, bin); err != nil {
			return fmt.Errorf("build %s: %w", p, err)
		}
	}
	return nil
}

// compile compiles p as e2e compiles kube-apiserver. Without the version in its flags, a part of Kubernetes assumes
// v0.0.0, and derives its feature gates and their defaults from that.
func (w workspace) compile(ctx context.Context, p program, to string) error {
	parts := strings.SplitN(strings.TrimPrefix(w.version, "v"), ".", 3)
	if len(parts) != 3 {
		return fmt.Errorf("%s has version %q, want vMAJOR.MINOR.PATCH", kubernetes, w.version)
	}
	const pkg = "k8s.io/component-base/version"
	flags := fmt.Sprintf("-s -w -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s", pkg, w.version,
		parts[0], parts[1])
	_, err := copied.Go(ctx, w.dir, "build", "-mod=mod", "-trimpath", "-ldflags", flags, "-o", to,
		p.module+"/"+filepath.ToSlash(p.main))
	return err
}

// useOurs changes the copy of a program in dir, so that it uses our informers.
func useOurs(dir string, p program) error {
	for _, e := range p.edits {
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

func write(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// ourInformers returns the source of a package that is like our informers. Each factory has the storage that storageVar
// chooses.
func ourInformers() string {
	return copied.InformersWithStorage(`DropManagedFields: true, Share: storage == "Share", Compact: storage == "Compact"`) +
		"\nvar storage = os.Getenv(\"" + storageVar + "\")\n"
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

package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Binaries are the programs that a cluster consists of, as paths.
type Binaries struct {
	Etcd          string
	KubeAPIServer string
}

// Build compiles etcd and kube-apiserver at the versions of the modules e2e/etcd and e2e/apiserver, into the
// folder .bin of the module e2e. It needs the go command, and the network if the module cache lacks a module.
//
// The first time takes four minutes on two free cores. A program that is up to date is left alone, which go build
// finds out in about a second. [Start] calls Build: call it for itself only to have the programs ahead of time.
//
// Several Builds at a time are safe, since go build moves a finished program into place, but each compiles what
// the others have not finished yet.
func Build(ctx context.Context) (Binaries, error) {
	root, err := moduleDir(ctx)
	if err != nil {
		return Binaries{}, err
	}
	bin := Binaries{
		Etcd:          filepath.Join(root, ".bin", "etcd"),
		KubeAPIServer: filepath.Join(root, ".bin", "kube-apiserver"),
	}
	err = goBuild(ctx, filepath.Join(root, "etcd"), bin.Etcd, "go.etcd.io/etcd/server/v3", "-s -w")
	if err != nil {
		return Binaries{}, err
	}
	apiserver := filepath.Join(root, "apiserver")
	version, err := goCommand(ctx, apiserver, "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return Binaries{}, err
	}
	ldflags, err := versionFlags(version)
	if err != nil {
		return Binaries{}, err
	}
	err = goBuild(ctx, apiserver, bin.KubeAPIServer, "k8s.io/kubernetes/cmd/kube-apiserver", ldflags)
	if err != nil {
		return Binaries{}, err
	}
	return bin, nil
}

// moduleDir returns the folder of the module e2e. It asks the go command, so that it is found from every module
// that can import this package, and from a test binary built with -trimpath.
func moduleDir(ctx context.Context) (string, error) {
	dir, err := goCommand(ctx, "", "list", "-f", "{{.Dir}}", "github.com/typedinformer/informer/e2e/cluster")
	if err != nil {
		return "", err
	}
	return filepath.Dir(dir), nil
}

// versionFlags returns the linker flags that tell kube-apiserver its version. Without them it takes itself for
// v0.0.0 and judges by that which of its feature gates there are and what they default to.
func versionFlags(version string) (string, error) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) != 3 {
		return "", fmt.Errorf("cluster: module k8s.io/kubernetes has version %q, want vMAJOR.MINOR.PATCH", version)
	}
	const pkg = "k8s.io/component-base/version"
	return fmt.Sprintf("-s -w -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s",
		pkg, version, parts[0], parts[1]), nil
}

func goBuild(ctx context.Context, module, output, pkg, ldflags string) error {
	_, err := goCommand(ctx, module, "build", "-o", output, "-ldflags", ldflags, pkg)
	return err
}

// goCommand runs the go command in dir, the current folder if empty, and returns its trimmed standard output.
func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	// Each module here stands for itself, whatever workspace it is checked out in. Without cgo the servers need
	// no C compiler, and no C library where they run.
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", fmt.Errorf("cluster: go %s in %q: %w\n%s", strings.Join(args, " "), dir, err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

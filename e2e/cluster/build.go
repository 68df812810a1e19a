package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Binaries has the paths of a cluster's programs.
type Binaries struct {
	Etcd          string
	KubeAPIServer string
}

// Build compiles etcd and kube-apiserver at the versions of the modules e2e/etcd and e2e/apiserver, into the
// folder .bin of the module e2e. It needs the go command, and the network if the module cache lacks a module.
//
// The first build takes four minutes on two free cores. A program that is up to date is not rebuilt; go build checks
// that in about a second. [Start] calls Build. Call it yourself only to build the programs ahead of time.
//
// Concurrent Builds are safe, since go build moves a finished program into place, but each compiles the parts that the
// others have not finished yet.
func Build(ctx context.Context) (Binaries, error) { return BuildVersion(ctx, "") }

// BuildVersion is [Build] with an older kube-apiserver, such as "1.36". The module e2e/apiserver has a file go.1.36.mod for
// it. An empty version is that of go.mod.
func BuildVersion(ctx context.Context, kubernetes string) (Binaries, error) {
	root, err := moduleDir(ctx)
	if err != nil {
		return Binaries{}, err
	}
	apiserver := filepath.Join(root, "apiserver")
	name, modFile := "kube-apiserver", filepath.Join(apiserver, "go.mod")
	if kubernetes != "" {
		name += "-" + kubernetes
		modFile = filepath.Join(apiserver, "go."+kubernetes+".mod")
		if _, err := os.Stat(modFile); err != nil {
			return Binaries{}, fmt.Errorf("cluster: no module file for Kubernetes %q: %w", kubernetes, err)
		}
	}
	bin := Binaries{Etcd: filepath.Join(root, ".bin", "etcd"), KubeAPIServer: filepath.Join(root, ".bin", name)}

	etcd := filepath.Join(root, "etcd")
	err = goBuild(ctx, etcd, filepath.Join(etcd, "go.mod"), bin.Etcd, "go.etcd.io/etcd/server/v3", "-s -w")
	if err != nil {
		return Binaries{}, err
	}
	version, err := goCommand(ctx, apiserver, "list", "-modfile", modFile, "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return Binaries{}, err
	}
	ldflags, err := versionFlags(version)
	if err != nil {
		return Binaries{}, err
	}
	err = goBuild(ctx, apiserver, modFile, bin.KubeAPIServer, "k8s.io/kubernetes/cmd/kube-apiserver", ldflags)
	if err != nil {
		return Binaries{}, err
	}
	return bin, nil
}

// moduleDir returns the folder of the module e2e. It asks the go command, which works in every module that can import
// this package, and in a test binary built with -trimpath.
func moduleDir(ctx context.Context) (string, error) {
	dir, err := goCommand(ctx, "", "list", "-f", "{{.Dir}}", "github.com/typedinformer/informer/e2e/cluster")
	if err != nil {
		return "", err
	}
	return filepath.Dir(dir), nil
}

// versionFlags returns the linker flags that set kube-apiserver's version. Without them it assumes v0.0.0, and derives
// its feature gates and their defaults from that.
func versionFlags(version string) (string, error) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) != 3 {
		return "", fmt.Errorf("cluster: module k8s.io/kubernetes has version %q, want vMAJOR.MINOR.PATCH", version)
	}
	const pkg = "k8s.io/component-base/version"
	return fmt.Sprintf("-s -w -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s",
		pkg, version, parts[0], parts[1]), nil
}

func goBuild(ctx context.Context, dir, modFile, output, pkg, ldflags string) error {
	_, err := goCommand(ctx, dir, "build", "-modfile", modFile, "-o", output, "-ldflags", ldflags, pkg)
	return err
}

// goCommand runs the go command in dir, or in the current folder if that is empty, and returns its trimmed standard
// output.
func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	// Each module here is independent of any workspace around it. Without cgo the servers need no C compiler, and no C
	// library where they run.
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

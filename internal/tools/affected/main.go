// Affected prints the packages of the root module whose tests a change can affect: those with a changed file, and all
// that import them, also for tests. The change is what git diff has against a commit, together with new files.
//
//	go run ./internal/tools/affected main
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: affected <commit>")
		os.Exit(2)
	}
	found, err := run(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "affected:", err)
		os.Exit(1)
	}
	for _, p := range found {
		fmt.Println(p)
	}
}

func run(commit string) ([]string, error) {
	var changed []string
	for _, args := range [][]string{{"diff", "--name-only", "--relative", commit, "--", "."}, {"ls-files", "--others", "--exclude-standard"}} {
		output, err := command("git", args...)
		if err != nil {
			return nil, err
		}
		changed = append(changed, strings.Fields(string(output))...)
	}
	output, err := command("go", "list", "-json=ImportPath,Dir,Imports,TestImports,XTestImports", "./...")
	if err != nil {
		return nil, err
	}
	folder, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	packages, err := read(strings.NewReader(string(output)), folder)
	if err != nil {
		return nil, err
	}
	return affected(packages, changed), nil
}

// command returns the output of a command. Its error has what the command wrote to stderr.
func command(name string, args ...string) ([]byte, error) {
	output, err := exec.Command(name, args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%s %s: %w: %s", name, args[0], err, exit.Stderr)
	}
	return output, err
}

// listed is a package of the module.
type listed struct {
	ImportPath, Dir      string
	Imports, TestImports []string
	XTestImports         []string
}

// read reads what go list prints. The folders of the packages are then relative to the folder of the module.
func read(from io.Reader, folder string) ([]listed, error) {
	var packages []listed
	for decoder := json.NewDecoder(from); ; {
		var p listed
		if err := decoder.Decode(&p); err == io.EOF {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		dir, err := filepath.Rel(folder, p.Dir)
		if err != nil {
			return nil, err
		}
		p.Dir = filepath.ToSlash(dir)
		packages = append(packages, p)
	}
}

// affected returns the import paths of the packages that a change of these files affects, sorted. A file that is in no
// folder of a package, such as testdata, belongs to the nearest one above it. go.mod and go.sum affect all.
func affected(packages []listed, changed []string) []string {
	paths := map[string]string{} // import paths by folder
	for _, p := range packages {
		paths[p.Dir] = p.ImportPath
	}
	found := map[string]bool{}
	for _, file := range changed {
		if file == "go.mod" || file == "go.sum" {
			for _, p := range packages {
				found[p.ImportPath] = true
			}
		}
		dir := path.Dir(file)
		for paths[dir] == "" && dir != "." {
			dir = path.Dir(dir)
		}
		isCode := strings.HasSuffix(file, ".go") || strings.Contains(file, "testdata/") || dir != "."
		if paths[dir] != "" && isCode {
			found[paths[dir]] = true
		}
	}
	// Packages that import a found one, directly or not. An import by a test affects only that test, not what imports its
	// package.
	spread := true
	for spread {
		spread = false
		for _, p := range packages {
			if !found[p.ImportPath] && slices.ContainsFunc(p.Imports, func(i string) bool { return found[i] }) {
				found[p.ImportPath], spread = true, true
			}
		}
	}
	tested := map[string]bool{}
	for _, p := range packages {
		imports := slices.Concat(p.TestImports, p.XTestImports)
		if found[p.ImportPath] || slices.ContainsFunc(imports, func(i string) bool { return found[i] }) {
			tested[p.ImportPath] = true
		}
	}
	var sorted []string
	for p := range tested {
		sorted = append(sorted, p)
	}
	slices.Sort(sorted)
	return sorted
}

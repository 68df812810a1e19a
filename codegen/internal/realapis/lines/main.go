// Command lines compares how much codegen generates for an API with what client-gen, lister-gen and informer-gen of
// k8s.io/code-generator do. It fetches these, and prints the table of codegen's README.
//
//	go run ./lines
package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// apis are the packages of the table.
var apis = []string{
	"github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1",
	"github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1",
	"k8s.io/api/apps/v1",
	"sigs.k8s.io/gateway-api/apis/v1",
}

const (
	generators = "k8s.io/code-generator/cmd/"
	version    = "@v0.37.2"
	base       = "example.com/generated" // the import path of the generated packages, which are not compiled
)

func main() {
	fmt.Println("| API | kinds | codegen | client-gen | its fakes | lister-gen | informer-gen |")
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, api := range apis {
		if err := measure(api); err != nil {
			fmt.Fprintf(os.Stderr, "lines: %s: %v\n", api, err)
			os.Exit(1)
		}
	}
}

// measure prints the row of an API.
func measure(api string) error {
	dir, err := os.MkdirTemp("", "lines-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	to := func(name string) string { return filepath.Join(dir, name) }
	output := func(name string) []string {
		return []string{"--output-dir", to(name), "--output-pkg", base + "/" + name}
	}
	for _, args := range [][]string{
		{"tool", "codegen", "-output-dir", to("codegen"), api},
		append([]string{"run", generators + "client-gen" + version, "--clientset-name", "versioned", "--input-base", "",
			"--input", api}, output("clientset")...),
		append([]string{"run", generators + "lister-gen" + version, api}, output("listers")...),
		append([]string{"run", generators + "informer-gen" + version, "--versioned-clientset-package",
			base + "/clientset/versioned", "--listers-package", base + "/listers", api}, output("informers")...),
	} {
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	var row []any
	for _, part := range []struct {
		dir    string
		counts func(file string) bool
	}{
		{"codegen", all},
		{"clientset", func(file string) bool { return !isFake(file) }},
		{"clientset", isFake},
		{"listers", all},
		{"informers", all},
	} {
		n, err := lines(to(part.dir), part.counts)
		if err != nil {
			return err
		}
		row = append(row, n)
	}
	kinds, err := kindsIn(to("codegen"))
	if err != nil {
		return err
	}
	fmt.Printf("| `%s` | %d | %d | %d | %d | %d | %d |\n", append([]any{api, kinds}, row...)...)
	return nil
}

func all(string) bool { return true }

func isFake(file string) bool { return filepath.Base(filepath.Dir(file)) == "fake" }

// lines returns the number of lines of the Go files below dir that count. Comments at the top, and empty lines, do not.
func lines(dir string, counts func(file string) bool) (n int, err error) {
	err = eachFile(dir, func(file string, text []byte) {
		if !counts(file) {
			return
		}
		_, code, _ := bytes.Cut(append([]byte("\n"), text...), []byte("\npackage "))
		for line := range bytes.Lines(code) {
			if len(bytes.TrimSpace(line)) > 0 {
				n++
			}
		}
	})
	return n, err
}

var resourceOf = regexp.MustCompile(`(?m)^var \w+Resource = `)

// kindsIn returns the number of kinds for which codegen generated.
func kindsIn(dir string) (n int, err error) {
	err = eachFile(dir, func(file string, text []byte) { n += len(resourceOf.FindAll(text, -1)) })
	return n, err
}

// eachFile calls do with each Go file below dir.
func eachFile(dir string, do func(file string, text []byte)) error {
	return filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".go" {
			return err
		}
		text, err := os.ReadFile(file)
		do(file, text)
		return err
	})
}

package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

var install = flag.Bool("install", false, "install the published modules as a new user would, which takes minutes")

// next is the version of the modules in the proxy. It is no version of a release, so it cannot be taken for one.
var next = version{0, 999, 0, 1}

// race is the flag that compiles packages as this test was compiled, so that the go command finds them in its cache.
func race() []string {
	info, _ := debug.ReadBuildInfo()
	if slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return []string{"-race"}
	}
	return nil
}

var (
	command = regexp.MustCompile(`(?m)^\s*(?:\d\. Run ` + "`" + `)?(go get (?:-tool )?github\.com/typedinformer/informer[^\s` + "`" + `]*)`)
	goBlock = regexp.MustCompile("(?ms)^([ \t]*)```go\n(.*?)^[ \t]*```")
)

// readme is what the README of a module tells its readers to do.
type readme struct {
	commands []string // each go get
	programs []string // each Go file
}

func readReadme(t *testing.T, m module) (r readme) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(top, string(m), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range command.FindAllStringSubmatch(string(content), -1) {
		r.commands = append(r.commands, found[1])
	}
	for _, found := range goBlock.FindAllStringSubmatch(string(content), -1) {
		program := strings.ReplaceAll("\n"+found[2], "\n"+found[1], "\n")
		if regexp.MustCompile(`(?m)^package \w+$`).MatchString(program) {
			r.programs = append(r.programs, program)
		}
	}
	if len(r.commands) == 0 {
		t.Fatalf("the README of %s has no go get", m.path())
	}
	return r
}

// Whoever follows the README of a published module, from an empty folder, gets it, and compiles its programs and examples.
func TestModulesInstall(t *testing.T) {
	if !*install {
		return
	}
	consumer := consumers(t, next)
	for _, m := range published {
		if testing.Short() && m != "informerprom" {
			continue
		}
		if m == "codegen" {
			t.Run(m.path(), func(t *testing.T) { followCodegen(consumer(t)) })
			continue
		}
		t.Run(m.path(), func(t *testing.T) {
			c, r := consumer(t), readReadme(t, m)
			for _, get := range r.commands {
				args := strings.Fields(get)
				c.run(args[0], args[1:]...)
			}
			examples, err := filepath.Glob(filepath.Join(top, string(m), "example*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			inside, err := filepath.Glob(filepath.Join(top, string(m), "*", "example*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			if m != "." {
				examples = append(examples, inside...)
			}
			for _, example := range examples {
				content, err := os.ReadFile(example)
				if err != nil {
					t.Fatal(err)
				}
				c.write(strings.TrimPrefix(filepath.Dir(example), top)+"/examples/"+filepath.Base(example), string(content))
			}
			for i, program := range r.programs {
				c.write(filepath.Join("program", string(rune('a'+i)), "main.go"), program)
			}
			if len(examples)+len(r.programs) == 0 {
				t.Fatal("nothing to compile")
			}
			c.run("go", "mod", "tidy") // as everybody does who has added an import
			c.run("go", append([]string{"vet"}, append(race(), "./...")...)...)
		})
	}
	if testing.Short() {
		return
	}
	t.Run("codegen of this folder", func(t *testing.T) {
		c := consumer(t)
		c.replace(".", "codegen")
		followCodegen(c)
	})
	t.Run("codegen that go.mod does not have", func(t *testing.T) { runOnce(consumer(t), codegenPath+"@"+next.String()) })
	t.Run("codegen that go.mod does not have, and the library of this folder", func(t *testing.T) {
		c := consumer(t)
		c.replace(".")
		runOnce(c, codegenPath+"@"+next.String())
	})
	t.Run("codegen of this folder, without a tool line", func(t *testing.T) {
		c := consumer(t)
		c.replace(".", "codegen")
		runOnce(c, codegenPath)
	})
	t.Run("docs/getting-started.md", func(t *testing.T) { followGettingStarted(consumer(t)) })
}

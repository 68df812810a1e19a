package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const codegenPath = rootPath + "/codegen"

// page is a page of documentation.
type page struct {
	t    *testing.T
	name string
	text string
}

func readPage(t *testing.T, name string) page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, name))
	if err != nil {
		t.Fatal(err)
	}
	return page{t, name, string(text)}
}

// find returns the first group of a regular expression in the page.
func (p page) find(pattern string) string {
	p.t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(p.text)
	if found == nil {
		p.t.Fatalf("%s has no %s", p.name, pattern)
	}
	return found[1]
}

// block returns the first block of a language that contains a text, without its indentation.
func (p page) block(language, with string) string {
	p.t.Helper()
	blocks := regexp.MustCompile("(?ms)^([ \t]*)```"+language+"\n(.*?)^[ \t]*```").FindAllStringSubmatch(p.text, -1)
	for _, found := range blocks {
		if strings.Contains(found[2], with) {
			return strings.TrimPrefix(strings.ReplaceAll("\n"+found[2], "\n"+found[1], "\n"), "\n")
		}
	}
	p.t.Fatalf("%s has no block of %s with %s", p.name, language, with)
	return ""
}

// replace makes the consumer take modules from this repository, as somebody does who works on both.
func (c consumer) replace(modules ...module) {
	c.t.Helper()
	for _, m := range modules {
		dir, err := filepath.Abs(filepath.Join(top, string(m)))
		if err != nil {
			c.t.Fatal(err)
		}
		c.run("go", "mod", "edit", "-replace", m.path()+"="+dir)
	}
}

// shop writes the package with the types of codegen's README.
func (c consumer) shop(readme page) {
	c.write("shop/v1/types.go", readme.block("go", "type Widget struct"))
}

// compile adds the modules that generated code imports, and compiles everything, with the program of codegen's README.
func (c consumer) compile(readme page) {
	c.t.Helper()
	c.write("main.go", `package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	shopinformers "example.com/consumer/informers/shop/v1"
	shopv1 "example.com/consumer/shop/v1"
	"github.com/typedinformer/informer"
)

func main() {}

func run(ctx context.Context, client *informer.Client, selector labels.Selector) error {
`+readme.block("go", "NewWidgetLister")+`
	return nil
}
`)
	c.run("go", "mod", "tidy")
	c.run("go", append([]string{"vet"}, append(race(), "./...")...)...)
}

// followCodegen does what codegen's README says, in an empty module that may replace the modules of this repository.
func followCodegen(c consumer) {
	readme := readPage(c.t, "codegen/README.md")
	c.shop(readme)
	c.write("generate.go", "package main\n\n"+readme.find("`(//go:generate go run [^`]*)`")+"\n")
	get := strings.Fields(readme.find("`(go get -tool [^`]*)`"))
	c.run(get[0], get[1:]...)
	c.run("go", "generate", "./...")
	c.compile(readme)
	check := strings.Fields(readme.find("`(go run [^`]* -check [^`]*)`"))
	c.run(check[0], check[1:]...)
	for _, section := range []string{"Deep copies", "Server-side apply"} {
		args := strings.Fields(readme.find("(?s)## " + section + "\n\n    (go run [^\n]*)"))
		c.run(args[0], args[1:]...)
	}
	c.run("go", "mod", "tidy")
	c.run("go", append([]string{"vet"}, append(race(), "./...")...)...)
}

// advice matches a command that codegen or the go command advises to run.
var advice = regexp.MustCompile(`(?:: run |; to add it:\s+)go (get \S+)\n`)

// runOnce runs codegen without a tool line in go.mod, and follows the advice of its messages until it succeeds. program
// is the package, with a version if go.mod does not have it.
func runOnce(c consumer, program string) {
	c.t.Helper()
	readme := readPage(c.t, "codegen/README.md")
	c.shop(readme)
	args := []string{"run", program, "./..."}
	out, err := c.try("go", args...)
	if err == nil {
		c.t.Fatal("codegen knows types of packages that go.mod lacks")
	}
	for followed := map[string]bool{}; err != nil; out, err = c.try("go", args...) {
		command := advice.FindStringSubmatch(out)
		if command == nil || followed[command[1]] {
			c.t.Fatalf("nothing says how to get what is missing:\n%s", out)
		}
		followed[command[1]] = true
		c.run("go", strings.Fields(command[1])...)
	}
	c.compile(readme)
}

// followGettingStarted does what docs/getting-started.md says, up to the cluster, and generates from its CRD.
func followGettingStarted(c consumer) {
	guide, test := readPage(c.t, "docs/getting-started.md"), readPage(c.t, "examples/gettingstarted/main_test.go")
	get := strings.Fields(guide.find(`\n    (go get .*)\n`))
	c.run(get[0], get[1:]...)
	c.write("main.go", guide.block("go", "package main"))
	c.write("main_test.go", test.text)
	for _, command := range strings.Split(guide.find(`\n    (go mod tidy .*)\n`), " && ") {
		args := strings.Fields(command)
		c.run(args[0], args[1:]...)
	}
	c.run("go", "test", ".")
	c.write("crd.yaml", guide.block("yaml", "kind: CustomResourceDefinition"))
	c.run("go", "run", codegenPath+"@"+next.String(), "-apply", "-crd", "crd.yaml")
	c.run("go", "mod", "tidy")
	c.run("go", append([]string{"vet"}, append(race(), "./...")...)...)
}

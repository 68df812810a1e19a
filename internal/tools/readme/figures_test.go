package readme

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../../.." // of the repository

const module = "github.com/typedinformer/informer"

// sources are the sections whose figures come from elsewhere, not from a command of this repository.
var sources = map[string]string{
	"docs/scale.md: API priority and fairness": "the source of Kubernetes",
}

// command is a go run or go test of a page.
type command struct {
	page, section string
	text          string
	dir           string // from the root, as cd has it
}

// numbers is the line below the head of a table with a column of numbers, which is aligned right.
var numbers = regexp.MustCompile(`^\|.*--:`)

// commandsOf returns the commands of a page by section, and its sections with figures. Before the first heading, the
// section is "".
func commandsOf(page, content string) (commands []command, figures []string) {
	var section, dir string
	var prose strings.Builder
	flush := func() { // code spans may go over several lines
		for _, span := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(prose.String(), -1) {
			if text := strings.Join(strings.Fields(span[1]), " "); isCommand.MatchString(text) {
				commands = append(commands, command{page, section, text, ""})
			}
		}
		prose.Reset()
	}
	inFence := false
	for line := range strings.Lines(content) {
		line = strings.TrimRight(line, "\n")
		text := strings.TrimSpace(line)
		switch block := inFence || strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t"); {
		case fence.MatchString(line):
			inFence, dir = !inFence, ""
		case block && strings.HasPrefix(text, "cd ") && !strings.Contains(text, "&&"):
			dir = strings.TrimSpace(strings.TrimPrefix(text, "cd "))
		case block && isCommand.MatchString(text):
			commands = append(commands, command{page, section, text, dir})
		case block:
		case strings.HasPrefix(line, "## "):
			flush()
			section, dir = strings.TrimPrefix(line, "## "), ""
		case text == "":
			flush()
			dir = ""
		default:
			if numbers.MatchString(line) {
				figures = append(figures, section)
			}
			fmt.Fprintln(&prose, line)
		}
	}
	flush()
	return commands, slices.Compact(figures)
}

var isCommand = regexp.MustCompile(`^(cd \S+ && )?([A-Z]+=\S+ )*go (run|test) `)

// check returns an error unless the packages, tests, benchmarks and flags of a command exist.
func (c command) check() error {
	words := shellWords(c.text)
	dirs := []string{filepath.Join(root, filepath.Dir(c.page)), root} // the README of a module, or of the repository
	switch {
	case words[0] == "cd":
		dirs, words = []string{filepath.Join(root, words[1])}, words[3:]
	case c.dir != "":
		dirs = []string{filepath.Join(root, c.dir)}
	}
	words = words[slices.Index(words, "go"):] // without variables
	i := parseArguments(words[1], words[2:])
	if strings.Contains(strings.Join(i.packages, " "), "@") {
		return nil // a program of others
	}
	var source, tests strings.Builder
	for _, p := range i.packages {
		if err := readPackage(dirs, p, len(i.flags)+len(i.values) > 0, &source, &tests); err != nil {
			return err
		}
	}
	if strings.Contains(source.String(), "sigs.k8s.io/controller-runtime") {
		source.WriteString(`"kubeconfig"`) // its package config has that flag
	}
	for _, name := range i.flags {
		if !strings.Contains(source.String()+tests.String(), `"`+name+`"`) {
			return fmt.Errorf("%q has no flag -%s", i.packages, name)
		}
	}
	return errors.Join(i.matches("run", "Test", tests.String()), i.matches("skip", "Test", tests.String()), i.matches("bench", "Benchmark", tests.String()))
}

// arguments are those of go run or go test.
type arguments struct {
	packages []string
	flags    []string          // of the program, or of the tests, without their values
	values   map[string]string // of the flags of go test
}

func parseArguments(verb string, words []string) arguments {
	a := arguments{values: map[string]string{}}
	for i := 0; i < len(words); i++ {
		word, isFlag := strings.CutPrefix(words[i], "-")
		name, value, hasValue := strings.Cut(word, "=")
		switch {
		case verb == "run" && len(a.packages) == 0 && !isFlag:
			a.packages = append(a.packages, word)
		case verb == "test" && (name == "args" || slices.Contains([]string{"v", "race", "short"}, name)):
		case verb == "test" && isFlag && slices.Contains(goFlags, name):
			if !hasValue && i+1 < len(words) {
				i, value = i+1, words[i+1]
			}
			a.values[name] = value
		case isFlag:
			a.flags = append(a.flags, name)
		case verb == "test" && (word == "." || strings.HasPrefix(word, "./")):
			a.packages = append(a.packages, word)
		}
	}
	return a
}

// matches returns an error if the value of -run or -bench matches no function with the prefix.
func (a arguments) matches(flag, prefix, tests string) error {
	first, _, _ := strings.Cut(a.values[flag], "/")
	if first == "" || first == "^$" {
		return nil
	}
	pattern, err := regexp.Compile(first)
	if err != nil {
		return err
	}
	found := regexp.MustCompile(`(?m)^func (`+prefix+`\w*)\(`).FindAllStringSubmatch(tests, -1)
	if !slices.ContainsFunc(found, func(f []string) bool { return pattern.MatchString(f[1]) }) {
		return fmt.Errorf("%q has no %s that matches %s", a.packages, prefix, first)
	}
	return nil
}

// goFlags are the flags of go test that have a value.
var goFlags = []string{"bench", "benchtime", "count", "fuzz", "fuzztime", "modfile", "p", "run", "skip", "tags", "timeout", "vet"}

// readPackage appends the source and the tests of a package, or of all packages below a folder, in the first of dirs that
// has it. Unless they are needed, it only looks whether there are any.
func readPackage(dirs []string, name string, needed bool, source, tests *strings.Builder) error {
	if rest, ok := strings.CutPrefix(name, module); ok {
		dirs, name = []string{root}, "."+rest
	}
	name, below := strings.CutSuffix(name, "...")
	for _, dir := range dirs {
		found := 0
		folder := filepath.Join(dir, name)
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && path != folder && !below:
				return fs.SkipDir
			case filepath.Ext(path) != ".go":
				return nil
			}
			if found++; !needed {
				return fs.SkipAll
			}
			content, err := os.ReadFile(path)
			if strings.HasSuffix(path, "_test.go") {
				tests.Write(content)
			} else {
				source.Write(content)
			}
			return err
		})
		if found > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fmt.Errorf("no folder %s has Go files", name)
}

// shellWords splits a command into words, up to a redirection or a comment.
func shellWords(text string) (words []string) {
	for _, match := range regexp.MustCompile(`'([^']*)'|(\S+)`).FindAllStringSubmatch(text, -1) {
		if match[2] == ">" || strings.HasPrefix(match[2], "#") {
			break
		}
		words = append(words, match[1]+match[2])
	}
	return words
}

// Each table of figures is in a section that names the command that printed it. The packages, tests, benchmarks and
// flags of each command in a page exist. A command before the first section of a page of results is that of all its tables.
func TestFiguresNameTheirCommands(t *testing.T) {
	pages := []string{"README.md", "BENCHMARKS.md", "CONTRIBUTING.md"}
	for _, pattern := range []string{"docs/*.md", "bench/results/*.md", "proof/results/*.md", "*/README.md", "*/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			page, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			pages = append(pages, page)
		}
	}
	checked, tables := 0, 0
	for _, page := range pages {
		content, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		commands, figures := commandsOf(page, string(content))
		for _, c := range commands {
			checked++
			if err := c.check(); err != nil {
				t.Errorf("%s: %s: %s: %v", c.page, c.section, c.text, err)
			}
		}
		for _, section := range figures {
			tables++
			named := slices.ContainsFunc(commands, func(c command) bool {
				ofPage := c.section == "" && strings.HasPrefix(page, "bench/results/") // the command of all its tables
				return c.section == section || ofPage
			})
			if !named && sources[page+": "+section] == "" {
				t.Errorf("%s: %q has figures, and no command that prints them", page, section)
			}
		}
	}
	if checked < 100 || tables < 30 {
		t.Errorf("only %d commands and %d sections with figures were found", checked, tables)
	}
}

func TestWrongCommandsAreFound(t *testing.T) {
	commands, figures := commandsOf("page.md", "`go test ./internal/nowhere`\n\n## A\n| a |\n| ---: |\n| 1 |\n\n## B\n\n"+
		"    cd bench && go run ./processes -wrong 3\n    cd bench\n    go test -run '^$' -bench None ./processes\n\n"+
		"`go test -run\nTestNobody .` `cd bench && go run ./scale -write x` `go test -short ./internal/tools/readme -run Wrong`\n")
	if !slices.Equal(figures, []string{"A"}) {
		t.Errorf("figures in %q", figures)
	}
	var got []string
	for _, c := range commands {
		got = append(got, fmt.Sprintf("%s: %v", c.section, c.check()))
	}
	want := []string{
		": no folder ./internal/nowhere has Go files",
		`B: ["./processes"] has no flag -wrong`,
		`B: ["./processes"] has no Benchmark that matches None`,
		`B: ["."] has no Test that matches TestNobody`,
		"B: <nil>",
		"B: <nil>",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

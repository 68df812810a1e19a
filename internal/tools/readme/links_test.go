// Package readme follows the links of all pages and doc comments, and checks that tables of figures name commands that
// exist. Its module snippets compiles the Go of the pages.
package readme

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	fence   = regexp.MustCompile("^([ \t]*)```[ \t]*(\\w*)")
	heading = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	link    = regexp.MustCompile(`!?\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)`)
	// These targets are relative, too: of a reference such as "[name]: target", and of HTML.
	reference = regexp.MustCompile(`^\s*\[[^\]]+\]:\s+<?([^\s>]+)`)
	attribute = regexp.MustCompile(`\b(?:href|src)="([^"]+)"`)
	anchor    = regexp.MustCompile(`\b(?:id|name)="([^"]+)"`)
	label     = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	code      = regexp.MustCompile("`[^`]*`")
)

// page is a page of documentation.
type page struct {
	anchors map[string]bool
	links   map[int][]string // by line
}

// readPage reads a page in Markdown. Blocks of code have neither links nor headings.
func readPage(content string) page {
	p := page{anchors: map[string]bool{}, links: map[int][]string{}}
	inBlock := false
	for i, line := range strings.Split(content, "\n") {
		if fence.MatchString(line) {
			inBlock = !inBlock
		}
		if inBlock {
			continue
		}
		if h := heading.FindStringSubmatch(line); h != nil {
			p.addHeading(h[1])
		}
		line = code.ReplaceAllString(line, "")
		for _, found := range anchor.FindAllStringSubmatch(line, -1) {
			p.anchors[found[1]] = true
		}
		for _, pattern := range []*regexp.Regexp{link, reference, attribute} {
			for _, found := range pattern.FindAllStringSubmatch(line, -1) {
				p.links[i+1] = append(p.links[i+1], found[1])
			}
		}
	}
	return p
}

// addHeading adds the anchor that GitHub gives a heading. If there is an equal one, it gets a number.
func (p page) addHeading(text string) {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, label.ReplaceAllString(text, "$1"))
	unique := slug
	for n := 1; p.anchors[unique]; n++ {
		unique = fmt.Sprintf("%s-%d", slug, n)
	}
	p.anchors[unique] = true
}

// brokenLinks returns the links of the pages below a folder to files or anchors that do not exist. It does not follow
// links to other sites.
func brokenLinks(dir string) (broken []string, checked int, err error) {
	pages := map[string]page{}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == ".git" || entry.Name() == "generated" && filepath.Base(filepath.Dir(path)) == "site"):
			return fs.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		content, err := os.ReadFile(path)
		pages[path] = readPage(string(content))
		return err
	})
	for path, p := range pages {
		for line, targets := range p.links {
			for _, target := range targets {
				to, err := url.Parse(target)
				if err != nil {
					broken = append(broken, fmt.Sprintf("%s:%d: %v", path, line, err))
					continue
				}
				if to.IsAbs() || to.Host != "" {
					continue
				}
				checked++
				file := path
				if to.Path != "" {
					file = filepath.Join(filepath.Dir(path), to.Path)
				}
				if _, err := os.Stat(file); err != nil {
					broken = append(broken, fmt.Sprintf("%s:%d: there is no %s", path, line, target))
				} else if other, isPage := pages[file]; isPage && to.Fragment != "" && !other.anchors[to.Fragment] {
					broken = append(broken, fmt.Sprintf("%s:%d: %s has no anchor %s", path, line, file, to.Fragment))
				}
			}
		}
	}
	return broken, checked, err
}

// Every relative link in a page of this repository has a target, and so has its anchor.
func TestLinksHaveTargets(t *testing.T) {
	broken, checked, err := brokenLinks(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range broken {
		t.Error(b)
	}
	if checked < 100 {
		t.Errorf("only %d links were found", checked)
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"a.md": "# Two words, `code`\n\n## Same\n\n## Same\n\n```\n# no heading, [no link](nowhere)\n```\n" +
			"[ok](#two-words-code) [ok](b.md#x) [ok](#same-1) [ok](https://example.com/none) `[no link](nowhere)`\n" +
			"[bad](c.md)\n[bad](#same-2)\n[bad](b.md#y) ![bad](b.png)\n<img src=\"c.png\">\n[r]: d.md\n[bad](#no-heading-no-link)\n",
		"b.md": "<a id=\"x\"></a>\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	broken, checked, err := brokenLinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(broken, "\n")
	for _, want := range []string{
		"a.md:11: there is no c.md", "a.md:12: ", "b.md has no anchor y", "a.md:13: there is no b.png",
		"a.md:14: there is no c.png", "a.md:15: there is no d.md", "a.md:16: ",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in\n%s", want, all)
		}
	}
	if len(broken) != 7 || checked != 10 {
		t.Errorf("%d of %d links are broken, want 7 of 10:\n%s", len(broken), checked, all)
	}
}

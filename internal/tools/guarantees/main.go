// Guarantees prints rules of GUARANTEES.md, and the tests that hold them.
//
//	go run ./internal/tools/guarantees R8 H2   # these rules
//	go run ./internal/tools/guarantees Q       # all rules with that letter
//	go run ./internal/tools/guarantees -page   # all of them, as a page in Markdown
//
// A test holds a rule if a line such as "// Guarantees: H2, R7" of its comment has the rule's number, or if the name of one
// of its subtests begins with it. So does a text file in testdata, if it has the same line with # in place of //.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	page := flag.Bool("page", false, "print all rules as a page in Markdown, with links as from the folder docs")
	flag.Parse()
	if err := run(*page, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "guarantees:", err)
		os.Exit(1)
	}
}

func run(page bool, wanted []string) error {
	root, err := rootFolder()
	if err != nil {
		return err
	}
	rules, err := readRules(filepath.Join(root, document))
	if err != nil {
		return err
	}
	tests, err := findTests(os.DirFS(root))
	if err != nil {
		return err
	}
	if page {
		fmt.Print(pageOf(rules, tests))
		return nil
	}
	if len(wanted) == 0 {
		return fmt.Errorf("name rules, such as R8, or a letter for all that begin with it")
	}
	chosen := choose(rules, wanted)
	if len(chosen) == 0 {
		return fmt.Errorf("%s has no rule %s", document, strings.Join(wanted, " or "))
	}
	for _, r := range chosen {
		fmt.Printf("%s  %s\n    client-go: %s\n", r.name, r.text, r.peer)
		for _, t := range tests[r.name] {
			fmt.Printf("    %s  %s\n", t.file, t.name)
		}
	}
	return nil
}

// rootFolder returns the folder of the root module, which has GUARANTEES.md, from any folder below it.
func rootFolder() (string, error) {
	folder, err := os.Getwd()
	for ; err == nil; folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, document)); err == nil {
			return folder, nil
		}
		if folder == filepath.Dir(folder) {
			return "", fmt.Errorf("no %s in this folder or above it", document)
		}
	}
	return "", err
}

// choose returns the rules whose name, or whose letter, is in wanted.
func choose(rules []rule, wanted []string) []rule {
	var chosen []rule
	for _, r := range rules {
		for _, w := range wanted {
			if w = strings.ToUpper(w); r.name == w || r.letter() == w {
				chosen = append(chosen, r)
				break
			}
		}
	}
	return chosen
}

// pageOf returns a page with each rule, and links to its tests.
func pageOf(rules []rule, tests map[string][]test) string {
	var b strings.Builder
	b.WriteString("# Tests of the guarantees\n\nEach rule of [GUARANTEES.md](../GUARANTEES.md), and the tests that hold it.\n")
	section := ""
	for _, r := range rules {
		if r.section != section {
			section = r.section
			fmt.Fprintf(&b, "\n## %s\n\n| rule | guarantee | held by |\n| --- | --- | --- |\n", section)
		}
		var links []string
		for _, t := range tests[r.name] {
			links = append(links, fmt.Sprintf("[%s](../%s)", t.name, t.file))
		}
		text := rootLink.ReplaceAllString(r.text, "](../$1)")
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.name, strings.ReplaceAll(text, "](../docs/", "]("), strings.Join(links, ", "))
	}
	return b.String()
}

// rootLink is a link to a file of the root folder.
var rootLink = regexp.MustCompile(`\]\(([^):#][^):]*)\)`)

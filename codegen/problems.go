package main

import (
	"errors"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// problems are the errors in a Go package, each listed once. syntax holds the errors of the parser, which hide types;
// others holds the rest.
type problems struct{ syntax, others []string }

// problemsOf returns the problems of a package. The go command reports some of them, too, in a form of its own.
func problemsOf(pkg *packages.Package) (p problems) {
	for _, e := range pkg.Errors {
		for _, text := range problemTexts(pkg, e) {
			switch {
			case e.Kind == packages.ParseError:
				p.syntax = add(p.syntax, text)
			case e.Kind == packages.ListError && strings.Contains(text, ": syntax error: "):
				// The parser reports it in its own words.
			default:
				p.others = add(p.others, text)
			}
		}
	}
	return p
}

// err returns all problems, or nil.
func (p problems) err() error { return errorList(slices.Concat(p.syntax, p.others)).err() }

func add(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

var (
	errorPosition  = regexp.MustCompile(`^(.*?):([0-9]+)(?::[0-9]+)?$`)
	errorLine      = regexp.MustCompile(`^([^\s:]+:[0-9]+)(?::[0-9]+)?: (.*)$`)
	failedImport   = regexp.MustCompile(`^could not import (\S+) \(`)
	adviceOfGo     = regexp.MustCompile(`; to add(?: it)?:\s+(go (?:get|mod download) \S+)`)
	compiledHeader = regexp.MustCompile(`^# \S+( \[.*\])?\n`)
)

// problemTexts returns the texts of an error, with relative file names. If a line of go.mod or go.sum is missing, the
// text ends with the command that adds it.
func problemTexts(pkg *packages.Package, e packages.Error) (texts []string) {
	if m := failedImport.FindStringSubmatch(e.Msg); m != nil {
		if imported := pkg.Imports[m[1]]; imported != nil && len(imported.Errors) > 0 {
			e.Msg = "could not import " + m[1] + ": " + imported.Errors[0].Msg
		}
	}
	msg := adviceOfGo.ReplaceAllString(e.Msg, ": run $1")
	if m := errorPosition.FindStringSubmatch(e.Pos); m != nil {
		line, _ := strconv.Atoi(m[2])
		return []string{position(token.Position{Filename: m[1], Line: line}) + ": " + msg}
	}
	for line := range strings.Lines(compiledHeader.ReplaceAllString(msg, "")) { // of the compiler, by the go command
		line = strings.TrimSuffix(line, "\n")
		if m := errorLine.FindStringSubmatch(line); m != nil {
			line = m[1] + ": " + m[2]
		}
		texts = append(texts, line)
	}
	return texts
}

// needLibrary returns an error that says how to get the packages that generated code needs.
func needLibrary(err error) error {
	text, _, _ := strings.Cut(err.Error(), ": run go ")
	return errors.New(text + ": run go get github.com/typedinformer/informer")
}

// loadError returns the first problem of a package that an import needs.
func loadError(pkg *packages.Package) error {
	if p := problemsOf(pkg); p.err() != nil {
		return errors.New(slices.Concat(p.syntax, p.others)[0])
	}
	return nil
}

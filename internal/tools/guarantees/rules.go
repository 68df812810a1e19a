package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// document is the file that has the rules, in the root folder.
const document = "GUARANTEES.md"

// rule is a row of a table in GUARANTEES.md.
type rule struct {
	section string // the heading above it
	name    string // such as R8
	text    string
	peer    string // what client-go does
}

// letter returns what the name begins with.
func (r rule) letter() string { return strings.TrimRight(r.name, "0123456789") }

var ruleRow = regexp.MustCompile(`^\| ([A-Z][0-9]+) \| (.*?) \| (.*?) \|$`)

// readRules returns the rules of a file in its order. A row of a rule that has not three cells is an error.
func readRules(path string) ([]rule, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rules []rule
	section := ""
	for i, line := range strings.Split(string(text), "\n") {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			section = heading
		}
		row := ruleRow.FindStringSubmatch(line)
		isRow := len(line) > 3 && strings.HasPrefix(line, "| ") && line[3] >= '0' && line[3] <= '9'
		if isRow && (row == nil || strings.Count(line, "|") != 4) {
			return nil, fmt.Errorf("%s:%d: a rule has three cells: its name, its text, and what client-go does", document, i+1)
		}
		if isRow {
			rules = append(rules, rule{section: section, name: row[1], text: row[2], peer: row[3]})
		}
	}
	return rules, nil
}

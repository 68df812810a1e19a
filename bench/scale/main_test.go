package main

import (
	"os"
	"testing"
)

// The tables of the page follow from the figures.
func TestPageHasTheTables(t *testing.T) {
	page, err := os.ReadFile("../../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := replace(string(page))
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != want {
		t.Error("docs/scale.md has other tables: run go run ./scale -write ../docs/scale.md in bench")
	}
}

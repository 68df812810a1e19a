package main

import (
	"fmt"
	"os"
	"strings"
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

// The README of examples/fanout has the figures of its memory, which size the manifests.
func TestReadmeHasTheMemoryOfFanOut(t *testing.T) {
	readme, err := os.ReadFile("../../examples/fanout/README.md")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("peak = %.0f MB + %.0f kB x pods + %.0f kB x "+
		"clients", fanOutBase/1e6, fanOutObject/1e3, serveTCPMemory/1e3)
	if !strings.Contains(string(readme), want) {
		t.Errorf("the README of examples/fanout does not say %q", want)
	}
}

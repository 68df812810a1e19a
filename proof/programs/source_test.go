package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program gets our informers by the edits of its files. Sources that are not as expected are an error.
func TestUseOurs(t *testing.T) {
	const before = "package app\n\nimport \"k8s.io/client-go/informers\"\n\nvar f = informers.New(trim, name)\n"
	edits := []edit{replaceImport("cmd/app.go", "example.com/m"), {"cmd/app.go", "trim, ", ""}}
	for _, test := range []struct {
		name, text string
		ok         bool
	}{
		{"as expected", before, true},
		{"imported twice", before + before, false},
		{"without the transform", strings.Replace(before, "trim, ", "", 1), false},
		{"without the import", "package app\n", false},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "cmd", "app.go")
		if err := write(file, test.text); err != nil {
			t.Fatal(err)
		}
		err := apply(dir, edits)
		if (err == nil) != test.ok {
			t.Errorf("%s: %v", test.name, err)
		}
		const want = "package app\n\nimport \"example.com/m/proofinformers\"\n\nvar f = informers.New(name)\n"
		if got, err := os.ReadFile(file); test.ok && (err != nil || string(got) != want) {
			t.Errorf("%s: got %q, %v", test.name, got, err)
		}
	}
	if err := apply(t.TempDir(), edits); err == nil {
		t.Error("a program without the file gives no error")
	}
}

// What makes client-go's informers equal is undone before ours are used.
func TestUndo(t *testing.T) {
	dir := t.TempDir()
	if err := write(filepath.Join(dir, "a.go"), "1 2 3"); err != nil {
		t.Fatal(err)
	}
	edits := []edit{{"a.go", "1 2", "4"}, {"a.go", "4 3", "5"}}
	for _, step := range []struct {
		edits []edit
		want  string
	}{{edits, "5"}, {undo(edits), "1 2 3"}} {
		if err := apply(dir, step.edits); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "a.go")); err != nil || string(got) != step.want {
			t.Errorf("got %q, want %q; %v", got, step.want, err)
		}
	}
}

// What is added to programs is Go, and the added informers choose their storage by the environment.
func TestAddedSources(t *testing.T) {
	for name, text := range map[string]string{"informers": ourInformers(), "debug pages": debugPages} {
		if _, err := parser.ParseFile(token.NewFileSet(), name, text, parser.AllErrors); err != nil {
			t.Error(err)
		}
	}
	for _, want := range []string{`Layout: layouts[os.Getenv("` + storageVar + `")]`, "new(informer.LayoutCompact)"} {
		if !strings.Contains(ourInformers(), want) {
			t.Errorf("the informers lack %s", want)
		}
	}
}

// Each kind of ours is in the same compiled program, and client-go's in another.
func TestBinaries(t *testing.T) {
	p := program{name: "p"}
	for _, k := range kinds {
		want := "p-ours"
		if k.name == "client-go" {
			want = "p-theirs"
		}
		if got := p.binary(k); got != want {
			t.Errorf("%s: %s, want %s", k, got, want)
		}
	}
}

// Wrong arguments are errors that say which there are.
func TestWrongArgumentsAreErrors(t *testing.T) {
	for want, args := range map[string][]string{
		"must be script or measure":                                nil,
		`"x" is none of kube-controller-manager`:                   {"measure", "x"},
		`-informers: "y" is none of client-go, clientgo, shared`:   {"script", "-informers", "y"},
		"flag provided but not defined: -objects":                  {"script", "-objects", "3"},
		"script runs no other programs than the two of Kubernetes": {"script", "descheduler"},
	} {
		if _, err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}

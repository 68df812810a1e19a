//go:build unix

package snapshotfile

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Only a regular file is opened, also behind a link. Nothing blocks.
func TestOpenOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(path("file"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "pipe"} {
		if err := os.Symlink(path(name), path("link-to-"+name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{path("file"), path("link-to-file")} {
		f, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(f); err != nil || string(text) != "text" {
			t.Errorf("read %q, %v", text, err)
		}
		f.Close()
	}
	for _, name := range []string{path("pipe"), path("link-to-pipe"), dir, os.DevNull} {
		if f, err := Open(name); err == nil {
			f.Close()
			t.Errorf("%s was opened", name)
		}
	}
	if _, err := Open(path("nothing")); !os.IsNotExist(err) {
		t.Error(err)
	}
	// If a pipe takes the name after the first look, the flag keeps open from waiting.
	f, err := os.OpenFile(path("pipe"), os.O_RDONLY|nonblock, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

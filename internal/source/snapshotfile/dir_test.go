package snapshotfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// names returns the names of the files in d. It fails the test if others than the user may read one.
func names(t *testing.T, d Dir) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(string(d))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", e.Name(), info.Mode(), err)
		}
	}
	return names
}

// A directory has the files of its user only, and no part of a file after a crash or a failure.
// Guarantees: S4
func TestDir(t *testing.T) {
	dir := Dir(filepath.Join(t.TempDir(), "made", "here"))
	write := func(text string, err error) error {
		return dir.Save("name", func(w io.Writer) error {
			_, _ = io.WriteString(w, text)
			return err
		})
	}
	if _, err := dir.Load("name"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Load: %v", err)
	}
	if err := write("one", nil); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("failed")
	if err := write("two", failed); !errors.Is(err, failed) {
		t.Errorf("Save: %v", err)
	}
	left, young := filepath.Join(string(dir), "name.1.tmp"), filepath.Join(string(dir), "name.2.tmp")
	for _, file := range []string{left, young} {
		if err := os.WriteFile(file, []byte("part"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(left, time.Time{}, time.Now().Add(-2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	check := func(want string) {
		t.Helper()
		f, err := dir.Load("name")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if got, _ := io.ReadAll(f); string(got) != want {
			t.Errorf("the file has %q, want %q", got, want)
		}
	}
	check("one")
	if err := write("three", nil); err != nil {
		t.Fatal(err)
	}
	check("three")
	if got := names(t, dir); !slices.Equal(got, []string{"name", "name.2.tmp"}) {
		t.Errorf("files %q", got)
	}
	if info, err := os.Stat(string(dir)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v", info.Mode())
	}
}

// A save whose goroutine ends leaves no file.
// Guarantees: S4
func TestSaveThatEndsItsGoroutineLeavesNoFile(t *testing.T) {
	dir := Dir(t.TempDir())
	var ended sync.WaitGroup
	ended.Go(func() {
		_ = dir.Save("name", func(io.Writer) error {
			runtime.Goexit()
			return nil
		})
	})
	ended.Wait()
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("files %q", left)
	}
}

package snapshotfile

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Dir is a directory of files that only the user of the process may read.
type Dir string

// Load opens the file with that name; see [Open].
func (d Dir) Load(name string) (*os.File, error) { return Open(filepath.Join(string(d), name)) }

// staleTemporary is the age of a temporary file that a process has left behind.
const staleTemporary = time.Hour

// Save calls write with a writer for the file with that name, and replaces the file in one step when write has returned
// nil and all of it is on the disk. It creates the directory if there is none.
func (d Dir) Save(name string, write func(io.Writer) error) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	d.clean(name)
	f, err := os.CreateTemp(string(d), name+".*.tmp") // with mode 0600
	if err != nil {
		return err
	}
	done := false // stays false if write ends the goroutine
	defer func() {
		if !done {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(string(d), name)); err != nil {
		return err
	}
	done = true
	if dir, err := os.Open(string(d)); err == nil {
		_ = dir.Sync() // not every system can: after a crash, the previous file may be there
		dir.Close()
	}
	return nil
}

// clean removes temporary files that processes have left behind.
func (d Dir) clean(name string) {
	entries, _ := os.ReadDir(string(d))
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), name+".") || !strings.HasSuffix(e.Name(), ".tmp") {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > staleTemporary {
			os.Remove(filepath.Join(string(d), e.Name()))
		}
	}
}

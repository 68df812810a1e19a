package snapshotfile

import (
	"fmt"
	"io/fs"
	"os"
)

// Open opens a regular file for reading. It returns an error for anything else under that name, and does not wait for
// it: a named pipe or a device could block the program until somebody writes to it.
func Open(name string) (*os.File, error) {
	info, err := os.Stat(name) // before it is opened, which can have an effect on a device
	if err != nil {
		return nil, err
	}
	if err := regular(name, info); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil { // another file may have the name now
		err = regular(name, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func regular(name string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file: its mode is %v", name, info.Mode())
	}
	return nil
}

package durable

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/snapshotfile"
	"github.com/typedinformer/informer/internal/source/warmstart"
)

// files are the base and the changes of a state in a storage. They are for one goroutine.
type files struct {
	storage       warmstart.Storage
	base, changes string // their names
	header        header // of the state in the storage; Number is 0 if there is none

	baseBytes, changesBytes int64 // in the storage
	spent                   int64 // bytes of changes that were written since the base
}

// header is the header of both files, in JSON.
type header struct {
	Name, Resource  string
	ID              string // of the state: both files have the same
	Number          uint64 // of the base; the first one has 1, and changes before it have 0 and no records
	Cluster, Server string // the UID of the cluster, or "" if it is not known, and the address of the server
	Time            time.Time
	Highest         string // the highest resource version that the handler has acknowledged
	Initial         bool   // the handler has not yet had all objects of the first start
}

func newFiles(c *Config) *files {
	name := c.Resource.String() + "-" + c.Name
	return &files{storage: c.Storage, base: name + ".durable", changes: name + ".durable-changes"}
}

// file is an open file of a state.
type file struct {
	header
	*snapshotfile.Reader
	io.Closer
	bytes counting
}

// counting is a reader that counts.
type counting struct {
	io.Reader
	n int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// open opens one of the files. It returns nil if there is none.
func (f *files) open(ctx context.Context, name string, c *Config) (*file, error) {
	r, err := f.storage.Load(ctx, name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, f.unreadable(name, err)
	}
	opened := &file{Closer: r, bytes: counting{Reader: r}}
	if opened.Reader, err = snapshotfile.NewReader(&opened.bytes); err != nil {
		r.Close()
		return nil, f.unreadable(name, err)
	}
	h := &opened.header
	err = json.Unmarshal(opened.Header, h)
	if err == nil && (h.Name != c.Name || h.Resource != c.Resource.String()) {
		err = fmt.Errorf("it is of the subscription %.100q of %.100s, not %q of %s", h.Name, h.Resource, c.Name, c.Resource)
	}
	if err != nil {
		r.Close()
		return nil, f.unusable(name, err)
	}
	return opened, nil
}

// unusable returns the error of a file that cannot be used.
func (f *files) unusable(name string, why error) error {
	return fmt.Errorf("%w: %q: %w. To begin anew, delete %q and %q: the handler then receives all objects as initial additions, "+
		"and no deletion of those that are gone", ErrState, name, why, f.base, f.changes)
}

// unreadable returns the error of a file that could not be read. It may still be whole.
func (f *files) unreadable(name string, why error) error {
	var damaged *snapshotfile.DamagedError
	var version *snapshotfile.VersionError
	if errors.As(why, &damaged) || errors.As(why, &version) {
		return f.unusable(name, why)
	}
	return fmt.Errorf("%w: %q cannot be read: %w", ErrState, name, why)
}

// errPart indicates that one of the files is missing, or of another state.
var errPart = errors.New("it does not belong to the other file: one of them was deleted, replaced or restored")

// load opens the state. It returns nil if there is none. The caller must close the result.
func (f *files) load(ctx context.Context, c *Config) (s *state, err error) {
	s = &state{}
	defer func() {
		if err != nil {
			s.close()
			s = nil
		}
	}()
	if s.changes, err = f.open(ctx, f.changes, c); err != nil {
		return s, err
	}
	if s.base, err = f.open(ctx, f.base, c); err != nil {
		return s, err
	}
	switch {
	case s.base == nil && (s.changes == nil || s.changes.Number == 0):
		s.close()
		return nil, nil // the process ended before the first base was written
	case s.base == nil, s.changes == nil, s.base.ID != s.changes.ID, s.base.Number < s.changes.Number:
		return s, f.unusable(f.base, errPart)
	}
	f.header = s.base.header
	if s.base.Number == s.changes.Number {
		s.current = true
		f.header = s.changes.header
	}
	return s, nil
}

// state is a state that is being loaded.
type state struct {
	base, changes *file
	current       bool // changes are those of base
}

func (s *state) close() {
	for _, f := range []*file{s.base, s.changes} {
		if f != nil {
			f.Close()
		}
	}
}

// records calls take for each record of a file, whose memory take must not keep.
func (f *files) records(ctx context.Context, opened *file, name string, take func(*snapshotfile.Record) error) error {
	var buf []byte
	for {
		block, err := opened.Next(buf)
		if err == io.EOF {
			return nil
		}
		buf = block
		for rest := block; err == nil && len(rest) > 0; {
			var r snapshotfile.Record
			if r, rest, err = snapshotfile.Cut(rest); err == nil {
				err = take(&r)
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return f.unreadable(name, err)
		}
	}
}

// all calls take for the newest record of each key, also of a deleted one, and for each addition that was noted.
// changed is true for a record of the changes.
func (f *files) all(ctx context.Context, s *state, take func(r *snapshotfile.Record, changed bool) error) error {
	newer := map[object.Key]struct{}{}
	if s.current {
		err := f.records(ctx, s.changes, f.changes, func(r *snapshotfile.Record) error {
			if r.Format&recordAhead == 0 {
				newer[keyOf(r)] = struct{}{}
			}
			return take(r, true)
		})
		if err != nil {
			return err
		}
	}
	err := f.records(ctx, s.base, f.base, func(r *snapshotfile.Record) error {
		if s.current {
			if _, ok := newer[keyOf(r)]; ok || r.Format&recordAhead != 0 { // the changes have all that are still to be noted
				return nil
			}
		}
		return take(r, false)
	})
	f.baseBytes = s.base.bytes.n
	if s.current {
		f.changesBytes = s.changes.bytes.n
		f.spent = f.changesBytes
	}
	return err
}

// wantsBase reports whether the next save has to write a base: there is none, or changes have cost as much.
func (f *files) wantsBase() bool { return f.header.Number == 0 || f.spent >= f.baseBytes }

// save writes a base or changes. h has what the caller knows of the header. records are the records of all keys, or of
// the changed ones.
func (f *files) save(ctx context.Context, h header, base bool, records func(yield func(snapshotfile.Record) bool)) (
	written int64, err error) {
	h.ID, h.Number = f.header.ID, f.header.Number
	if h.Number == 0 {
		if h.ID == "" {
			h.ID = rand.Text()
			f.header.ID = h.ID // also if the first base is written and its save fails
		}
		if _, err := f.write(ctx, f.changes, h, func(func(snapshotfile.Record) bool) {}); err != nil {
			return 0, err
		}
	}
	if base {
		h.Number++
	}
	name := f.changes
	if base {
		name = f.base
	}
	if written, err = f.write(ctx, name, h, records); err != nil {
		return 0, err
	}
	f.header = h
	if base {
		f.baseBytes, f.changesBytes, f.spent = written, 0, 0
	} else {
		f.changesBytes = written
		f.spent += written
	}
	return written, nil
}

// write writes one file.
func (f *files) write(ctx context.Context, name string, h header, records func(yield func(snapshotfile.Record) bool)) (
	written int64, err error) {
	raw, err := json.Marshal(h)
	if err != nil {
		return 0, err
	}
	err = f.storage.Save(ctx, name, func(to io.Writer) error {
		w, err := snapshotfile.NewWriter(to, raw)
		if err != nil {
			return err
		}
		for r := range records {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := w.Append(r); err != nil {
				return err
			}
		}
		if err := w.Close(); err != nil {
			return err
		}
		written = w.Written()
		return nil
	})
	return written, err
}

package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// reloadInterval is the shortest time between two reads of the files. A kubelet takes about a minute to change the
// files of a pod.
const reloadInterval = 10 * time.Second

// reloaded is a value made from files. It reads them again when the value is used, at most every reloadInterval.
type reloaded[T any] struct {
	paths []string
	parse func(contents [][]byte) (T, error)
	log   *slog.Logger

	mu       sync.Mutex // protects the fields below
	value    T
	contents [][]byte
	checked  time.Time
}

// newReloaded returns an error if the files cannot be read or parsed now. Later it keeps the last good value.
func newReloaded[T any](log *slog.Logger, parse func(contents [][]byte) (T, error),
	paths ...string) (*reloaded[T], error) {
	r := &reloaded[T]{paths: paths, parse: parse, log: log}
	if err := r.loadLocked(); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *reloaded[T]) get() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.checked) >= reloadInterval {
		if err := r.loadLocked(); err != nil {
			r.log.Error("reload failed: keeping the last good content", "err", err)
		}
	}
	return r.value
}

func (r *reloaded[T]) loadLocked() error {
	r.checked = time.Now()
	contents := make([][]byte, len(r.paths))
	changed := r.contents == nil
	for i, path := range r.paths {
		var err error
		if contents[i], err = os.ReadFile(path); err != nil {
			return err
		}
		changed = changed || !bytes.Equal(contents[i], r.contents[i])
	}
	if !changed {
		return nil
	}
	value, err := r.parse(contents)
	if err != nil {
		// the next try reads both files again: one may have been written before the other
		return fmt.Errorf("%v: %w", r.paths, err)
	}
	if r.contents != nil {
		r.log.Info("reloaded", "files", r.paths)
	}
	r.value, r.contents = value, contents
	return nil
}

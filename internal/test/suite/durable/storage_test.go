package durable

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"sync"
	"testing/iotest"
	"time"

	"github.com/typedinformer/informer"
)

// memory is a storage whose process can end.
type memory struct {
	mu    sync.Mutex
	files map[string][]byte
	fails error         // of each save; nil for none
	takes time.Duration // each save
	saves int           // that were tried
}

func newMemory() *memory { return &memory{files: map[string][]byte{}} }

func (m *memory) Load(_ context.Context, name string) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	raw, ok := m.files[name]
	if !ok {
		return nil, os.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(raw)), nil
}

func (m *memory) Save(_ context.Context, name string, write func(io.Writer) error) error {
	var buf bytes.Buffer
	if err := write(&buf); err != nil {
		return err
	}
	m.mu.Lock()
	takes := m.takes
	m.mu.Unlock()
	time.Sleep(takes)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saves++
	if m.fails != nil {
		return m.fails
	}
	m.files[name] = buf.Bytes()
	return nil
}

// saved returns the number of saves.
func (m *memory) saved() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.saves
}

// fail makes later saves fail.
func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails = err
}

var errKilled = errors.New("the process was killed")

// kill ends the process: nothing that it saves from now on counts. It returns the storage for the next one.
func (m *memory) kill() *memory {
	m.fail(errKilled)
	m.mu.Lock()
	defer m.mu.Unlock()
	return &memory{files: maps.Clone(m.files)}
}

// flaky is a storage whose reads fail after some bytes.
type flaky struct {
	*memory
	name  string // of the file
	after int
}

var errRead = errors.New("the connection was reset")

func (f flaky) Load(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := f.memory.Load(ctx, name)
	if err != nil || name != f.name {
		return r, err
	}
	if f.after < 0 {
		return nil, errRead
	}
	return io.NopCloser(io.MultiReader(io.LimitReader(r, int64(f.after)), iotest.ErrReader(errRead))), nil
}

// held is a storage whose reads wait until a channel is closed.
type held struct {
	*memory
	until <-chan struct{}
}

func (h held) Load(ctx context.Context, name string) (io.ReadCloser, error) {
	<-h.until
	return h.memory.Load(ctx, name)
}

// names returns the names of the base and of the changes of the subscription "test".
func names() (base, changes string) { return "pods-test.durable", "pods-test.durable-changes" }

// in returns a durable configuration with a state in m.
func in(m *memory) informer.DurableConfig { return informer.DurableConfig{Name: "test", Storage: m} }

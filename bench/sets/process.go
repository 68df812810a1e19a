package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/typedinformer/informer/bench/internal/measure"
)

// usage is what a process has at a moment.
type usage struct {
	Heap, Stacks, Goroutines, Sockets float64
}

func usageNow() usage {
	heap := measure.LiveHeap()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return usage{float64(heap), float64(memory.StackInuse), float64(runtime.NumGoroutine()), float64(sockets())}
}

// perEach returns the growth since before, for each of n.
func (u usage) perEach(before usage, n int) usage {
	share := func(now, before float64) float64 { return (now - before) / float64(n) }
	return usage{share(u.Heap, before.Heap), share(u.Stacks, before.Stacks), share(u.Goroutines, before.Goroutines),
		u.Sockets - before.Sockets}
}

// sockets returns the number of open sockets of this process.
func sockets() (n int) {
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		panic(err) // the pattern is right
	}
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && strings.HasPrefix(target, "socket:") {
			n++
		}
	}
	return n
}

// lineCounter counts the lines that are written to it.
type lineCounter struct{ n atomic.Int64 }

func (c *lineCounter) Write(p []byte) (int, error) {
	c.n.Add(int64(bytes.Count(p, []byte("\n"))))
	return len(p), nil
}

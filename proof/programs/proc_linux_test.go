package main

import (
	"os"
	"testing"
)

// The files of a process that runs have what is parsed.
func TestOwnProc(t *testing.T) {
	if m, err := memoryOf(os.Getpid()); err != nil || m.peak < m.resident || m.resident < 1<<20 {
		t.Errorf("memory: %v, %v", m, err)
	}
	if _, err := processorOf(os.Getpid()); err != nil {
		t.Error(err)
	}
}

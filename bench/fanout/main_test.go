package main

import (
	"path/filepath"
	"testing"

	"github.com/typedinformer/informer/bench/internal/canned"
)

// A process of examples/fanout follows all pods and changes of the server, and its memory is measured before and after.
func TestFootprint(t *testing.T) {
	dir := t.TempDir()
	program, err := build(dir, filepath.Join("..", "..", "examples", "fanout"))
	if err != nil {
		t.Fatal(err)
	}
	server, err := canned.Start(canned.Config{Pods: 10, Changes: window, Formats: []string{canned.Protobuf}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	f, err := follow(dir, program, server.URL, 10, "512MiB")
	if err != nil {
		t.Fatal(err)
	}
	if f.peakSynced <= 0 || f.peakWindow <= f.peakSynced || f.synced <= 0 || f.cpu <= 0 {
		t.Errorf("the footprint is %+v", f)
	}
}

// Package minimal has the smallest possible controllers of pods on each library, and programs that follow twenty kinds, for
// measurements of binary size. This test checks that they work.
package minimal

import (
	"bufio"
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/typedinformer/informer/bench/internal/canned"
)

// serve returns the URL of an API server that has these pods, and their keys.
func serve(t *testing.T, pods int) (string, canned.Info) {
	handler, err := canned.New(canned.Config{Pods: pods, Formats: []string{canned.JSON, canned.Protobuf}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	info, err := canned.Control{Server: server.URL}.Reset()
	if err != nil {
		t.Fatal(err)
	}
	return server.URL, info
}

// start builds and starts one of the programs, and returns the lines that it prints until the test ends.
func start(t *testing.T, name, server string) *bufio.Scanner {
	program := filepath.Join(t.TempDir(), name)
	if out, err := exec.Command("go", "build", "-o", program, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	cmd := exec.CommandContext(ctx, program, "-server="+server)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
	})
	return bufio.NewScanner(out)
}

func TestControllers(t *testing.T) {
	const pods = 50
	server, info := serve(t, pods)
	for _, name := range []string{"clientgo", "controllerruntime", "informer"} {
		t.Run(name, func(t *testing.T) {
			reconciled := map[string]bool{}
			for lines := start(t, name, server); len(reconciled) < pods && lines.Scan(); {
				key, phase, _ := strings.Cut(lines.Text(), " ")
				if phase == "" {
					t.Errorf("%q", lines.Text())
				}
				reconciled[key] = true
			}
			if len(reconciled) != pods {
				t.Errorf("%d pods were reconciled instead of %d", len(reconciled), pods)
			}
			for _, key := range info.Keys {
				if !reconciled[key.String()] {
					t.Errorf("%s was not reconciled", key)
				}
			}
		})
	}
}

// The programs of twenty kinds follow pods, the only kind that the server has.
func TestKinds(t *testing.T) {
	server, _ := serve(t, 50)
	for _, name := range []string{"clientgokinds", "informerkinds"} {
		t.Run(name, func(t *testing.T) {
			lines := start(t, name, server)
			if lines.Scan(); lines.Text() != "pods 50" {
				t.Errorf("it prints %q", lines.Text())
			}
		})
	}
}

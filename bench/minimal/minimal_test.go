// Package minimal has the smallest possible controllers of pods on each library, for measurements of binary size. This test
// checks that they work.
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

func TestControllers(t *testing.T) {
	const pods = 50
	handler, err := canned.New(canned.Config{Pods: pods, Formats: []string{canned.JSON, canned.Protobuf}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	info, err := canned.Control{Server: server.URL}.Reset()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"clientgo", "controllerruntime", "informer"} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), name)
			if out, err := exec.Command("go", "build", "-o", program, "./"+name).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, program, "-server="+server.URL)
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			reconciled := map[string]bool{}
			for lines := bufio.NewScanner(out); len(reconciled) < pods && lines.Scan(); {
				key, phase, _ := strings.Cut(lines.Text(), " ")
				if phase == "" {
					t.Errorf("%q", lines.Text())
				}
				reconciled[key] = true
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
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

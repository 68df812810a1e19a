//go:build unix

package warmstart

import (
	"os"
	"syscall"
	"testing"

	"github.com/typedinformer/informer/internal/test/world"
)

// A named pipe under the name of a saved state does not keep Run from listing, nor from its end.
// Guarantees: S4
func TestPipeInPlaceOfASavedState(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		config := saving(t)
		w.Create(world.NewPod("ns", "a", "v=1"))
		live(w, w.Client(), pods, config).stop()
		for _, file := range files(t, config.WarmStart) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(file, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		l := live(w, w.Client(), pods, config)
		if s := l.status(); s.Loaded || s.LoadError == nil {
			t.Errorf("%+v", s)
		}
		l.stop()
	})
}

//go:build unix

package informer_test

import (
	"os"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A named pipe under the name of a saved state does not keep Run from listing, nor from its end.
// Guarantees: S4
func TestPipeInPlaceOfASavedState(t *testing.T) {
	bubble(t, func(w world) {
		config := quiet[*corev1.Pod]()
		config.WarmStart = warmStartDir(t)
		w.create(newPod("ns", "a", "v=1"))
		w.live(w.client(), pods, config).stop()
		for _, file := range files(t, config.WarmStart) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(file, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		l := w.live(w.client(), pods, config)
		if s := l.status(); s.Loaded || s.LoadError == nil {
			t.Errorf("%+v", s)
		}
		l.stop()
	})
}

package leak

import (
	"strings"
	"testing"
)

// A goroutine of this project is found while it runs, and no longer when it has ended.
func TestLeftBehind(t *testing.T) {
	if left := leftBehind(); left != "" {
		t.Fatalf("before the start: %s", left)
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		<-end
	}()
	if left := leftBehind(); !strings.Contains(left, "TestLeftBehind") {
		t.Errorf("while a goroutine runs: %q", left)
	}
	close(end)
	<-ended
	if left := leftBehind(); left != "" {
		t.Errorf("after its end: %s", left)
	}
}

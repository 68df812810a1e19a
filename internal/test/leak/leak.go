// Package leak finds goroutines that tests leave behind.
package leak

import (
	"bytes"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

// Main runs the tests of m and ends the process, as the TestMain of a package. It fails the package if a test leaves a
// goroutine of this project behind.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := leftBehind(); left != "" {
			fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s", left)
			code = 1
		}
	}
	os.Exit(code)
}

// leftBehind returns the stacks of the goroutines that run this project's code, except the caller's.
func leftBehind() string {
	var left []string
	for range 100 { // goroutines that are about to end may do so
		left = left[:0]
		var all bytes.Buffer
		_ = pprof.Lookup("goroutine").WriteTo(&all, 2) // a bytes.Buffer returns no error
		for _, stack := range strings.Split(all.String(), "\n\n") {
			if strings.Contains(stack, "typedinformer/informer") && !strings.Contains(stack, "leftBehind") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 {
			return ""
		}
		time.Sleep(10 * time.Millisecond)
	}
	return strings.Join(left, "\n\n")
}

//go:build unix

package testkit

import (
	"syscall"
	"time"
)

// ProcessorTime returns the processor time that this process has used. Unlike the wall clock, it hardly depends on what
// else runs on the machine.
func ProcessorTime() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

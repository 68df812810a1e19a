//go:build unix

package watchcache_test

import (
	"syscall"
	"time"
)

// cpu returns the time that this process has had the processors.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

//go:build unix

package snapshotfile

import "syscall"

// nonblock makes open return at once, also for a named pipe without a writer.
const nonblock = syscall.O_NONBLOCK | syscall.O_NOCTTY

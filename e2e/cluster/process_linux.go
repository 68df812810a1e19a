package cluster

import "syscall"

// endWithParent has the kernel kill the child when this process ends, in whatever way: a panic in a test, the
// timeout of go test, SIGKILL. A group of its own keeps a Ctrl-C on the terminal from reaching the servers first, while
// the tests still use them.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

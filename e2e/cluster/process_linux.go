package cluster

import "syscall"

// endWithParent makes the kernel kill the child when this process ends, for any reason: a panic in a test, the timeout
// of go test, SIGKILL. A separate process group keeps a Ctrl-C on the terminal from reaching the servers while the
// tests still use them.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

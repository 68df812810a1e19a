//go:build !linux

package cluster

import "syscall"

// endWithParent leaves the child in the process group of the tests. The kernel cannot tie the child to this process,
// but anything that ends the group, such as Ctrl-C on the terminal, ends the servers too.
func endWithParent() *syscall.SysProcAttr {
	return nil
}

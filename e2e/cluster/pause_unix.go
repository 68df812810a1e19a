//go:build unix

package cluster

import (
	"fmt"
	"syscall"
)

// PauseAPIServer freezes kube-apiserver, as a machine without memory or a frozen disk would: connections stay open, and
// new ones are even accepted, but there are no responses. [Cluster.ResumeAPIServer] resumes it, and it can be killed.
// It is an error if the server is not running.
func (c *Cluster) PauseAPIServer() error { return c.signalAPIServer(syscall.SIGSTOP) }

// ResumeAPIServer resumes kube-apiserver after [Cluster.PauseAPIServer].
func (c *Cluster) ResumeAPIServer() error { return c.signalAPIServer(syscall.SIGCONT) }

func (c *Cluster) signalAPIServer(signal syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apiserver == nil || c.apiserver.ended() {
		return fmt.Errorf("cluster: %v to kube-apiserver: it is not running", signal)
	}
	if err := c.apiserver.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("cluster: %v to kube-apiserver: %w", signal, err)
	}
	return nil
}

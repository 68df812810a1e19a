package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// SaveEtcd copies etcd's data to the folder dir, which must not exist or be empty. [Cluster.RestoreEtcd] puts the copy
// back. It is an error if etcd is running; see [Cluster.KillEtcd].
func (c *Cluster) SaveEtcd(dir string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.copyEtcdLocked(dir, c.etcdDir())
}

// RestoreEtcd replaces etcd's data with a copy that [Cluster.SaveEtcd] made, of this cluster or of another one. It is
// an error if etcd is running. A running API server would keep what it knows of the lost versions, so kill it before;
// see [Cluster.KillAPIServer].
func (c *Cluster) RestoreEtcd(dir string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.etcd == nil {
		if err := os.RemoveAll(c.etcdDir()); err != nil {
			return fmt.Errorf("cluster: remove etcd's data: %w", err)
		}
	}
	return c.copyEtcdLocked(c.etcdDir(), dir)
}

func (c *Cluster) etcdDir() string { return filepath.Join(c.dir, "etcd") }

func (c *Cluster) copyEtcdLocked(to, from string) error {
	if c.etcd != nil {
		return errors.New("cluster: copy etcd's data: etcd is running")
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return fmt.Errorf("cluster: copy etcd's data: %w", err)
	}
	if err := os.Chmod(to, 0o700); err != nil { // etcd insists
		return fmt.Errorf("cluster: copy etcd's data: %w", err)
	}
	return nil
}

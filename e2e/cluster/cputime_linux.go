package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// tick is the unit of times in /proc, the same on all usual machines.
const tick = 10 * time.Millisecond

// CPUTime returns the processor time that kube-apiserver and etcd have used since their last start. It is an error if
// one of them is not running.
func (c *Cluster) CPUTime() (apiServer, etcd time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apiserver == nil || c.etcd == nil {
		return 0, 0, errors.New("cluster: processor time: a server is not running")
	}
	if apiServer, err = c.apiserver.cpuTime(); err == nil {
		etcd, err = c.etcd.cpuTime()
	}
	return apiServer, etcd, err
}

// cpuTime reads the fields utime and stime; see proc_pid_stat(5).
func (p *process) cpuTime() (time.Duration, error) {
	name := fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid)
	stat, err := os.ReadFile(name)
	if err != nil {
		return 0, fmt.Errorf("cluster: processor time of %s: %w", p.name, err)
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // the name before it may have spaces
	if len(fields) < 13 {
		return 0, fmt.Errorf("cluster: processor time of %s: %s is %q", p.name, name, stat)
	}
	var ticks time.Duration
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("cluster: processor time of %s: %w", p.name, err)
		}
		ticks += time.Duration(n)
	}
	return ticks * tick, nil
}

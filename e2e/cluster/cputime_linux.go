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

// PeakMemory returns the greatest resident memory of kube-apiserver since its start or the last call, and its present
// one, in bytes. The next call counts from the present one.
func (c *Cluster) PeakMemory() (peak, present int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apiserver == nil {
		return 0, 0, errors.New("cluster: memory: kube-apiserver is not running")
	}
	folder := fmt.Sprintf("/proc/%d/", c.apiserver.cmd.Process.Pid)
	status, err := os.ReadFile(folder + "status")
	if err == nil {
		err = os.WriteFile(folder+"clear_refs", []byte("5"), 0) // resets the peak; see proc_pid_clear_refs(5)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("cluster: memory of kube-apiserver: %w", err)
	}
	for line := range bytes.Lines(status) {
		var name string
		var kB int64
		if _, err := fmt.Sscanf(string(line), "%s %d kB", &name, &kB); err != nil {
			continue
		}
		switch name {
		case "VmHWM:":
			peak = kB << 10
		case "VmRSS:":
			present = kB << 10
		}
	}
	return peak, present, nil
}

// Package measure has the shared code of this module's programs that measure whole processes: a process's measurements
// of itself, functions that start other processes, and the statistics of repeated runs.
package measure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the nanoseconds of a monotonic clock that all processes of the machine share.
func Now() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // every Linux has it
	}
	return now.Nano()
}

// CPU returns the processor time that this process has used.
func CPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// LiveHeap returns the bytes of heap in use after garbage collection.
func LiveHeap() int64 {
	runtime.GC() // a sync.Pool is empty only after the second collection
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return int64(memory.HeapAlloc)
}

// Allocated returns the bytes that this process has allocated since it began.
func Allocated() int64 {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return int64(memory.TotalAlloc)
}

// ThreadCPU returns the processor time that this thread has used. The caller must have called runtime.LockOSThread.
func ThreadCPU() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(err) // every Linux has it
	}
	return time.Duration(now.Nano())
}

// Each reads repeatedly until enough time of a clock has passed, and at least three times. It returns the time and the
// allocated bytes of a read.
func Each(enough time.Duration, clock func() time.Duration, read func(i int) error) (ns, bytes float64, err error) {
	runtime.GC()
	allocated, began, n := Allocated(), clock(), 0
	for more := 3; n < more; n++ {
		if err := read(n); err != nil {
			return 0, 0, err
		}
		if n+1 == more && clock()-began < enough {
			more *= 2
		}
	}
	took := clock() - began
	return float64(took.Nanoseconds()) / float64(n), float64(Allocated()-allocated) / float64(n), nil
}

// PeakMemory returns the peak of this process's resident memory, in bytes.
func PeakMemory() int64 { return kernelBytes("/proc/self/status", "VmHWM") }

// PeakMemoryOf returns the peak of another process's resident memory, in bytes, or 0 if there is no such process.
func PeakMemoryOf(pid int) int64 { return kernelBytes(fmt.Sprintf("/proc/%d/status", pid), "VmHWM") }

// AvailableMemory returns the machine's available memory, in bytes.
func AvailableMemory() int64 { return kernelBytes("/proc/meminfo", "MemAvailable") }

// TotalMemory returns the machine's memory, in bytes.
func TotalMemory() int64 { return kernelBytes("/proc/meminfo", "MemTotal") }

// kernelBytes returns the value of name, given in kB in a file of the kernel, or 0.
func kernelBytes(file, name string) int64 {
	content, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		var kB int64
		if n, _ := fmt.Sscanf(line, name+": %d kB", &kB); n == 1 {
			return kB << 10
		}
	}
	return 0
}

// Median returns the middle of values, or the mean of the two middle ones. It returns 0 for no values.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// Spread returns half of the distance between the least and the greatest value, as a share of the median.
func Spread(values []float64) float64 {
	median := Median(values)
	if median == 0 {
		return 0
	}
	return (slices.Max(values) - slices.Min(values)) / 2 / median
}

// Serve starts this program again as a server. It returns the first line that the server prints, which is its address,
// and a function that ends it.
func Serve(args ...string) (address string, stop func(), err error) {
	program, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	server := exec.Command(program, args...)
	server.Stderr = os.Stderr
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := server.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := server.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}
	if _, err := fmt.Fscanln(out, &address); err != nil {
		stop()
		return "", nil, fmt.Errorf("start the server: %w", err)
	}
	return address, stop, nil
}

// ErrMemory indicates that a process was ended because it exceeded its memory limit.
var ErrMemory = errors.New("memory limit exceeded")

// Run starts this program again, and decodes the JSON that it prints into result. It ends the process with [ErrMemory]
// when its resident memory exceeds maxMemory bytes; 0 means no limit. env is added to the environment.
func Run(result any, maxMemory int64, env []string, args ...string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	return RunProgram(program, result, maxMemory, env, args...)
}

// RunProgram is [Run] with another program.
func RunProgram(program string, result any, maxMemory int64, env []string, args ...string) error {
	var out, complaints bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout = &out
	cmd.Stderr = io.MultiWriter(os.Stderr, &complaints)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tooMuch := false
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		select {
		case err := <-ended:
			tick.Stop()
			switch {
			case tooMuch:
				return ErrMemory
			case err != nil:
				return fmt.Errorf("%w: %s", err, strings.TrimSpace(complaints.String()))
			}
			return json.Unmarshal(out.Bytes(), result)
		case <-tick.C:
			if maxMemory > 0 && kernelBytes(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid), "VmRSS") > maxMemory {
				tooMuch = true
				_ = cmd.Process.Kill()
			}
		}
	}
}

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// memory is the memory of a process, in bytes.
type memory struct{ resident, peak int64 }

// memoryOf reads the memory of a process.
func memoryOf(pid int) (memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return memory{}, err
	}
	return parseStatus(string(text))
}

// parseStatus reads the fields VmRSS and VmHWM; see proc_pid_status(5).
func parseStatus(text string) (m memory, err error) {
	fields := map[string]*int64{"VmRSS:": &m.resident, "VmHWM:": &m.peak}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) != 3 || words[2] != "kB" || fields[words[0]] == nil {
			continue
		}
		kb, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			return m, fmt.Errorf("status of a process: %w", err)
		}
		*fields[words[0]] = kb << 10
	}
	if m.resident == 0 || m.peak == 0 {
		return m, fmt.Errorf("status of a process has no VmRSS or VmHWM")
	}
	return m, nil
}

// processorOf reads the processor time that a process has used.
func processorOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(string(text))
}

// tick is the unit of times in /proc, the same on all usual machines.
const tick = 10 * time.Millisecond

// parseStat adds the fields utime and stime; see proc_pid_stat(5).
func parseStat(text string) (time.Duration, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // the name before it may have spaces
	if len(fields) < 13 {
		return 0, fmt.Errorf("stat of a process has only %d fields after its name", len(fields))
	}
	var sum time.Duration
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("stat of a process: %w", err)
		}
		sum += time.Duration(ticks) * tick
	}
	return sum, nil
}

// parseHeap reads the live bytes in the page /debug/pprof/heap?debug=1.
func parseHeap(page string) (int64, error) {
	_, rest, ok := strings.Cut(page, "\n# HeapAlloc = ")
	if !ok {
		return 0, fmt.Errorf("the heap profile has no HeapAlloc")
	}
	number, _, _ := strings.Cut(rest, "\n")
	return strconv.ParseInt(number, 10, 64)
}

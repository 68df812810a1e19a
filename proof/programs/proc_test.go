package main

import (
	"testing"
	"time"
)

func TestParseProc(t *testing.T) {
	const status = "Name:\tkube (x)\nVmPeak:\t 9000 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t9\n"
	if m, err := parseStatus(status); err != nil || m != (memory{1 << 20, 2 << 20}) {
		t.Errorf("status: %v, %v", m, err)
	}
	const stat = "12 (kube ) x) S 1 12 12 0 -1 4194560 5 6 7 8 150 25 0 0 20 0 9 0 100 0 0"
	if used, err := parseStat(stat); err != nil || used != 1750*time.Millisecond {
		t.Errorf("stat: %v, %v", used, err)
	}
	const page = "heap profile: 1: 2\n# runtime.MemStats\n# Alloc = 7\n# HeapAlloc = 12345\n# HeapSys = 9\n"
	if heap, err := parseHeap(page); err != nil || heap != 12345 {
		t.Errorf("heap: %v, %v", heap, err)
	}
	for _, text := range []string{"", "VmRSS:\t1 kB\n", "VmRSS:\tx kB\nVmHWM:\t1 kB\n"} {
		if _, err := parseStatus(text); err == nil {
			t.Errorf("status %q gives no error", text)
		}
	}
	for _, text := range []string{"", "12 (x) S 1", "12 (x) S 1 12 12 0 -1 4194560 5 6 7 8 a 25 0"} {
		if _, err := parseStat(text); err == nil {
			t.Errorf("stat %q gives no error", text)
		}
	}
	if _, err := parseHeap("# Alloc = 7\n"); err == nil {
		t.Error("a page without HeapAlloc gives no error")
	}
}

package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/typedinformer/informer/bench/internal/measure"
)

// machine describes the machine and the software of a measurement.
type machine struct {
	CPU, Kernel, Go string
	Cores           int
	Memory          int64
	Peers           map[string]string // module to version
	Date            string
	Load            string // of the last minute, at the beginning
}

func thisMachine() machine {
	m := machine{
		CPU:    "?",
		Go:     strings.TrimPrefix(runtime.Version(), "go"),
		Cores:  runtime.NumCPU(),
		Memory: measure.TotalMemory(),
		Peers:  map[string]string{},
		Date:   time.Now().Format(time.DateOnly),
	}
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(cpuinfo)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(value)
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	m.Kernel = strings.TrimSpace(string(kernel))
	load, _ := os.ReadFile("/proc/loadavg")
	m.Load, _, _ = strings.Cut(string(load), " ")
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		switch module.Path {
		case "k8s.io/client-go", "sigs.k8s.io/controller-runtime":
			m.Peers[module.Path] = module.Version
		}
	}
	return m
}

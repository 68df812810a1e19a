package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/typedinformer/informer/bench/internal/measure"
)

// microBenchmarks are the root package's benchmarks that the goals use.
const microBenchmarks = "^Benchmark(Get|List|IndexLookup|Apply|StoreWritesWithReaders|StoreOverhead|Notify|IdleHandler)$"

// addMicro adds the medians of the root package's benchmarks, from a run or from a file.
func (r *results) addMicro(from string) (err error) {
	var output []byte
	switch from {
	case "none":
		return nil
	case "run":
		cmd := exec.Command("go", "test", "-run", "^$", "-bench", microBenchmarks, "-benchtime", "0.2s", "-count",
			fmt.Sprint(r.Options.Runs), "-timeout", "1h", ".")
		cmd.Dir = ".."
		cmd.Stderr = os.Stderr
		output, err = cmd.Output()
	default:
		output, err = os.ReadFile(from)
	}
	if err != nil {
		return fmt.Errorf("benchmarks of the root package: %w", err)
	}
	r.Micro = parseBenchmarks(bytes.NewReader(output))
	return nil
}

// processors matches the suffix that go test appends to the names of benchmarks.
var processors = regexp.MustCompile(`-\d+$`)

// parseBenchmarks returns the medians of the output of go test -bench, by name and unit.
func parseBenchmarks(output io.Reader) map[string]figures {
	all := map[string]map[string][]float64{}
	for lines := bufio.NewScanner(output); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := processors.ReplaceAllString(strings.TrimPrefix(fields[0], "Benchmark"), "")
		if all[name] == nil {
			all[name] = map[string][]float64{}
		}
		for i := 2; i+1 < len(fields); i += 2 {
			if value, err := strconv.ParseFloat(fields[i], 64); err == nil {
				all[name][fields[i+1]] = append(all[name][fields[i+1]], value)
			}
		}
	}
	medians := map[string]figures{}
	for name, units := range all {
		medians[name] = figures{}
		for unit, values := range units {
			medians[name][unit] = measure.Median(values)
		}
	}
	return medians
}

// minimal has the directories of the smallest possible controllers of pods, and of programs that follow twenty kinds.
var minimal = map[string]string{
	"controller-runtime":    "controllerruntime",
	clientGo:                "clientgo",
	own:                     "informer",
	clientGo + ", 20 kinds": "clientgokinds",
	own + ", 20 kinds":      "informerkinds",
}

// buildMinimal returns the sizes of those programs.
func buildMinimal() (map[string]int64, error) {
	dir, err := os.MkdirTemp("", "minimal")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	bytes := map[string]int64{}
	for name, program := range minimal {
		file := filepath.Join(dir, program)
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", file, "./minimal/"+program)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("build %s: %w", program, err)
		}
		info, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		bytes[name] = info.Size()
	}
	return bytes, nil
}

// Package memlimit knows how much memory the process may use, and how much it uses.
package memlimit

import (
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
)

// Limit is a memory limit of the process. The zero Limit means that none is known.
type Limit struct {
	Bytes  int64
	Source string // what sets it: "GOMEMLIMIT" or "the cgroup"
}

// Current returns the present limit of the process: the lower one of GOMEMLIMIT and the limit of its cgroups.
func Current() Limit { return of(os.DirFS("/"), debug.SetMemoryLimit(-1)) }

// of returns the limit of a process with that memory limit of Go, whose root directory is fsys.
func of(fsys fs.FS, goLimit int64) Limit {
	lowest := cgroupLimit(fsys)
	switch {
	case goLimit > 0 && goLimit < math.MaxInt64 && goLimit <= lowest:
		return Limit{goLimit, "GOMEMLIMIT"}
	case lowest < math.MaxInt64:
		return Limit{lowest, "the cgroup"}
	}
	return Limit{}
}

// Used returns the memory that the process uses, in bytes: what GOMEMLIMIT limits, without free memory that the next
// objects will use. Memory that C code allocates does not count.
func Used() int64 {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	for _, s := range samples {
		if s.Value.Kind() != metrics.KindUint64 {
			return 0
		}
	}
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64() - samples[2].Value.Uint64())
}

const (
	maxFile   = 1 << 20 // bytes that are read of a file
	unlimited = 1 << 60 // the first version of cgroups has no other word for no limit than a number above this
)

// cgroupLimit returns the lowest limit of the cgroup of the process and of its parents, as far as they are visible. It
// returns math.MaxInt64 if there is none.
func cgroupLimit(fsys fs.FS) int64 {
	lowest := int64(math.MaxInt64)
	groups := groupsOf(read(fsys, "proc/self/cgroup"))
	for line := range strings.Lines(read(fsys, "proc/self/mountinfo")) {
		m, ok := mountOf(line)
		if !ok {
			continue
		}
		file, controller := "memory.limit_in_bytes", "memory"
		if m.unified {
			file, controller = "memory.max", ""
		}
		group, ok := groups[controller]
		if !ok {
			continue
		}
		for dir := m.dir(group); ; dir = path.Dir(dir) {
			text := strings.TrimSpace(read(fsys, path.Join(dir, file)[1:]))
			if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 && n < unlimited { // not "max"
				lowest = min(lowest, n)
			}
			if dir == m.point || dir == "/" {
				break
			}
		}
	}
	return lowest
}

// groupsOf returns the paths of cgroups by their controllers, from the content of /proc/self/cgroup. The one of the
// second version of cgroups has the controller "".
func groupsOf(text string) map[string]string {
	groups := map[string]string{}
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			groups[controller] = path.Clean("/" + parts[2])
		}
	}
	return groups
}

// mount is a hierarchy of cgroups with the limits of memory.
type mount struct {
	root    string // the cgroup that is visible at point
	point   string
	unified bool // of the second version
}

// mountOf returns the mount of a line of /proc/self/mountinfo, if it has limits of memory.
func mountOf(line string) (m mount, ok bool) {
	head, tail, ok := strings.Cut(line, " - ")
	fields, kind := strings.Fields(head), strings.Fields(tail)
	if !ok || len(fields) < 5 || len(kind) < 3 {
		return m, false
	}
	m = mount{root: path.Clean("/" + fields[3]), point: path.Clean("/" + fields[4]), unified: kind[0] == "cgroup2"}
	memory := kind[0] == "cgroup" && strings.Contains(","+kind[2]+",", ",memory,")
	return m, m.unified || memory
}

// dir returns the directory of a cgroup. A container can see its own cgroup as the root of the mount; that is the one
// which dir returns for a cgroup outside of the mount.
func (m mount) dir(group string) string {
	if m.root == "/" {
		return path.Join(m.point, group)
	}
	if below, ok := strings.CutPrefix(group+"/", m.root+"/"); ok {
		return path.Join(m.point, below)
	}
	return m.point
}

// read returns the beginning of a file, or "" if that fails.
func read(fsys fs.FS, name string) string {
	f, err := fsys.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return ""
	}
	return string(text)
}

package memlimit

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"
)

// Each folder of testdata is the root directory of a process in some surroundings.
func TestLimitOfTheProcess(t *testing.T) {
	const none, kib = math.MaxInt64, 1 << 10
	for _, c := range []struct {
		folder  string
		goLimit int64
		want    Limit
	}{
		{"absent", none, Limit{}},                                   // another operating system
		{"absent", 100 * kib, Limit{100 * kib, "GOMEMLIMIT"}},       //
		{"v2-container", none, Limit{512 << 20, "the cgroup"}},      // it sees its own cgroup as the root
		{"v2-container", 400 << 20, Limit{400 << 20, "GOMEMLIMIT"}}, //
		{"v2-container", 600 << 20, Limit{512 << 20, "the cgroup"}}, // the kernel does not know GOMEMLIMIT
		{"v2-parent", none, Limit{256 << 20, "the cgroup"}},         // lower than that of the process
		{"v2-child", none, Limit{512 << 20, "the cgroup"}},          // lower than that of its parent
		{"v2-unlimited", none, Limit{}},                             // "max" at each level
		{"v1-container", none, Limit{128 << 20, "the cgroup"}},      // its cgroup is the root of the mount
		{"v1-host", none, Limit{64 << 20, "the cgroup"}},            // a cgroup below the mount
		{"v1-unlimited", none, Limit{}},                             // a number that stands for no limit
		{"hybrid", none, Limit{32 << 20, "the cgroup"}},             // both versions: memory is in the first
		{"strange", none, Limit{}},                                  // nothing in it makes sense
		{"strange", 1, Limit{1, "GOMEMLIMIT"}},                      //
		{"v2-container", 0, Limit{512 << 20, "the cgroup"}},         // 0 lets the garbage collector run all the time
	} {
		if got := of(os.DirFS(filepath.Join("testdata", c.folder)), c.goLimit); got != c.want {
			t.Errorf("%s with %d: %+v, want %+v", c.folder, c.goLimit, got, c.want)
		}
	}
}

// Files with any content are read without a panic, and a path does not leave the mount.
func FuzzCgroupFiles(f *testing.F) {
	const line = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
	f.Add("0::/a/b\n", line, "100")
	f.Add("0::/../../etc\n", line, "max")
	f.Add("4:cpu,memory:/x:y\n:::\n", "1 2 3 / / - cgroup c memory\n - \n", "-1")
	f.Fuzz(func(t *testing.T, groups, mounts, limit string) {
		fsys := fstest.MapFS{
			"proc/self/cgroup":         {Data: []byte(groups)},
			"proc/self/mountinfo":      {Data: []byte(mounts)},
			"sys/fs/cgroup/memory.max": {Data: []byte(limit)},
		}
		if got := of(fsys, math.MaxInt64); got.Bytes < 0 || (got.Bytes == 0) != (got.Source == "") {
			t.Errorf("%+v", got)
		}
	})
}

// A file that is too long, or that cannot be read, sets no limit.
func TestUnreadableFileSetsNoLimit(t *testing.T) {
	fsys := fstest.MapFS{
		"proc/self/cgroup":         {Data: []byte("0::/\n")},
		"proc/self/mountinfo":      {Data: []byte("30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n")},
		"sys/fs/cgroup/memory.max": {Data: []byte(strings.Repeat("9", 2*maxFile))},
	}
	if got := of(fsys, math.MaxInt64); got != (Limit{}) {
		t.Errorf("%+v", got)
	}
	fsys["sys/fs/cgroup/memory.max"] = nil // a directory
	fsys["sys/fs/cgroup/memory.max/file"] = &fstest.MapFile{}
	if got := of(fsys, math.MaxInt64); got != (Limit{}) {
		t.Errorf("a directory: %+v", got)
	}
}

// The limit of this process is the one that it has, and it uses some memory.
func TestThisProcess(t *testing.T) {
	const limit = 1 << 20 // lower than that of any cgroup in which Go runs
	before := debug.SetMemoryLimit(limit)
	got := Current()
	debug.SetMemoryLimit(before)
	if want := (Limit{limit, "GOMEMLIMIT"}); got != want {
		t.Errorf("limit %+v, want %+v", got, want)
	}
	if used := Used(); used < 1<<20 || used > 1<<34 {
		t.Errorf("%d bytes are used", used)
	}
}

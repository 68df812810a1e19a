package informer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// The informer saves while it runs, at intervals, if something has changed.
// Guarantees: S4
func TestStateIsSavedWhileTheInformerRuns(t *testing.T) {
	bubble(t, func(w world) {
		config := quiet[*corev1.Pod]()
		config.WarmStart = warmStartDir(t)
		config.WarmStart.Interval = 10 * time.Minute
		w.create(newPod("ns", "a", "v=1"))
		inf := w.live(w.client(), pods, config)
		time.Sleep(61 * time.Second)
		if s := inf.status(); s.Saves != 1 {
			t.Errorf("a minute after the start: %+v", s)
		}
		w.relabel("ns", "a", "2")
		time.Sleep(10 * time.Minute)
		if s := inf.status(); s.Saves != 2 || s.SavedVersion != w.server.ResourceVersion() {
			t.Errorf("after ten minutes: %+v", s)
		}
		time.Sleep(15 * time.Minute)
		if s := inf.status(); s.Saves != 2 {
			t.Errorf("nothing has changed: %+v", s)
		}
		// The process is killed: nothing is saved at the end.
		killed := copyOf(t, config.WarmStart)
		w.relabel("ns", "a", "3")
		inf.stop()
		config.WarmStart.Storage = killed
		again := w.live(w.client(), pods, config)
		equalsServer(w, again.Informer)
		if s := again.status(); !s.Loaded {
			t.Errorf("%+v", s)
		}
		again.stop()
	})
}

// copyOf returns a directory with copies of the saved states.
func copyOf(t *testing.T, c informer.WarmStartConfig) informer.WarmStartDir {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(string(c.Storage.(informer.WarmStartDir)))); err != nil {
		t.Fatal(err)
	}
	return informer.WarmStartDir(dir)
}

// While an object is older than the server's, because it cannot be decoded, nothing is saved: a warm start would miss
// it.
// Guarantees: S4
func TestNothingIsSavedWhileAnObjectIsStale(t *testing.T) {
	forEachCompactPod(t, "stale", func(w world, compact bool) {
		bad := true
		config := quiet[*corev1.Pod]()
		config.Compact = compact
		config.WarmStart = warmStartDir(t)
		config.WarmStart.Revision = "1"
		config.Transform = func(p *corev1.Pod) (*corev1.Pod, error) {
			if bad && p.Labels["v"] == "bad" {
				return nil, errors.New("bad")
			}
			return p, nil
		}
		w.create(newPod("ns", "a", "v=1"), newPod("ns", "b", "v=1"))
		inf := w.live(w.client(), pods, config)
		time.Sleep(time.Minute)
		saved := w.server.ResourceVersion()
		w.relabel("ns", "a", "bad")
		time.Sleep(6 * time.Minute)
		if s := inf.status(); s.SavedVersion != saved || s.SaveError == nil || !strings.Contains(s.SaveError.Error(), "could not be decoded") {
			t.Errorf("with a stale object: %+v", s)
		}
		inf.stop()
		if n := strings.Count(strings.Join(inf.log.take(), "\n"), "the state cannot be saved"); n != 1 {
			t.Errorf("the log has the failure %d times", n)
		}
		bad = false
		again := w.live(w.client(), pods, config)
		if s := again.status(); !s.Loaded || s.LoadedVersion != saved {
			t.Errorf("%+v", s)
		}
		equalsServer(w, again.Informer)
		bad = true
		w.relabel("ns", "b", "bad")
		w.relabel("ns", "b", "good")
		time.Sleep(6 * time.Minute)
		if s := again.status(); s.SavedVersion != w.server.ResourceVersion() || s.SaveError != nil {
			t.Errorf("after the object was good again: %+v", s)
		}
		again.stop()

		// The first list has an object that cannot be decoded.
		w.relabel("ns", "b", "bad")
		config.WarmStart = warmStartDir(t)
		config.WarmStart.Revision = "1"
		w.live(w.client(), pods, config).stop()
		if left := files(t, config.WarmStart); len(left) > 0 {
			t.Errorf("saved %q", left)
		}
	})
}

// brokenStorage fails with the error in broken.
type brokenStorage struct {
	informer.WarmStartStorage
	broken *atomic.Pointer[error]
}

func (s brokenStorage) Load(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := s.broken.Load(); err != nil {
		return nil, *err
	}
	return s.WarmStartStorage.Load(ctx, name)
}

func (s brokenStorage) Save(ctx context.Context, name string, write func(io.Writer) error) error {
	return s.WarmStartStorage.Save(ctx, name, func(to io.Writer) error {
		if err := s.broken.Load(); err != nil {
			return *err
		}
		return write(to)
	})
}

// A storage that fails does not stop the informer.
// Guarantees: S4
func TestBrokenStorageIsLoggedOnce(t *testing.T) {
	bubble(t, func(w world) {
		full := errors.New("disk full")
		var broken atomic.Pointer[error]
		broken.Store(&full)
		config := quiet[*corev1.Pod]()
		config.WarmStart.Storage = brokenStorage{informer.WarmStartDir(t.TempDir()), &broken}
		w.create(newPod("ns", "a", "v=1"))
		inf := w.live(w.client(), pods, config)
		if s := inf.status(); !errors.Is(s.LoadError, full) {
			t.Errorf("load: %+v", s)
		}
		for i := range 5 {
			w.relabel("ns", "a", fmt.Sprint(i))
			time.Sleep(6 * time.Minute)
		}
		if s := inf.status(); !errors.Is(s.SaveError, full) || s.Saves != 0 {
			t.Errorf("save: %+v", s)
		}
		synctest.Wait()
		broken.Store(nil)
		time.Sleep(6 * time.Minute)
		if s := inf.status(); s.SaveError != nil || s.Saves != 1 {
			t.Errorf("save: %+v", s)
		}
		equalsServer(w, inf.Informer)
		inf.stop()
		log := strings.Join(inf.log.take(), "\n")
		if strings.Count(log, "cannot be saved") != 1 || strings.Count(log, "is saved again") != 1 {
			t.Errorf("log:\n%s", log)
		}
	})
}

// Two informers that save under one name replace each other's saved states, and each start loads one of them whole.
// Guarantees: S4
func TestLastSaveWins(t *testing.T) {
	w := newWorld(t, informertest.Options{})
	config := quiet[*corev1.Pod]()
	config.WarmStart = warmStartDir(t)
	config.WarmStart.Interval = 5 * time.Millisecond
	for i := range 20 {
		w.create(newPod("ns", fmt.Sprint("p", i), "v=1"))
	}
	client := w.client(func(c *rest.Config) { c.QPS = -1 })
	a, b := informer.New(client, pods, config), informer.New(client, pods, config)
	stopA, stopB := start(t, a), start(t, b)
	for i := range 100 {
		w.relabel("ns", fmt.Sprint("p", i%20), fmt.Sprint(i))
		if i%10 == 0 {
			c := informer.New(client, pods, config)
			stop := start(t, c)
			equalsServer(w, c)
			stop()
			if s := reflectorStatus(c).WarmStart; i > 0 && s.LoadError != nil && !errors.Is(s.LoadError, fs.ErrNotExist) {
				t.Errorf("start %d: %v", i, s.LoadError)
			}
		}
	}
	stopA()
	stopB()
	if left := files(t, config.WarmStart); len(left) != 1 {
		t.Errorf("files %q", left)
	}
}

// While nothing changes, a save each MaxAge/2 keeps the saved state young enough for a start, also after a warm start.
// Guarantees: S4
func TestQuietCollectionIsSavedAgain(t *testing.T) {
	forEachCompactPod(t, "quiet", func(w world, compact bool) {
		config := quiet[*corev1.Pod]()
		config.Compact = compact
		config.WarmStart = warmStartDir(t) // with an Interval of 5 minutes, and a MaxAge of an hour
		w.create(newPod("ns", "a", "v=1"))
		inf := w.live(w.client(), pods, config)
		time.Sleep(30 * time.Minute)
		if s := inf.status(); s.Saves != 1 {
			t.Errorf("after 30 minutes: %+v", s)
		}
		time.Sleep(6 * time.Minute)
		if s := inf.status(); s.Saves != 2 || time.Since(s.SavedAt) > 6*time.Minute {
			t.Errorf("after 36 minutes: %+v", s)
		}
		time.Sleep(time.Hour)
		killed := config
		killed.WarmStart.Storage = copyOf(t, config.WarmStart)
		inf.stop()
		time.Sleep(20 * time.Minute) // the saved state is then at least as old
		warm := w.live(w.client(), pods, killed)
		if s := warm.status(); !s.Loaded || s.LoadedAge < 20*time.Minute {
			t.Errorf("a warm start: %+v", s)
		}
		time.Sleep(16 * time.Minute) // the saved state has passed half of MaxAge, the process has not
		if s := warm.status(); s.Saves != 1 {
			t.Errorf("16 minutes after a warm start: %+v", s)
		}
		warm.stop()
	})
}

// A save after a change of the shard saves the objects of the new shard, although the resource version is that of the
// save before.
// Guarantees: S4
func TestChangeOfTheShardIsSaved(t *testing.T) {
	bubbleWith(t, informertest.Options{Shards: true}, func(w world) {
		config := quiet[*corev1.Pod]()
		config.WarmStart = warmStartDir(t)
		for i := range 20 {
			w.create(newPod("ns", fmt.Sprint("p", i)))
		}
		whole := informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: math.MaxUint64}}}
		resource := pods
		resource.Shard = informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: math.MaxUint64 / 2}}}
		first := w.live(w.client(), resource, config)
		time.Sleep(time.Minute) // until a save
		if s := first.status(); s.Saves != 1 || s.SavedObjects == 20 {
			t.Errorf("the first shard: %+v", s)
		}
		if err := first.SetShard(w.Context(), whole); err != nil {
			t.Fatal(err)
		}
		first.stop()
		if s := first.status(); s.Saves != 2 || s.SavedObjects != 20 {
			t.Errorf("the second shard: %+v", s)
		}
		resource.Shard = whole
		again := w.live(w.client(), resource, config)
		if s := again.status(); !s.Loaded || s.LoadedObjects != 20 {
			t.Errorf("%+v", s)
		}
		again.stop()
	})
}

// A list of a restored server is saved even if its version is that of the saved state.
// Guarantees: S4
func TestListOfARestoredServerIsSaved(t *testing.T) {
	bubble(t, func(w world) {
		config := quiet[*corev1.Pod]()
		config.WarmStart = warmStartDir(t)
		w.create(newPod("ns", "a", "v=1"))
		backup := w.server.Snapshot()
		w.relabel("ns", "a", "2")
		w.create(newPod("ns", "lost", "v=1"))
		config.WarmStart.Interval = time.Hour
		l := w.live(w.client(), pods, config)
		time.Sleep(7 * time.Minute)
		saved := l.status().SavedVersion
		w.server.Restore(backup)
		w.server.EndWatches()
		time.Sleep(15 * time.Minute)
		w.relabel("ns", "a", "3")
		w.create(newPod("ns", "new", "v=1"))
		time.Sleep(time.Second)
		equalsServer(w, l.Informer)
		l.stop()
		if s := l.status(); s.Saves != 2 || s.SavedVersion != saved {
			t.Errorf("%+v", s)
		}
		again := w.live(w.client(), pods, config)
		equalsServer(w, again.Informer)
		again.stop()
	})
}

// Neither a saved state nor the log has the credentials in the URL of the server, and new credentials do not matter.
// Guarantees: S4
func TestSavedStateHasNoCredentials(t *testing.T) {
	bubble(t, func(w world) {
		config := quiet[*corev1.Pod]()
		config.WarmStart = warmStartDir(t)
		w.create(newPod("ns", "a", "v=1"))
		client := func(password string) *informer.Client {
			return w.client(func(c *rest.Config) { c.Host = strings.Replace(c.Host, "://", "://user:"+password+"@", 1) })
		}
		w.live(client("hunter2"), pods, config).stop()
		raw, err := os.ReadFile(files(t, config.WarmStart)[0])
		if err != nil || strings.Contains(string(raw), "hunter2") || strings.Contains(string(raw), "user:") {
			t.Errorf("the saved state has the password: %v", err)
		}
		again := w.live(client("other"), pods, config)
		if s := again.status(); !s.Loaded {
			t.Errorf("%+v", s)
		}
		again.stop()
	})
}

// The last save sends no request, so it does not delay the end. It fails if the server has not been identified yet.
// Guarantees: S4, L2
func TestLastSaveSendsNoRequest(t *testing.T) {
	bubble(t, func(w world) {
		config := quiet[*corev1.Pod]()
		config.WarmStart = warmStartDir(t)
		w.create(newPod("ns", "a", "v=1"))
		do, calls := countCalls(refuse(503))
		w.answer(func(rw http.ResponseWriter, r *http.Request) bool { return asksForCluster(r) && do(rw, r) })
		l := w.live(w.client(), pods, config)
		before := calls.Load()
		l.stop()
		if s := l.status(); s.Saves != 0 || s.SaveError == nil || !strings.Contains(s.SaveError.Error(), "the server has not been identified") {
			t.Errorf("%+v", s)
		}
		if n := calls.Load(); before == 0 || n != before {
			t.Errorf("%d requests before the end, %d after it", before, n)
		}
	})
}

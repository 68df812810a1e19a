package warmstart

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
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

// status returns the status of the saved states of the first namespace.
func (l life) status() status.WarmStart { return l.Status().Reflectors[0].WarmStart }

// The informer saves while it runs, at intervals, if something has changed.
// Guarantees: S4
func TestStateIsSavedWhileTheInformerRuns(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		config := saving(t)
		config.WarmStart.Interval = 10 * time.Minute
		w.Create(world.NewPod("ns", "a", "v=1"))
		inf := live(w, w.Client(), pods, config)
		time.Sleep(61 * time.Second)
		if s := inf.status(); s.Saves != 1 {
			t.Errorf("a minute after the start: %+v", s)
		}
		w.Relabel("ns", "a", "2")
		time.Sleep(10 * time.Minute)
		if s := inf.status(); s.Saves != 2 || s.SavedVersion != w.Server.ResourceVersion() {
			t.Errorf("after ten minutes: %+v", s)
		}
		time.Sleep(15 * time.Minute)
		if s := inf.status(); s.Saves != 2 {
			t.Errorf("nothing has changed: %+v", s)
		}
		// The process is killed: nothing is saved at the end.
		killed := copyOf(t, config.WarmStart)
		w.Relabel("ns", "a", "3")
		inf.stop()
		config.WarmStart.Storage = killed
		again := live(w, w.Client(), pods, config)
		world.EqualsServer(w, again.Informer)
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
	forEachPodLayout(t, "stale", func(w world.World, config informer.Config[*corev1.Pod]) {
		bad := true
		config.WarmStart.Revision = "1"
		config.Transform = func(p *corev1.Pod) (*corev1.Pod, error) {
			if bad && p.Labels["v"] == "bad" {
				return nil, errors.New("bad")
			}
			return p, nil
		}
		w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
		inf := live(w, w.Client(), pods, config)
		time.Sleep(time.Minute)
		saved := w.Server.ResourceVersion()
		w.Relabel("ns", "a", "bad")
		time.Sleep(6 * time.Minute)
		if s := inf.status(); s.SavedVersion != saved || s.SaveError == nil || !strings.Contains(s.SaveError.Error(), "could not be decoded") {
			t.Errorf("with a stale object: %+v", s)
		}
		inf.stop()
		if n := strings.Count(strings.Join(inf.log.Take(), "\n"), "the state cannot be saved"); n != 1 {
			t.Errorf("the log has the failure %d times", n)
		}
		bad = false
		again := live(w, w.Client(), pods, config)
		if s := again.status(); !s.Loaded || s.LoadedVersion != saved {
			t.Errorf("%+v", s)
		}
		world.EqualsServer(w, again.Informer)
		bad = true
		w.Relabel("ns", "b", "bad")
		w.Relabel("ns", "b", "good")
		time.Sleep(6 * time.Minute)
		if s := again.status(); s.SavedVersion != w.Server.ResourceVersion() || s.SaveError != nil {
			t.Errorf("after the object was good again: %+v", s)
		}
		again.stop()

		// The first list has an object that cannot be decoded.
		w.Relabel("ns", "b", "bad")
		config.WarmStart = warmStartDir(t)
		config.WarmStart.Revision = "1"
		live(w, w.Client(), pods, config).stop()
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
	world.Bubble(t, func(w world.World) {
		full := errors.New("disk full")
		var broken atomic.Pointer[error]
		broken.Store(&full)
		config := world.Quiet[*corev1.Pod]()
		config.WarmStart.Storage = brokenStorage{informer.WarmStartDir(t.TempDir()), &broken}
		w.Create(world.NewPod("ns", "a", "v=1"))
		inf := live(w, w.Client(), pods, config)
		if s := inf.status(); !errors.Is(s.LoadError, full) {
			t.Errorf("load: %+v", s)
		}
		for i := range 5 {
			w.Relabel("ns", "a", fmt.Sprint(i))
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
		world.EqualsServer(w, inf.Informer)
		inf.stop()
		log := strings.Join(inf.log.Take(), "\n")
		if strings.Count(log, "cannot be saved") != 1 || strings.Count(log, "succeeds again") != 1 {
			t.Errorf("log:\n%s", log)
		}
	})
}

// Two informers that save under one name replace each other's saved states, and each start loads one of them whole.
// Guarantees: S4
func TestLastSaveWins(t *testing.T) {
	w := world.New(t, informertest.Options{})
	config := saving(t)
	config.WarmStart.Interval = 5 * time.Millisecond
	for i := range 20 {
		w.Create(world.NewPod("ns", fmt.Sprint("p", i), "v=1"))
	}
	client := w.Client(func(c *rest.Config) { c.QPS = -1 })
	a, b := informer.New(client, pods, config), informer.New(client, pods, config)
	stopA, stopB := world.Start(t, a), world.Start(t, b)
	for i := range 100 {
		w.Relabel("ns", fmt.Sprint("p", i%20), fmt.Sprint(i))
		if i%10 == 0 {
			c := informer.New(client, pods, config)
			stop := world.Start(t, c)
			world.EqualsServer(w, c)
			stop()
			if s := world.StatusOf(c).WarmStart; i > 0 && s.LoadError != nil && !errors.Is(s.LoadError, fs.ErrNotExist) {
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
	forEachPodLayout(t, "quiet", func(w world.World, config informer.Config[*corev1.Pod]) {
		// By default, Interval is 5 minutes, and MaxAge an hour.
		w.Create(world.NewPod("ns", "a", "v=1"))
		inf := live(w, w.Client(), pods, config)
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
		warm := live(w, w.Client(), pods, killed)
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
	world.BubbleWith(t, informertest.Options{Shards: true}, func(w world.World) {
		config := saving(t)
		for i := range 20 {
			w.Create(world.NewPod("ns", fmt.Sprint("p", i)))
		}
		whole := informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: math.MaxUint64}}}
		resource := pods
		resource.Shard = informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: math.MaxUint64 / 2}}}
		first := live(w, w.Client(), resource, config)
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
		again := live(w, w.Client(), resource, config)
		if s := again.status(); !s.Loaded || s.LoadedObjects != 20 {
			t.Errorf("%+v", s)
		}
		again.stop()
	})
}

// A list of a restored server is saved even if its version is that of the saved state.
// Guarantees: S4
func TestListOfARestoredServerIsSaved(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		config := saving(t)
		w.Create(world.NewPod("ns", "a", "v=1"))
		backup := w.Server.Snapshot()
		w.Relabel("ns", "a", "2")
		w.Create(world.NewPod("ns", "lost", "v=1"))
		config.WarmStart.Interval = time.Hour
		l := live(w, w.Client(), pods, config)
		time.Sleep(7 * time.Minute)
		saved := l.status().SavedVersion
		w.Server.Restore(backup)
		w.Server.EndWatches()
		time.Sleep(15 * time.Minute)
		w.Relabel("ns", "a", "3")
		w.Create(world.NewPod("ns", "new", "v=1"))
		time.Sleep(time.Second)
		world.EqualsServer(w, l.Informer)
		l.stop()
		if s := l.status(); s.Saves != 2 || s.SavedVersion != saved {
			t.Errorf("%+v", s)
		}
		again := live(w, w.Client(), pods, config)
		world.EqualsServer(w, again.Informer)
		again.stop()
	})
}

// Neither a saved state nor the log has the credentials in the URL of the server, and new credentials do not matter.
// Guarantees: S4
func TestSavedStateHasNoCredentials(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		config := saving(t)
		w.Create(world.NewPod("ns", "a", "v=1"))
		client := func(password string) *informer.Client {
			return w.Client(func(c *rest.Config) { c.Host = strings.Replace(c.Host, "://", "://user:"+password+"@", 1) })
		}
		live(w, client("hunter2"), pods, config).stop()
		raw, err := os.ReadFile(files(t, config.WarmStart)[0])
		if err != nil || strings.Contains(string(raw), "hunter2") || strings.Contains(string(raw), "user:") {
			t.Errorf("the saved state has the password: %v", err)
		}
		again := live(w, client("other"), pods, config)
		if s := again.status(); !s.Loaded {
			t.Errorf("%+v", s)
		}
		again.stop()
	})
}

// The last save sends no request, so it does not delay the end. It fails if the server has not been identified yet.
// Guarantees: S4, L2
func TestLastSaveSendsNoRequest(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		config := saving(t)
		w.Create(world.NewPod("ns", "a", "v=1"))
		do, calls := countCalls(refuse(503))
		w.Answer(func(rw http.ResponseWriter, r *http.Request) bool { return asksForCluster(r) && do(rw, r) })
		l := live(w, w.Client(), pods, config)
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

// A state that is saved after the client got another address is one of that address. The server is asked again who it is, so that also the last
// save knows.
// Guarantees: R13, S4
func TestStateIsSavedForTheAddressOfTheClient(t *testing.T) {
	const other = "http://other"
	world.Bubble(t, func(w world.World) {
		config, client := saving(t), w.Client()
		w.Create(world.NewPod("ns", "a", "v=1"))
		inf := live(w, client, pods, config)
		time.Sleep(2 * time.Minute)
		moved := w.Server.Config()
		moved.Host = other
		if err := client.Update(moved); err != nil {
			t.Fatal(err)
		}
		w.Relabel("ns", "a", "2")
		world.EqualsServer(w, inf.Informer)
		synctest.Wait()
		inf.stop()
		if s := inf.status(); s.SavedVersion != w.Server.ResourceVersion() || s.SaveError != nil {
			t.Errorf("%+v", s)
		}
		saved := config.WarmStart
		for host, usable := range map[string]bool{other: true, w.Server.URL: false} {
			config.WarmStart.Storage = copyOf(t, saved)
			again := live(w, w.Client(func(c *rest.Config) { c.Host = host }), pods, config)
			if s := again.status(); s.Loaded != usable {
				t.Errorf("%s: %+v", host, s)
			}
			again.stop()
		}
	})
}

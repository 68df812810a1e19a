package recovery

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

// A file in testdata is the trace of a situation: what a server does, and what an informer of its pods does then. It consists of
// paragraphs. In a paragraph, lines that begin with # are for readers, and each other line is a command. A line ---- and the
// output of the commands follow:
//
//	> < INFO WARN ERROR   requests, answers and log lines in the order of their time; see world.Journal. The words "again and
//	                      again" stand for two or more lines that equal the one before
//	handler: CALL         calls of the handler, which runs beside the reflector; a version is the value of the pod's label v
//	= STATE ...           the reflector's state, the store's version and pods, and counters of the status that are not zero
//
// To add a trace, write the commands, run go test -update, and read the output. No output has a time, since most waits are
// random: the commands have the times, and -update changes no command. At the end of each trace, the test ends the failures,
// and checks that the store equals the server.

// commands returns the commands of a trace.
func (t *trace) commands() map[string]func(args []string) {
	return map[string]func([]string){
		// The informer.
		"paged": t.paged, // lists pages of this many objects, and no streams
		"run":   t.run,   // starts the informer
		"ready": t.ready, // prints what WaitSynced returns now
		"find":  t.find,  // prints what a lister returns for a pod
		"wait":  func(args []string) { <-time.After(duration(args[0])) },
		"skip":  t.skip,  // waits, and prints neither requests nor log, nor the number of failures until it is zero
		"await": t.await, // waits for the next request, which must come after T, or after FROM..TO

		// Pods. A pod is NAMESPACE/NAME.
		"create":    func(args []string) { t.Create(world.NewPod(key(args[0]).Namespace, key(args[0]).Name, "v="+args[1])) },
		"update":    func(args []string) { t.Relabel(key(args[0]).Namespace, key(args[0]).Name, args[1]) },
		"delete":    func(args []string) { t.Delete(key(args[0]).Namespace, key(args[0]).Name) },
		"elsewhere": func([]string) { t.ChangeElsewhere() }, // changes an object of another resource
		"corrupt":   func(args []string) { t.fault(informertest.Fault{Corrupt: []informer.Key{key(args[0])}}) },
		"uninstall": func([]string) { t.Pods.Unregister() }, // no longer serves pods, as after the deletion of a CRD
		"install":   t.install,                              // serves pods again; there are none

		// The server.
		"proxy":   func(args []string) { t.proxy.Idle = duration(args[0]) }, // resets watches that are silent for so long
		"cut":     func([]string) { t.Server.EndWatches() },                 // ends all watches cleanly
		"compact": func([]string) { t.Server.Compact() },                    // forgets its history
		"backup":  func([]string) { t.backup = t.Server.Snapshot() },
		"restore": func([]string) { t.Server.Restore(t.backup) }, // goes back to the backup
		"stop":    func([]string) { t.Server.Stop() },            // refuses connections
		"start":   func([]string) { t.Server.Start() },
		"next":    func(args []string) { t.answers(1, args[0], args[1:]) }, // next REQUEST HOW: see answers
		"every":   func(args []string) { t.answers(0, args[0], args[1:]) }, // the same for all requests until repair
		"repair":  func([]string) { t.repair() },                           // ends corrupt, next and every
	}
}

// answers makes the server answer the next request of a kind in that way, or all requests if times is zero. For the kinds, see
// world.KindOf; "any" is each. The ways are
//
//	410               one of world.Statuses
//	reset, end, hang  the connection breaks, the body ends, nothing comes
//	410 after N       the same after the headers and N events of the watch
//	says POD VERSION  as usual, but events of the pod have that version; the pod / stands for bookmarks
//	html              a page of a proxy, with status 200
//	COMMAND           as usual, after that command
func (t *trace) answers(times int, kind string, how []string) {
	f := informertest.Fault{Times: times, Error: world.Statuses[how[0]], Drop: how[0] == "reset", End: how[0] == "end", Hang: how[0] == "hang"}
	f.Match = func(r informertest.Request) bool {
		return kind == world.AnyKind || world.KindOf(r.Path, r.Query) == kind
	}
	if f.AfterHeaders = len(how) > 2 && how[1] == "after"; f.AfterHeaders {
		f.AfterEvents, _ = strconv.Atoi(how[2])
	}
	if how[0] == "says" {
		f.Rewrite = podAt(key(how[1]), how[2])
	}
	if f.Error != nil || f.Drop || f.End || f.Hang || f.Rewrite != nil {
		t.fault(f)
		return
	}
	t.other.Add(kind, times == 1, func(w http.ResponseWriter, _ *http.Request) bool {
		if how[0] == "html" {
			world.Write(w, "text/html", []byte("<html>"))
			return true
		}
		t.do(strings.Join(how, " "))
		return false
	})
}

var rewrite = flag.Bool("update", false, "write the output of the traces in testdata")

// Each trace is what an informer does, in JSON and in protobuf.
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		for _, media := range []string{world.JSONType, world.ProtobufType} {
			format := strings.TrimPrefix(strings.TrimPrefix(media, "application/"), "vnd.kubernetes.")
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+format, func(t *testing.T) {
				world.Bubble(t, func(w world.World) { playFile(w, file, media) })
			})
		}
	}
}

// playFile plays the trace in file.
func playFile(w world.World, file, media string) {
	raw, err := os.ReadFile(file)
	if err != nil {
		w.Fatal(err)
	}
	t := &trace{World: w, Journal: world.NewJournal(), proxy: world.Proxy{Cut: world.ErrReset}, media: media, stop: func() {}}
	w.Answer(t.other.Answer)
	defer func() { t.stop() }()
	got := t.play(string(raw))
	writes := *rewrite && media == world.JSONType
	if diff := cmp.Diff(strings.Split(string(raw), "\n"), strings.Split(got, "\n")); diff != "" && !writes {
		w.Errorf("%s differs (-file +now). If that is intended, run make golden.\n%s", file, diff)
	}
	t.repair()
	endsWell(t.World, t.inf, &t.rec)
	if writes && !w.Failed() {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			w.Fatal(err)
		}
	}
}

// trace plays a trace.
type trace struct {
	world.World
	*world.Journal
	proxy   world.Proxy
	media   string
	config  informer.Config[*corev1.Pod]
	inf     *informer.Informer[*corev1.Pod]
	rec     testkit.Recorder[*corev1.Pod]
	stop    func()
	backup  *informertest.Snapshot
	remove  []func()      // faults
	other   world.Answers // that are no faults
	skipped bool          // the number of failures is random
}

// play runs the commands of script, and returns it with their output of now.
func (t *trace) play(script string) string {
	var paragraphs []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(script), "\n\n") {
		lines, _, _ := strings.Cut(paragraph, "\n----")
		commands := slices.DeleteFunc(strings.Split(lines, "\n"), func(line string) bool { return strings.HasPrefix(line, "#") })
		for _, line := range commands {
			t.do(line)
			synctest.Wait()
		}
		if len(commands) > 0 {
			lines += "\n----\n" + strings.Join(t.output(), "\n")
		}
		paragraphs = append(paragraphs, lines)
	}
	return strings.Join(paragraphs, "\n\n") + "\n"
}

// do runs a command.
func (t *trace) do(line string) {
	words := append(strings.Fields(line), "", "") // an argument that is missing is empty
	do, ok := t.commands()[words[0]]
	if !ok {
		t.Fatalf("%q is not one of %q", line, slices.Sorted(maps.Keys(t.commands())))
	}
	do(words[1:])
}

// output returns the output since the last call.
func (t *trace) output() (lines []string) {
	all := t.Journal.Take()
	for n := 0; len(all) > 0; all = all[n:] {
		if n = slices.IndexFunc(all, func(line string) bool { return line != all[0] }); n < 0 {
			n = len(all)
		}
		if lines = append(lines, all[0]); n == 2 {
			lines = append(lines, all[0])
		} else if n > 2 {
			lines = append(lines, "again and again")
		}
	}
	for _, call := range t.rec.Take() {
		lines = append(lines, "handler: "+call)
	}
	s := world.StatusOf(t.inf)
	var pods []string
	for pod := range t.inf.Store().All() {
		pods = append(pods, informer.KeyOf(pod).String()+"="+testkit.VersionOf(pod))
	}
	state := fmt.Sprintf("= %v version=%s pods=%s", s.State, t.inf.Store().ResourceVersion(), pods)
	if t.skipped = t.skipped && s.Failures > 0; t.skipped {
		s.Failures = 0
	}
	for _, count := range []struct {
		name string
		n    int
	}{{"failures", s.Failures}, {"restored", s.Restored}, {"stale", s.Stale}, {"decodeErrors", s.DecodeErrors}, {"late", int(s.Traffic.Late)}} {
		if count.n > 0 {
			state += fmt.Sprintf(" %s=%d", count.name, count.n)
		}
	}
	return append(lines, state)
}

func (t *trace) paged(args []string) {
	t.config.PagedList = true
	t.config.PageSize, _ = strconv.Atoi(args[0])
}

func (t *trace) run([]string) {
	t.config.Logger = t.Logger()
	client := t.Client(t.proxy.Wrap, func(c *rest.Config) { c.ContentType = t.media; c.Wrap(t.Observed) })
	t.inf = informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, t.config)
	t.inf.Subscribe(&t.rec)
	t.stop = world.Run(t.World, t.inf)
}

func (t *trace) ready([]string) {
	ctx, cancel := context.WithTimeout(t.Context(), 1)
	defer cancel()
	t.Note("WaitSynced: %v", t.inf.WaitSynced(ctx))
}

func (t *trace) find(args []string) {
	_, err := informer.NewLister(t.inf, world.PodGVR.GroupResource()).Get(key(args[0]))
	text, _, _ := strings.Cut(fmt.Sprint(err), ": ") // what follows depends on the format
	t.Note("get %s: %s", args[0], text)
}

func (t *trace) skip(args []string) {
	<-time.After(duration(args[0]))
	synctest.Wait()
	t.Journal.Take()
	t.skipped = true
}

func (t *trace) await(args []string) {
	least, most, isRange := strings.Cut(args[0], "..")
	if !isRange {
		most = least
	}
	if took := t.AwaitRequest(duration(most) + time.Second); took < duration(least) || took > duration(most) {
		t.Errorf("await %s: no request until %v", args[0], took)
	}
}

func (t *trace) install([]string) {
	t.Pods = informertest.Register[*corev1.Pod](t.Server, informertest.Resource{GroupVersionResource: world.PodGVR})
}

func (t *trace) fault(f informertest.Fault) { t.remove = append(t.remove, t.Server.Inject(f)) }

func (t *trace) repair() {
	for _, remove := range t.remove {
		remove()
	}
	t.remove = nil
	t.other.Clear()
}

// key returns the key that text names, as namespace/name.
func key(text string) informer.Key {
	namespace, name, _ := strings.Cut(text, "/")
	return informer.Key{Namespace: namespace, Name: name}
}

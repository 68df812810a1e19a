package debugpage

import (
	"net/http"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/typedinformer/informer"
)

// Status is the JSON of status.json: everything that the page shows, except objects. Later versions may add fields; existing
// ones keep their names and meanings. Durations are in seconds, sizes in bytes, times as in RFC 3339. No list is null.
type Status struct {
	// Name is Config.Name.
	Name string `json:"name"`
	// Time is the time of the answer.
	Time time.Time `json:"time"`
	// Authorized says whether Config.Authorize has admitted the sender of the request.
	Authorized bool    `json:"authorized"`
	Process    Process `json:"process"`
	// Problems are what is wrong now, errors before warnings.
	Problems    []Problem    `json:"problems"`
	Informers   []Informer   `json:"informers"`
	Queues      []Queue      `json:"queues"`
	Controllers []Controller `json:"controllers"`
	// Stores are the stores whose objects the page shows to authorized callers.
	Stores []Store `json:"stores"`
}

// Severity says how bad something is. Empty means that it is well.
type Severity string

// The severities.
const (
	// SeverityError says that something does not work.
	SeverityError Severity = "error"
	// SeverityWarning says that something is slow, incomplete or about to fail.
	SeverityWarning Severity = "warning"
)

// Problem is something that is wrong.
type Problem struct {
	Severity Severity `json:"severity"`
	// Kind is informer, watch, subscription, queue or controller, and Name says which one.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Message says what is wrong. It has no text of the API server.
	Message string `json:"message"`
}

// Process has the figures of the Go runtime.
type Process struct {
	// HeapBytes is the memory of objects: live ones, and dead ones that are not freed yet.
	HeapBytes uint64 `json:"heapBytes"`
	// TotalBytes is all memory that the Go runtime has from the operating system.
	TotalBytes uint64 `json:"totalBytes"`
	Goroutines uint64 `json:"goroutines"`
}

// Informer is the status of an informer.
type Informer struct {
	// Resource describes the collection, as "apps/v1 deployments in a,b with labels app=web".
	Resource string `json:"resource"`
	// Severity is the worst of the problems of the informer, its watches and its subscriptions.
	Severity        Severity `json:"severity"`
	Synced          bool     `json:"synced"`
	ResourceVersion string   `json:"resourceVersion"`
	Objects         int      `json:"objects"`
	// Queued is the number of changes that wait to enter the store. Blocked is the number of reflectors that wait because
	// that queue is full.
	Queued        int            `json:"queued"`
	Blocked       int            `json:"blocked"`
	Watches       []Watch        `json:"watches"`
	Subscriptions []Subscription `json:"subscriptions"`
}

// Watch is the status of a reflector: the list and watch of one namespace, or of the whole collection.
type Watch struct {
	// Namespace is empty for the whole collection.
	Namespace string   `json:"namespace"`
	Severity  Severity `json:"severity"`
	// State is Idle, Listing, Watching, Backoff or Absent, since the time Since.
	State           string    `json:"state"`
	Since           time.Time `json:"since,omitzero"`
	Open            bool      `json:"open"`
	NoWatchSince    time.Time `json:"noWatchSince,omitzero"`
	ResourceVersion string    `json:"resourceVersion"`
	Lists           int       `json:"lists"`
	Watches         int       `json:"watches"`
	Restored        int       `json:"restored"`
	// Failures is the number of consecutive failures.
	Failures     int `json:"failures"`
	DecodeErrors int `json:"decodeErrors"`
	Stale        int `json:"stale"`
	// Read is the number of objects read of the current list, or of the last one.
	Read      int      `json:"read"`
	LastError *Failure `json:"lastError,omitempty"`
}

// Failure is the last error of a watch.
type Failure struct {
	Time time.Time `json:"time"`
	// Class says what kind of error it is, as "403 Forbidden" or "connection refused".
	Class string `json:"class"`
	// Text is the text of the error, shortened to 1 KiB. Only authorized callers receive it.
	Text string `json:"text,omitempty"`
}

// Subscription is the status of a handler.
type Subscription struct {
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
	Synced   bool     `json:"synced"`
	// Blocking says that the informer waits for the handler.
	Blocking bool `json:"blocking"`
	Backlog  int  `json:"backlog"`
	// BusySeconds is how long the current call has taken so far.
	BusySeconds float64 `json:"busySeconds"`
}

// Queue is the status of a queue.
type Queue struct {
	Name string `json:"name"`
	// Controller is the name of the controller that the queue belongs to.
	Controller string   `json:"controller,omitempty"`
	Severity   Severity `json:"severity"`
	// State is Open, Draining or Closed.
	State string `json:"state"`
	// High, Normal and Low are the numbers of ready keys by priority, and Ready is their sum.
	High                  int     `json:"high"`
	Normal                int     `json:"normal"`
	Low                   int     `json:"low"`
	Ready                 int     `json:"ready"`
	Delayed               int     `json:"delayed"`
	InWork                int     `json:"inWork"`
	Adds                  uint64  `json:"adds"`
	Retries               uint64  `json:"retries"`
	Refused               uint64  `json:"refused"`
	LongestRunningSeconds float64 `json:"longestRunningSeconds"`
	UnfinishedSeconds     float64 `json:"unfinishedSeconds"`
}

// Controller is the status of a controller. Its queue is in Status.Queues.
type Controller struct {
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
	Running  bool     `json:"running"`
	// Workers is the number of calls of Reconcile that may run at the same time, and Active the number of those that do.
	Workers int `json:"workers"`
	Active  int `json:"active"`
	// The calls of Reconcile, by result. Terminal and Panicked are parts of Failed.
	Succeeded     uint64 `json:"succeeded"`
	RequeuedAfter uint64 `json:"requeuedAfter"`
	BackedOff     uint64 `json:"backedOff"`
	Failed        uint64 `json:"failed"`
	Terminal      uint64 `json:"terminal"`
	Panicked      uint64 `json:"panicked"`
}

// Store is a store whose objects the page can show.
type Store struct {
	Name    string   `json:"name"`
	Masked  bool     `json:"masked"`
	Indexes []string `json:"indexes"`
}

const maxErrorText = 1 << 10 // bytes

// status answers status.json.
func (h *handler) status(r *http.Request) (any, error) {
	b := builder{now: time.Now(), authorized: h.authorized(r)}
	s := Status{
		Name:        h.config.Name,
		Time:        b.now,
		Authorized:  b.authorized,
		Process:     readProcess(),
		Informers:   []Informer{},
		Queues:      []Queue{},
		Controllers: []Controller{},
		Stores:      []Store{},
	}
	for _, status := range h.config.Informers {
		s.Informers = append(s.Informers, b.informer(status()))
	}
	for _, statuses := range h.config.Groups {
		for _, status := range statuses() {
			s.Informers = append(s.Informers, b.informer(status))
		}
	}
	for _, status := range h.config.Controllers {
		c := status()
		s.Controllers = append(s.Controllers, b.controller(c))
		if c.Queue.Depth != nil { // a controller has no queue before its first Watch or Run
			s.Queues = append(s.Queues, b.queue(c.Queue, c.Name))
		}
	}
	for _, status := range h.config.Queues {
		s.Queues = append(s.Queues, b.queue(status(), ""))
	}
	for _, of := range h.stores {
		s.Stores = append(s.Stores, Store{
			Name:    of.name,
			Masked:  h.masked(of.resource().GroupResource()),
			Indexes: append([]string{}, of.indexes()...),
		})
	}
	s.Problems = b.sorted()
	return s, nil
}

func readProcess() Process {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/sched/goroutines:goroutines"},
	}
	metrics.Read(samples)
	return Process{samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64()}
}

func (b *builder) informer(s informer.InformerStatus) Informer {
	name := s.Resource.String()
	i := Informer{
		Resource:        name,
		Severity:        b.add("informer", name, informerProblems(s)),
		Synced:          s.Synced,
		ResourceVersion: s.ResourceVersion,
		Objects:         s.Objects,
		Queued:          s.Queued,
		Blocked:         s.Blocked,
		Watches:         []Watch{},
		Subscriptions:   []Subscription{},
	}
	for _, r := range s.Reflectors {
		w := b.watch(name, r)
		i.Watches = append(i.Watches, w)
		i.Severity = worse(i.Severity, w.Severity)
	}
	for _, h := range s.Handlers {
		sub := Subscription{
			Name:        h.Name,
			Severity:    b.add("subscription", name+": "+h.Name, subscriptionProblems(h)),
			Synced:      h.Synced,
			Blocking:    h.Blocking,
			Backlog:     h.Backlog,
			BusySeconds: h.Busy.Seconds(),
		}
		i.Subscriptions = append(i.Subscriptions, sub)
		i.Severity = worse(i.Severity, sub.Severity)
	}
	return i
}

func (b *builder) watch(resource string, r informer.ReflectorStatus) Watch {
	name := resource
	if r.Namespace != "" {
		name += ", namespace " + r.Namespace
	}
	w := Watch{
		Namespace:       r.Namespace,
		Severity:        b.add("watch", name, watchProblems(r, b.now)),
		State:           r.State.String(),
		Since:           r.Since,
		Open:            r.WatchOpen,
		NoWatchSince:    r.NoWatchSince,
		ResourceVersion: r.ResourceVersion,
		Lists:           r.Lists,
		Watches:         r.Watches,
		Restored:        r.Restored,
		Failures:        r.Failures,
		DecodeErrors:    r.DecodeErrors,
		Stale:           r.Stale,
		Read:            r.Read,
	}
	if r.LastError != nil {
		w.LastError = &Failure{Time: r.LastErrorTime, Class: class(r.LastError)}
		if b.authorized {
			w.LastError.Text = shorten(r.LastError.Error())
		}
	}
	return w
}

// shorten returns the beginning of a text.
func shorten(text string) string {
	if len(text) <= maxErrorText {
		return text
	}
	return strings.ToValidUTF8(text[:maxErrorText], "") + "…"
}

func (b *builder) queue(s informer.QueueStatus, controller string) Queue {
	q := Queue{
		Name:                  s.Name,
		Controller:            controller,
		Severity:              b.add("queue", s.Name, queueProblems(s)),
		State:                 s.State.String(),
		High:                  s.Depth[informer.HighPriority],
		Normal:                s.Depth[informer.NormalPriority],
		Low:                   s.Depth[informer.LowPriority],
		Delayed:               s.Delayed,
		InWork:                s.InWork,
		Adds:                  s.Adds,
		Retries:               s.Retries,
		Refused:               s.Refused,
		LongestRunningSeconds: s.LongestRunning.Seconds(),
		UnfinishedSeconds:     s.Unfinished.Seconds(),
	}
	for _, ready := range s.Depth {
		q.Ready += ready
	}
	return q
}

func (b *builder) controller(s informer.ControllerStatus) Controller {
	return Controller{
		Name:          s.Name,
		Running:       s.Running,
		Workers:       s.Workers,
		Active:        s.Active,
		Succeeded:     s.Succeeded,
		RequeuedAfter: s.RequeuedAfter,
		BackedOff:     s.BackedOff,
		Failed:        s.Failed,
		Terminal:      s.Terminal,
		Panicked:      s.Panicked,
	}
}

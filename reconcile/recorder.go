package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/record/util"

	"github.com/typedinformer/informer"
)

// RecorderConfig is the configuration of a [Recorder]. Only Component is required.
type RecorderConfig struct {
	// Component is the name of the program in the events, such as "website-controller".
	Component string
	// Instance is the name of this replica in the events. Empty means the host name, which is the name of the pod.
	Instance string
	// Capacity is how many events may wait. Zero means 1,000.
	Capacity int
	// FlushTimeout is how long Run writes waiting events after its context has ended. Zero means 2 s. Negative means
	// that Run drops them.
	FlushTimeout time.Duration
	// Correlator sets the limits and the functions of client-go's EventCorrelator. Zero means its defaults: an object
	// may have 25 events at once and then one every 5 minutes; more than 10 events in 10 minutes that differ only in
	// their text become one.
	Correlator record.CorrelatorOptions
	// Logger receives a record for the first event after a success that is lost or late. Nil means slog.Default().
	Logger *slog.Logger
}

func (c *RecorderConfig) complete() error {
	switch {
	case c.Component == "":
		return errors.New("RecorderConfig.Component is empty")
	case c.Capacity < 0:
		return fmt.Errorf("RecorderConfig.Capacity is %d: it must not be negative", c.Capacity)
	}
	if c.Instance == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("RecorderConfig.Instance is empty, and the host has no name: %w", err)
		}
		c.Instance = host
	}
	c.Capacity = cmp.Or(c.Capacity, 1000)
	c.FlushTimeout = cmp.Or(c.FlushTimeout, 2*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return nil
}

// Recorder writes Events (core/v1) about objects, for people who run kubectl describe. Like client-go's recorder, it
// uses EventCorrelator: equal events become one with a count, similar events become one, and the number of events of an
// object is limited. Create one with [NewRecorder], and call Run, for example as a runnable of a manager on every
// replica. All methods are safe for concurrent use.
//
// Events are hints. They may be lost: when too many wait, when the server rejects one, or when the program ends.
// Nothing may depend on them.
type Recorder struct {
	config RecorderConfig
	client *informer.TypedClient[*corev1.Event]
	queue  chan *corev1.Event

	mu      sync.Mutex // protects the fields below
	status  RecorderStatus
	failing bool  // an event was lost or late since the last success, and the log says so
	named   int64 // the last result of unique
}

// RecorderStatus is the status of a [Recorder].
type RecorderStatus struct {
	// Running is true while Run is under way.
	Running bool
	// Waiting is the number of events that wait.
	Waiting int
	// Written counts the requests that succeeded. Limited counts the events that exceeded the limit of their object.
	// Dropped counts the events that found no room, and those that still waited after FlushTimeout. Failed counts those
	// that could not be written.
	Written, Limited, Dropped, Failed uint64
	// LastError is the last failure. Nil means that there was none.
	LastError error
}

// NewRecorder returns a recorder. It sends nothing; Run does. It returns an error that names the field of config that
// is wrong.
//
// Give the recorder a client of its own, so that events do not take the rate limit of other requests. The service
// account needs the verbs create and patch for events in the core group.
func NewRecorder(client *informer.Client, config RecorderConfig) (*Recorder, error) {
	if client == nil {
		return nil, errors.New("reconcile: the client is nil: create one with informer.NewClient")
	}
	if err := config.complete(); err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	return &Recorder{
		config: config,
		client: informer.NewTypedClient[*corev1.Event](client, corev1.SchemeGroupVersion.WithResource("events")),
		queue:  make(chan *corev1.Event, config.Capacity),
	}, nil
}

// Eventf records an event about obj, which is of the given kind. eventType is corev1.EventTypeNormal or
// EventTypeWarning. reason is a word in UpperCamelCase, at most 128 bytes. The text may have 1,024 bytes; the rest is
// cut off. Eventf never waits, and may be called before Run.
func (r *Recorder) Eventf(kind schema.GroupVersionKind, obj metav1.Object, eventType, reason, format string,
	args ...any) {
	now := metav1.Now()
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cmp.Or(obj.GetNamespace(), metav1.NamespaceDefault),
			Name:      util.GenerateEventName(obj.GetName(), r.unique(now.UnixNano())),
		},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
			Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
		},
		Type: eventType, Reason: reason, Message: cut(fmt.Sprintf(format, args...)),
		Source:         corev1.EventSource{Component: r.config.Component, Host: r.config.Instance},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		ReportingController: r.config.Component, ReportingInstance: r.config.Instance,
	}
	select {
	case r.queue <- event:
	default:
		r.note(func(s *RecorderStatus) { s.Dropped++ }, errFull)
	}
}

// unique returns now, in nanoseconds, or a later time if the name of an earlier event of this recorder contains now.
func (r *Recorder) unique(now int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.named = max(now, r.named+1)
	return r.named
}

var (
	errFull    = errors.New("too many events wait")
	errStopped = errors.New("the recorder has stopped")
)

// maxMessage is the longest text of an event, in bytes. It is the limit of events.k8s.io.
const maxMessage = 1024

func cut(message string) string {
	const mark = "..."
	if len(message) <= maxMessage {
		return message
	}
	end := maxMessage - len(mark)
	for end > 0 && message[end]&0xC0 == 0x80 { // inside a character of UTF-8
		end--
	}
	return message[:end] + mark
}

// Run writes events until ctx ends, and then those that wait, within FlushTimeout. It returns the cause of ctx. If Run
// is already under way, it returns an error that wraps [informer.ErrRunning]. A later Run continues.
func (r *Recorder) Run(ctx context.Context) error {
	r.mu.Lock()
	if r.status.Running {
		r.mu.Unlock()
		return fmt.Errorf("recorder: %w", informer.ErrRunning)
	}
	r.status.Running = true
	r.mu.Unlock()
	defer r.note(func(s *RecorderStatus) { s.Running = false }, nil)
	writing, end := context.WithCancelCause(context.WithoutCancel(ctx)) // ends FlushTimeout after ctx
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer end(nil)
	tasks.Go(func() {
		select {
		case <-ctx.Done():
		case <-writing.Done():
			return
		}
		timer := time.NewTimer(r.config.FlushTimeout)
		defer timer.Stop()
		select {
		case <-timer.C:
			end(errStopped)
		case <-writing.Done():
		}
	})
	correlator := record.NewEventCorrelatorWithOptions(r.config.Correlator)
	for ctx.Err() == nil {
		select {
		case event := <-r.queue:
			r.record(ctx, writing, correlator, event)
		case <-ctx.Done():
		}
	}
	for {
		select {
		case event := <-r.queue:
			r.record(ctx, writing, correlator, event)
		default:
			return context.Cause(ctx)
		}
	}
}

// maxAnswers is the number of errors of the server, such as those of a webhook, after which the recorder gives up an
// event.
const maxAnswers = 3

// record writes an event, unless the context writing has ended. While the server cannot be reached, it tries again until
// ctx ends. The other events wait.
func (r *Recorder) record(ctx, writing context.Context, correlator *record.EventCorrelator, event *corev1.Event) {
	if writing.Err() != nil {
		r.note(func(s *RecorderStatus) { s.Dropped++ }, errStopped)
		return
	}
	result, err := correlator.EventCorrelate(event)
	switch {
	case err != nil:
		r.note(func(s *RecorderStatus) { s.Failed++ }, err)
		return
	case result.Skip:
		r.note(func(s *RecorderStatus) { s.Limited++ }, nil)
		return
	}
	answers := 0
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		written, err := r.write(writing, result)
		if err == nil {
			correlator.UpdateState(written)
			r.note(func(s *RecorderStatus) { s.Written++ }, nil)
			return
		}
		var answer apierrors.APIStatus
		if errors.As(err, &answer) {
			answers++
		}
		if ctx.Err() != nil || answer != nil && answer.Status().Code < 500 || answers == maxAnswers {
			r.note(func(s *RecorderStatus) { s.Failed++ }, err)
			return
		}
		r.note(func(*RecorderStatus) {}, err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done(): // one more try
			timer.Stop()
		}
	}
}

// write creates an event, or increases the count of one that exists.
func (r *Recorder) write(ctx context.Context, result *record.EventCorrelateResult) (*corev1.Event, error) {
	if result.Event.Count > 1 {
		written, err := r.client.Patch(ctx, informer.KeyOf(result.Event), types.StrategicMergePatchType, result.Patch,
			metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) { // the server deletes events after an hour
			return written, err
		}
	}
	event := result.Event.DeepCopy()
	event.ResourceVersion = ""
	return r.client.Create(ctx, event, metav1.CreateOptions{})
}

// note changes the status. It logs err unless it has logged one since the last success.
func (r *Recorder) note(change func(s *RecorderStatus), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.status.Written
	change(&r.status)
	switch {
	case err != nil:
		r.status.LastError = err
		if !r.failing {
			r.config.Logger.Warn("an event was lost or is late", "err", err)
		}
		r.failing = true
	case r.status.Written > before:
		r.failing = false
	}
}

// Status returns the present status of the recorder.
func (r *Recorder) Status() RecorderStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Waiting = len(r.queue)
	return s
}

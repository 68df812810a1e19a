package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/health"
	"github.com/typedinformer/informer/leader"
	"github.com/typedinformer/informer/status"
)

// Manager runs a program: servers, informers, controllers, and other runnables. Create one with [New], add to it, and
// call Run. All methods are safe for concurrent use. A runnable that is added while Run is under way starts at once, if
// its phase has begun.
type Manager struct {
	config   Config
	stages   [phases]*stage // by Phase
	election *stage         // the leader election, which runs the stage LeaderOnly
	elected  chan struct{}
	forced   context.Context // ends at the deadline of the shutdown
	force    context.CancelFunc

	mu          sync.Mutex // protects the fields below. Never lock it while holding mu of a stage
	state       State
	since       time.Time
	err         error                   // the first failure
	invalid     error                   // the first error that New or Add has found
	stop        context.CancelCauseFunc // begins the shutdown; nil before Run
	stopBy      time.Time               // see Status
	servers     []*server
	informers   []func() []informer.InformerStatus
	controllers []func() status.Controller
}

// stopError is the cause of the contexts of runnables. A controller ends its calls of Reconcile early enough to return
// by then.
type stopError struct{ deadline time.Time }

func (e *stopError) Error() string { return "the manager stops" }

func (e *stopError) Unwrap() error { return context.Canceled }

// StopBy returns the time of the deadline.
func (e *stopError) StopBy() time.Time { return e.deadline }

// ShutdownError indicates that not everything has stopped within Config.GracefulShutdownTimeout.
type ShutdownError struct {
	// Timeout is Config.GracefulShutdownTimeout.
	Timeout time.Duration
	// Running names the runnables that still run although their contexts have ended.
	Running []string
}

// Error names the runnables that still run.
func (e *ShutdownError) Error() string {
	return fmt.Sprintf("not stopped within %v: %s", e.Timeout, strings.Join(e.Running, ", "))
}

const electionName = "leader election"

// New returns a manager. It starts nothing; Run does. If config is wrong, Run returns an error that names the field.
func New(config Config) *Manager {
	if config.GracefulShutdownTimeout == 0 {
		config.GracefulShutdownTimeout = defaultShutdownTimeout
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	m := &Manager{config: config, elected: make(chan struct{}), since: time.Now()}
	m.forced, m.force = context.WithCancel(context.Background())
	for p := range m.stages {
		m.stages[p] = newStage(m.fail)
	}
	m.election = newStage(m.fail)
	lead := m.lead
	if config.Elector != nil {
		lead = func(ctx context.Context) error { return config.Elector.Run(ctx, m.lead) }
	}
	m.election.add(Runnable{Name: electionName, Run: lead})
	if err := config.validate(); err != nil {
		m.invalid = fmt.Errorf("manager: %w", err)
	}
	if p := config.Probes; p.Addr != "" || p.Listener != nil {
		if p.Name == "" {
			p.Name = "probes"
		}
		p.Handler = m.probes(p.Handler)
		_ = m.AddServer(p) // Run returns its error
	}
	return m
}

// probes returns the handler of Config.Probes.
func (m *Manager) probes(others http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/readyz", m.Ready())
	mux.Handle("/livez", m.Live())
	mux.Handle("/healthz", m.Live())
	if others != nil {
		mux.Handle("/", others)
	}
	return mux
}

// AddInformer adds an informer. While Run is under way, the informer starts at once, and nothing waits until it has
// synced: call its WaitSynced. A controller waits for the informers that it watches.
func (m *Manager) AddInformer(i Informer) error {
	name := "informer " + i.Status().Resource.String()
	err := m.Add(Runnable{Name: name, Run: i.Run, Phase: Caches, WaitSynced: i.WaitSynced})
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.informers = append(m.informers, func() []informer.InformerStatus { return []informer.InformerStatus{i.Status()} })
	}
	return err
}

// AddGroup adds a group of informers. The group itself runs informers that join it later.
func (m *Manager) AddGroup(name string, g *informer.Group) error {
	err := m.Add(Runnable{Name: name, Run: g.Run, Phase: Caches, WaitSynced: g.WaitSynced})
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.informers = append(m.informers, g.Status)
	}
	return err
}

// AddController adds a controller. It runs while this replica leads. Add its informers, too. If Controller.Grace is set
// and does not fit into Config.GracefulShutdownTimeout, AddController returns an error, and so does Run.
//
// When the program stops, the calls of Reconcile under way have the controller's Grace. After a lost lease they have
// less, since another replica may take it soon: see informer.Controller. If Controller.Grace is set to more than the
// lease leaves, the manager logs both.
func (m *Manager) AddController(c Controller) error {
	s := c.Status()
	if d := m.config.GracefulShutdownTimeout; d > 0 && s.Grace >= d {
		return m.refuse(fmt.Errorf("%s: Controller.Grace is %v: it must be less than Config.GracefulShutdownTimeout, %v",
			s.Name, s.Grace, d))
	}
	if e := m.config.Elector; e != nil && s.Grace > e.Status().Grace {
		m.config.Logger.Info("after a lost lease, calls of Reconcile have less time than Grace", "controller", s.Name,
			"grace", s.Grace, "leaseLeaves", e.Status().Grace)
	}
	err := m.Add(Runnable{Name: s.Name, Run: c.Run})
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.controllers = append(m.controllers, c.Status)
	}
	return err
}

// AddServer adds a server. It runs on every replica, from before the informers until everything else has returned.
func (m *Manager) AddServer(s Server) error {
	if err := s.validate(); err != nil {
		return m.refuse(err)
	}
	run := &server{Server: s, forced: m.forced, logger: m.config.Logger}
	if err := m.Add(Runnable{Name: s.name(), Run: run.run, Phase: Servers}); err != nil {
		run.close()
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.servers = append(m.servers, run)
	return nil
}

// Add adds a runnable. If r is wrong, Add returns an error that names the field, and so does Run. Once the runnable's
// phase has begun to stop, the error wraps [informer.ErrStopped], and the runnable does not run.
func (m *Manager) Add(r Runnable) error {
	if err := r.validate(); err != nil {
		return m.refuse(err)
	}
	if !m.stages[r.Phase].add(r) {
		return fmt.Errorf("manager: add %s: %w", r.Name, informer.ErrStopped)
	}
	return nil
}

// refuse notes err for Run.
func (m *Manager) refuse(err error) error {
	err = fmt.Errorf("manager: %w", err)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.invalid == nil {
		m.invalid = err
	}
	return err
}

// Run starts everything, waits until ctx ends or something fails, and stops everything. It returns the first failure,
// with the name of its source, joined with a [*ShutdownError] if not everything has stopped in time. If ctx ended and
// nothing failed, it returns nil, even if ctx ended before Run began. A failure is an error of a runnable, or a lost
// lease: see [leader.ErrLost].
//
// A manager runs once. Later calls return an error that wraps [informer.ErrRunning].
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	if m.invalid != nil {
		defer m.mu.Unlock()
		for _, s := range m.servers {
			s.close()
		}
		return m.invalid
	}
	if m.state != Idle {
		m.mu.Unlock()
		return fmt.Errorf("manager: %w", informer.ErrRunning)
	}
	m.enterLocked(Starting)
	ctx, m.stop = context.WithCancelCause(ctx)
	m.mu.Unlock()
	defer m.stop(nil)
	if m.start(ctx) {
		<-ctx.Done()
	}
	return m.shutDown(context.Cause(ctx))
}

// start starts the phases. It returns false if ctx ended before all of them have begun.
func (m *Manager) start(ctx context.Context) bool {
	base := context.WithoutCancel(ctx) // each phase outlives ctx until its turn to stop
	for _, s := range m.allServers() { // if an address is in use, nothing starts
		if err := s.listen(ctx); err != nil && ctx.Err() == nil {
			m.fail(s.name(), err)
		}
	}
	for _, p := range []Phase{Servers, Caches} {
		if ctx.Err() != nil {
			return false
		}
		m.stages[p].start(base)
	}
	m.waitSynced(ctx)
	if ctx.Err() != nil {
		return false
	}
	m.stages[EveryReplica].start(base)
	m.election.start(base)
	m.enter(Running)
	return true
}

// waitSynced waits until the caches have synced.
func (m *Manager) waitSynced(ctx context.Context) {
	syncing := ctx
	if d := m.config.CacheSyncTimeout; d > 0 {
		var cancel context.CancelFunc
		syncing, cancel = context.WithTimeoutCause(ctx, d, fmt.Errorf("not synced within %v", d))
		defer cancel()
	}
	var missing []error
	for _, t := range m.stages[Caches].all() {
		if t.WaitSynced == nil {
			continue
		}
		if err := t.WaitSynced(syncing); err != nil {
			missing = append(missing, fmt.Errorf("%s: %w", t.Name, err))
		}
	}
	if missing != nil && ctx.Err() == nil {
		m.fail("start", errors.Join(missing...))
	}
}

func (m *Manager) allServers() []*server {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.servers)
}

// lead runs the leader-only runnables until ctx ends. It is the work of the elector. It returns when they have
// returned.
func (m *Manager) lead(ctx context.Context) error {
	leaders := m.stages[LeaderOnly]
	if !leaders.start(ctx) {
		return context.Cause(ctx) // the program stops
	}
	close(m.elected)
	<-ctx.Done()
	if err := context.Cause(ctx); errors.Is(err, leader.ErrLost) {
		m.fail(electionName, err)
		m.election.end(err) // do not contend again
	}
	leaders.end(context.Cause(ctx))
	<-leaders.done
	return nil
}

// fail begins the shutdown. Only the first failure counts.
func (m *Manager) fail(name string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		m.config.Logger.Error("a further failure", "name", name, "err", err)
		return
	}
	m.err = fmt.Errorf("%s: %w", name, err)
	m.config.Logger.Error("a failure stops the program", "name", name, "err", err)
	m.stop(m.err)
}

// shutDown stops everything, and returns the result of Run.
func (m *Manager) shutDown(cause error) error {
	wasReady := m.enter(Stopping) == Running
	m.config.Logger.Info("stopping", "cause", cause)
	defer m.force()
	ended := context.Canceled // the cause of the contexts of runnables
	deadline := make(chan struct{})
	if d := m.config.GracefulShutdownTimeout; d > 0 {
		defer time.AfterFunc(d, func() { close(deadline) }).Stop()
		end := time.Now().Add(d)
		ended = &stopError{end}
		m.mu.Lock()
		m.stopBy = end
		m.mu.Unlock()
	}
	drained := time.Now().Add(m.config.DrainDelay)
	late := m.end(ended, deadline, m.election, m.stages[LeaderOnly])
	if left := time.Until(drained); left > 0 && late == nil && wasReady {
		select {
		case <-time.After(left):
		case <-deadline:
		}
	}
	if late == nil {
		late = m.end(ended, deadline, m.stages[EveryReplica], m.stages[Caches], m.stages[Servers])
	}
	for _, s := range append(m.stages[:], m.election) {
		s.end(ended)
	}
	if !m.stages[Servers].begun() {
		for _, s := range m.allServers() {
			s.close()
		}
	}
	m.enter(Stopped)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case late == nil:
		return m.err
	case m.err == nil:
		return late
	}
	return errors.Join(m.err, late)
}

// end ends the stages one after the other, each after the previous one has returned. It returns an error at the
// deadline.
func (m *Manager) end(cause error, deadline <-chan struct{}, stages ...*stage) *ShutdownError {
	for _, s := range stages {
		s.end(cause)
		select {
		case <-s.done:
			continue
		case <-deadline:
		}
		left := m.stages[LeaderOnly].left()
		if len(left) == 0 { // the election waits for those
			left = s.left()
		}
		if len(left) > 0 { // else they have returned just now
			m.config.Logger.Error("not stopped in time", "names", left, "timeout", m.config.GracefulShutdownTimeout)
			return &ShutdownError{Timeout: m.config.GracefulShutdownTimeout, Running: left}
		}
	}
	return nil
}

// Elected returns a channel that is closed when this replica begins to lead. Without leader election, that is when the
// informers have synced.
func (m *Manager) Elected() <-chan struct{} { return m.elected }

// Ready returns the handler for /readyz. It fails before Run, until all informers have synced, and once the manager
// stops. It includes the checks of [health.Ready].
func (m *Manager) Ready() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		config := m.health()
		config.ReadyChecks = append([]health.Check{{Name: "manager", Func: m.runs}}, config.ReadyChecks...)
		health.Ready(config).ServeHTTP(w, r)
	})
}

// Live returns the handler for /livez. It makes the checks of [health.Live].
func (m *Manager) Live() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { health.Live(m.health()).ServeHTTP(w, r) })
}

// runs is the check that the manager has started, and does not stop.
func (m *Manager) runs(*http.Request) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != Running {
		return fmt.Errorf("state %v for %v", m.state, time.Since(m.since).Round(time.Second))
	}
	return nil
}

// health returns the configuration of the probes.
func (m *Manager) health() health.Config {
	config := m.config.Health
	m.mu.Lock()
	defer m.mu.Unlock()
	config.Groups = append(slices.Clip(config.Groups), m.informers...)
	config.Controllers = append(slices.Clip(config.Controllers), m.controllers...)
	return config
}

// Status returns the present status of the manager.
func (m *Manager) Status() Status {
	m.mu.Lock()
	s := Status{State: m.state, Since: m.since, StopBy: m.stopBy, Err: m.err}
	m.mu.Unlock()
	if e := m.config.Elector; e != nil {
		s.Elector = new(e.Status())
	}
	for p := Phase(phases); p > 0; p-- {
		for _, t := range m.stages[p-1].all() {
			s.Tasks = append(s.Tasks, TaskStatus{Name: t.Name, Phase: t.Phase, State: t.state, Since: t.since, Err: t.err})
		}
	}
	s.Leading = m.stages[LeaderOnly].active()
	return s
}

// enter enters s, and returns the state before.
func (m *Manager) enter(s State) State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.enterLocked(s)
}

func (m *Manager) enterLocked(s State) (before State) {
	before = m.state
	m.state, m.since = s, time.Now()
	return before
}

package manager

import (
	"context"
	"errors"
	"sync"
	"time"
)

// stage is a set of tasks that start together and stop together. It does not wait for other stages; the Manager does.
type stage struct {
	failed func(name string, err error) // called without mu when a task fails

	mu      sync.Mutex // protects the fields below, and those of the tasks
	tasks   []*task
	ctx     context.Context // the context of the tasks; nil before start
	cancel  context.CancelCauseFunc
	ended   bool // no task starts any more
	running int
	done    chan struct{} // closed when the stage has ended and no task runs
}

// task is a Runnable in a stage.
type task struct {
	Runnable
	state TaskState
	since time.Time // when it entered state
	err   error
}

func (t *task) enter(s TaskState) { t.state, t.since = s, time.Now() }

func newStage(failed func(name string, err error)) *stage {
	return &stage{failed: failed, done: make(chan struct{})}
}

// add adds a task. If the stage has started, the task starts at once. add returns false if the stage has ended.
func (s *stage) add(r Runnable) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	t := &task{Runnable: r, since: time.Now()}
	s.tasks = append(s.tasks, t)
	if s.ctx != nil {
		s.launchLocked(t)
	}
	return true
}

// start starts the tasks, with a context that ends with ctx or with end. It returns false if the stage has ended.
func (s *stage) start(ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	for _, t := range s.tasks {
		s.launchLocked(t)
	}
	return true
}

// end ends the context of the tasks with cause, unless it has ended already. Calling it again does nothing.
func (s *stage) end(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	if s.cancel != nil {
		s.cancel(cause)
	}
	for _, t := range s.tasks {
		if t.state == TaskRunning {
			t.enter(TaskStopping)
		}
	}
	if s.running == 0 {
		close(s.done)
	}
}

// errExited indicates that a runnable called runtime.Goexit, as t.FailNow does.
var errExited = errors.New("it called runtime.Goexit")

func (s *stage) launchLocked(t *task) {
	t.enter(TaskRunning)
	s.running++
	go func() {
		err := errExited
		defer func() { s.returned(t, err) }()
		err = t.Run(s.ctx)
	}()
}

func (s *stage) returned(t *task, err error) {
	if s.ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(s.ctx))) {
		err = nil
	}
	if err != nil {
		s.failed(t.Name, err) // before done is closed: Run must not miss it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.enter(TaskReturned)
	t.err = err
	s.running--
	if s.ended && s.running == 0 {
		close(s.done)
	}
}

// left returns the names of the tasks that still run although the stage has ended.
func (s *stage) left() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tasks {
		if t.state == TaskStopping {
			names = append(names, t.Name)
		}
	}
	return names
}

// all returns the tasks as they are now.
func (s *stage) all() (tasks []task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tasks {
		tasks = append(tasks, *t)
	}
	return tasks
}

// begun reports whether the stage has started.
func (s *stage) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ctx != nil
}

// active reports whether the stage has started, and has not ended.
func (s *stage) active() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ctx != nil && !s.ended
}

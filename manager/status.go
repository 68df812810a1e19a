package manager

import (
	"fmt"
	"time"

	"github.com/typedinformer/informer/leader"
)

// State is the state of a [Manager].
//
//	Idle -- Run --> Starting -- all informers have synced --> Running -- ctx ended, or a failure --> Stopping --> Stopped
//	                   |                                                                                ^
//	                   +---------------------------- ctx ended, or a failure ---------------------------+
type State uint8

const (
	// Idle means that Run was not called.
	Idle State = iota
	// Starting starts servers and informers, and waits until the informers have synced.
	Starting
	// Running means that all phases have begun. A replica that does not lead waits for the lease.
	Running
	// Stopping waits until everything has returned. Probes of readiness fail.
	Stopping
	// Stopped means that Run has returned, or is about to.
	Stopped
)

// String returns the name of the state, such as "Running".
func (s State) String() string {
	switch s {
	case Idle:
		return "Idle"
	case Starting:
		return "Starting"
	case Running:
		return "Running"
	case Stopping:
		return "Stopping"
	case Stopped:
		return "Stopped"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// TaskState is the state of a server, informer, group, controller or other runnable of a [Manager].
type TaskState uint8

const (
	// TaskWaiting means that its phase has not begun.
	TaskWaiting TaskState = iota
	// TaskRunning means that its Run is under way.
	TaskRunning
	// TaskStopping means that its context has ended, and that its Run has not returned.
	TaskStopping
	// TaskReturned means that its Run has returned.
	TaskReturned
)

// String returns the name of the state, such as "Waiting".
func (s TaskState) String() string {
	switch s {
	case TaskWaiting:
		return "Waiting"
	case TaskRunning:
		return "Running"
	case TaskStopping:
		return "Stopping"
	case TaskReturned:
		return "Returned"
	}
	return fmt.Sprintf("TaskState(%d)", uint8(s))
}

// Status is the status of a [Manager].
type Status struct {
	// State is the state, and Since the time at which the manager entered it.
	State State
	Since time.Time
	// StopBy is the time of the deadline, Config.GracefulShutdownTimeout after the beginning of the stop. Zero means that
	// the manager does not stop, or that there is no deadline.
	StopBy time.Time
	// Leading is true while leader-only runnables may run, also while Elector is leader.Paused.
	Leading bool
	// Elector is the status of Config.Elector. Nil means that there is no elector.
	Elector *leader.Status
	// Err is the first failure. It begins with the name of its source. Nil means that there was none. Its text may come
	// from a runnable, a proxy or the API server, so show it only to people who may read the log.
	Err error
	// Tasks are the runnables in the order of their start.
	Tasks []TaskStatus
}

// TaskStatus is the status of a server, informer, group, controller or other runnable.
type TaskStatus struct {
	Name  string
	Phase Phase
	// State is the state, and Since the time at which the runnable entered it.
	State TaskState
	Since time.Time
	// Err is its failure. Nil means that there was none.
	Err error
}

package informer

import "time"

// ControllerStatus is the status of a [Controller].
type ControllerStatus struct {
	Name string
	// Running is true while Run is under way.
	Running bool
	// Workers is the maximum number of concurrent calls of Reconcile. Active is the number of calls under way. The queue
	// has the key of the longest one: QueueStatus.LongestRunningKey.
	Workers, Active int
	// Grace is Controller.Grace. Zero means the default.
	Grace time.Duration
	// Succeeded counts the calls of Reconcile that returned no error and no requeue. RequeuedAfter and BackedOff count
	// those that requested a requeue. Failed counts those that returned an error or panicked. Terminal and Panicked are
	// the parts of Failed with a TerminalError and a panic.
	Succeeded, RequeuedAfter, BackedOff, Failed, Terminal, Panicked uint64
	// Failing is the number of keys whose latest call failed. FailingKeys are those that have failed for longest, 10 at
	// most, the longest first.
	Failing     int
	FailingKeys []FailingKey
	// LastSuccess is the time at which a call last returned without an error. Zero means never.
	LastSuccess time.Time
	// LastError is the error of the latest call that failed, LastErrorTime its time, and LastErrorKey its key as text. Nil
	// means that no call has failed. A success does not clear it. The text of the error has 1 KiB at most. It may contain
	// whatever Reconcile put into it, even content of objects, so show it only to people who may read the log.
	LastError     error
	LastErrorTime time.Time
	LastErrorKey  string
	// Reconciles has the times that the calls of Reconcile took.
	Reconciles Durations
	// Queue is the status of the queue.
	Queue QueueStatus
}

// FailingKey is a key whose latest call of Reconcile failed.
type FailingKey struct {
	// Key is the key as text, 512 bytes at most.
	Key string
	// Since is the time of the first failure after the last success, and Failures the number of failures from then on.
	Since    time.Time
	Failures int
}

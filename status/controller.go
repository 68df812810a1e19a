package status

import "time"

// Controller is the status of an informer.Controller.
type Controller struct {
	Name string
	// Running is true while Run is under way, and the informer.Gate of its context, if it has one, is open.
	Running bool
	// Workers is the maximum number of concurrent calls of Reconcile. Active is the number of calls under way. The queue
	// has the key of the longest one: Queue.LongestRunningKey.
	Workers, Active int
	// Grace is informer.Controller.Grace. Zero means the default.
	Grace time.Duration
	// Succeeded counts the calls of Reconcile that returned no error and no requeue. RequeuedAfter and BackedOff count
	// those that requested a requeue. Failed counts those that returned an error or panicked. Terminal and Panicked are
	// the parts of Failed with an informer.TerminalError and a panic.
	Succeeded, RequeuedAfter, BackedOff, Failed, Terminal, Panicked uint64
	// Failing is the number of keys whose latest call failed. FailingKeys are at most 10 of them, the longest failing
	// first.
	Failing     int
	FailingKeys []FailingKey
	// LastSuccess is the time at which a call last returned without an error. Zero means never.
	LastSuccess time.Time
	// LastError is the error of the latest call that failed, LastErrorTime its time, and LastErrorKey its key as text. Nil
	// means that no call has failed. A success does not clear it. The text of the error has 1 KiB at most. It may contain
	// whatever Reconcile put into it, even content of objects, so show it only to people who may read the log.
	LastError     error `json:"-"`
	LastErrorTime time.Time
	LastErrorKey  string
	// OwnWrites is the status of informer.Controller.OwnWrites.
	OwnWrites OwnWrites
	// Reconciles has the times that the calls of Reconcile took.
	Reconciles Durations
	// Queue is the status of the queue.
	Queue Queue
}

// FailingKey is a key whose latest call of Reconcile failed.
type FailingKey struct {
	// Key is the key as text, 512 bytes at most.
	Key string
	// Since is the time of the first failure after the last success, and Failures the number of failures from then on.
	Since    time.Time
	Failures int
}

// OwnWrites is the status of informer.OwnWrites, and of informer.Controller.SkipOwnWrites.
type OwnWrites struct {
	// Waiting is the number of keys that wait for writes now. Expired counts those that were handed out at the deadline.
	Waiting int
	Expired uint64
	// Waits has the times that keys have waited after Reconcile. Keys that did not have to wait do not count.
	Waits Durations
	// Skipped counts the keys that events would have added without informer.Controller.SkipOwnWrites.
	Skipped uint64
}

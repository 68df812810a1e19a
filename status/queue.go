package status

import "time"

// Queue is the status of an informer.Queue. The comments name the equivalent metrics of client-go's workqueue.
type Queue struct {
	Name  string
	State QueueState
	// Depth has the numbers of ready keys: workqueue_depth. They include keys in work that were added again.
	Depth QueueDepth
	// Delayed is the number of keys whose delay has not ended.
	Delayed int
	// InWork is the number of keys that were handed out and are not done.
	InWork int
	// Adds counts how often a key became ready: workqueue_adds_total.
	Adds uint64
	// Retries counts how often a key was added with a delay or rate-limited: workqueue_retries_total.
	Retries uint64
	// Refused counts how often a key was added to a draining or closed queue.
	Refused uint64
	// Awaited is the number of keys that wait until this replica owns them, see informer.Controller.Own, or until stores
	// have their writes, see informer.OwnWrites.
	Awaited int
	// Foreign counts how often the queue dropped a key because it was informer.KeyForeign.
	Foreign uint64
	// LongestRunning is the longest time that a key has been in work: workqueue_longest_running_processor_seconds.
	// LongestRunningKey is that key as text, 512 bytes at most. It is empty if no key is in work.
	LongestRunning    time.Duration
	LongestRunningKey string
	// Unfinished is the total time that all keys in work have been in work: workqueue_unfinished_work_seconds.
	Unfinished time.Duration
	// LongestReady is the longest time that a key has waited for Get. For a key that was added again while in work, it
	// counts from Done, whereas Waits counts from the addition. Zero means that no key waits.
	LongestReady time.Duration
	// Waits has the times from a key being ready to Get: workqueue_queue_duration_seconds. Works has the times from Get to
	// Done: workqueue_work_duration_seconds.
	Waits, Works Durations
}

// QueueDepth has a number of keys for each priority.
type QueueDepth struct{ High, Normal, Low int }

// Sum returns the number of keys of all priorities.
func (d QueueDepth) Sum() int { return d.High + d.Normal + d.Low }

// QueueState is the state of a queue.
//
//	Open -- Drain --> Draining -- the last key is done --> Closed
//	 |                   |                                   ^
//	 +------ Close ------+----------- Close -----------------+
type QueueState uint8

const (
	// QueueOpen: the queue accepts keys and hands them out.
	QueueOpen QueueState = iota
	// QueueDraining: the queue refuses keys, and hands out those that it has.
	QueueDraining
	// QueueClosed: the queue refuses keys, and hands out none.
	QueueClosed
)

// String returns "Open", "Draining" or "Closed".
func (s QueueState) String() string { return nameOf(s, "QueueState", "Open", "Draining", "Closed") }

// MarshalText implements encoding.TextMarshaler. It returns the text of String.
func (s QueueState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

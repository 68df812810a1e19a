// Package queue is the engine of a queue: it knows which keys are ready, delayed, awaited or in work, and which is
// next.
//
// A [Queue] has no lock and no goroutine. Its caller holds a lock during each call, and calls Fall when a delay ends.
// The caller reads the channels of a Queue without the lock.
//
//	queue.go       the Queue: its operations, in the order of a key's life
//	status.go      the status of a Queue
//	entry.go       the state of one key, and its place
//	pool.go        all entries by key, and those of keys that are done, for reuse
//	ranks.go       the ready keys, by priority and by age
//	delays.go      the delayed keys, a heap
//	ownership.go   which keys may be handed out
//	union.go       the keys of two states of an object
//	generation.go  which keys must be done before a wait ends
package queue

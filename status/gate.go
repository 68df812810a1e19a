package status

import "time"

// Gate is the status of an informer.Gate.
type Gate struct {
	// Open is true while the gate hands out passes.
	Open bool
	// Since is the time at which the gate was last opened or closed. Zero means that it was not opened yet.
	Since time.Time
	// Passes is the number of passes that have not been left: calls of Reconcile, writes, and other work.
	Passes int
	// Closed counts how often the gate was closed, and Refused the passes that it did not hand out.
	Closed, Refused uint64
}

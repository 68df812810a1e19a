package informer

// TerminalError wraps an error of Reconcile that a retry will not fix. The controller logs and counts the error, resets
// the failure count, and does not reconcile the key until the next event. TerminalError(nil) is such an error too, and
// not nil, as in controller-runtime: return nil for success.
func TerminalError(err error) error { return &terminalError{err} }

type terminalError struct{ err error } // err may be nil

func (e *terminalError) Error() string {
	if e.err == nil {
		return "terminal: TerminalError(nil)"
	}
	return "terminal: " + e.err.Error()
}

func (e *terminalError) Unwrap() error { return e.err }

package informer

import (
	"fmt"

	"github.com/typedinformer/informer/internal/informer/audit"
	"github.com/typedinformer/informer/status"
)

// AuditError indicates that an audit found a difference.
type AuditError struct{ Result status.AuditResult }

// Error implements error. It names the first differences.
func (e *AuditError) Error() string {
	r := &e.Result
	return fmt.Sprintf("%d of %d objects differ from %s of the server at resource version %s: %s", r.Differ, r.Objects,
		r.Collection, r.ResourceVersion, audit.Text(r.Differences, r.Differ))
}

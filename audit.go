package informer

import (
	"fmt"
	"time"

	"github.com/typedinformer/informer/internal/informer/audit"
)

// AuditResult is the result of an audit; see [Informer.Audit].
type AuditResult struct {
	Resource Resource
	// ResourceVersion is the version at which store and server were compared. With several namespaces, it is the lowest
	// one.
	ResourceVersion string
	// Time is when the audit began, and Took how long it took, with all waiting.
	Time time.Time
	Took time.Duration
	// Objects is the number of objects that the server has, within the shard and Config.Filter. Bytes is the number of
	// bytes of the responses, without compression.
	Objects int
	Bytes   int64
	// Unclear is the number of objects that could not be compared, because a name could not be decoded, or because the
	// server refuses the only selection that has them.
	Unclear int
	// Differ is the number of objects that differ. Differences are the first 100.
	Differ      int
	Differences []AuditDifference
}

// AuditDifference is an object that differs between the store and the server.
type AuditDifference struct {
	Key Key
	// Kind is how it differs.
	//
	//	"missing"      the server has the object, and the store does not
	//	"superfluous"  the store has the object, and the server does not
	//	"recreated"    they have objects of that name with different UIDs
	//	"outdated"     they have different resource versions of the object
	Kind string
}

// AuditError indicates that an audit found a difference.
type AuditError struct{ Result AuditResult }

// Error implements error. It names the first differences.
func (e *AuditError) Error() string {
	r := &e.Result
	var named []audit.Difference
	for _, d := range r.Differences {
		named = append(named, audit.Difference(d))
	}
	return fmt.Sprintf("%d of %d objects differ from %s of the server at resource version %s: %s", r.Differ, r.Objects,
		r.Resource, r.ResourceVersion, audit.Text(named, r.Differ))
}

// AuditStatus is the status of an [Informer]'s audits: calls of [Informer.Audit], and its own.
type AuditStatus struct {
	// Equal, Different and Failed count audits by result: no difference, some difference, and no comparison possible.
	Equal, Different, Failed int
	// Differ is the number of objects that differed, in all audits together.
	Differ int
	// Last is the result of the last audit that did not fail. Its Time is zero if there was none.
	Last AuditResult
	// LastEqual is when the last audit without a difference began. Zero means that there was none.
	LastEqual time.Time
	// LastError is why the last audit that failed could not compare, or the [*AuditError] of the last difference. Nil
	// means that there was neither. A success does not clear it.
	LastError error
	// Next is when the informer audits next by itself. Zero means that no audit is planned.
	Next time.Time
}

// auditResult returns the result for r, an audit of resource.
func auditResult(resource Resource, r audit.Result) AuditResult {
	result := AuditResult{
		Resource:        resource,
		ResourceVersion: r.Version,
		Time:            r.Time,
		Took:            r.Took,
		Objects:         r.Objects,
		Bytes:           r.Bytes,
		Unclear:         r.Unclear,
		Differ:          r.Differ,
	}
	for _, d := range r.Named {
		result.Differences = append(result.Differences, AuditDifference(d))
	}
	return result
}

// auditStatus returns the status for s, the audits of resource.
func auditStatus(resource Resource, s audit.Status) AuditStatus {
	return AuditStatus{
		Equal:     s.Equal,
		Different: s.Different,
		Failed:    s.Failed,
		Differ:    s.Differ,
		Last:      auditResult(resource, s.Last),
		LastEqual: s.LastEqual,
		LastError: s.LastError,
		Next:      s.Next,
	}
}

package status

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Audit is the status of an informer's audits: calls of informer.Informer.Audit, and its own.
type Audit struct {
	// Equal, Different and Failed count audits by result: no difference, some difference, and no comparison possible.
	Equal, Different, Failed int
	// Differ is the number of objects that differed, in all audits together.
	Differ int
	// Last is the result of the last audit that did not fail. Its Time is zero if there was none.
	Last AuditResult
	// LastEqual is when the last audit without a difference began. Zero means that there was none.
	LastEqual time.Time
	// LastError is why the last audit that failed could not compare, or the *informer.AuditError of the last difference.
	// Nil means that there was neither. A success does not clear it.
	LastError error `json:"-"`
	// Next is when the informer audits next by itself. Zero means that no audit is planned.
	Next time.Time
}

// AuditResult is the result of an audit; see informer.Informer.Audit.
type AuditResult struct {
	// Resource is the resource of the audited informer. Collection describes the part of it that the informer was created
	// for, as informer.Resource.String does.
	Resource   schema.GroupVersionResource
	Collection string
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
	Key types.NamespacedName
	// Kind is how it differs.
	Kind DifferenceKind
}

// DifferenceKind is how an object differs between the store and the server.
type DifferenceKind uint8

const (
	// DifferenceMissing: the server has the object, and the store does not.
	DifferenceMissing DifferenceKind = iota
	// DifferenceSuperfluous: the store has the object, and the server does not.
	DifferenceSuperfluous
	// DifferenceRecreated: they have objects of that name with different UIDs.
	DifferenceRecreated
	// DifferenceOutdated: they have different resource versions of the object.
	DifferenceOutdated
)

// String returns "missing", "superfluous", "recreated" or "outdated".
func (k DifferenceKind) String() string {
	return nameOf(k, "DifferenceKind", "missing", "superfluous", "recreated", "outdated")
}

// MarshalText implements encoding.TextMarshaler. It returns the text of String.
func (k DifferenceKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

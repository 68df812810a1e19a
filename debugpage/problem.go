package debugpage

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/leader"
	"github.com/typedinformer/informer/manager"
	"github.com/typedinformer/informer/shard"
	"github.com/typedinformer/informer/status"
)

// How long something may take before it is a problem.
const (
	slowStart   = time.Minute      // an informer syncs, or a watch is opened
	slowCall    = 10 * time.Second // a handler is in one call: a warning
	stuckCall   = 5 * time.Minute  // the same: an error
	slowWork    = time.Minute      // a key is in work: a warning
	stuckWork   = 5 * time.Minute  // the same: an error
	slowWait    = time.Minute      // a change waits for a handler, or a ready key for a worker
	patientIdle = 10 * time.Second // a watch that has ended is opened again
	slowFailing = time.Minute      // a key fails
	newAudit    = time.Hour        // an audit has found a difference: until then a problem, unless a later one finds none
)

// fewFailures is the number of failures, of one key, of keys, or of requests, that may be chance.
const fewFailures = 2

// builder builds a Status.
type builder struct {
	now        time.Time
	authorized bool
	hidden     func(schema.GroupResource) bool // reports whether the differences of audits are; for authorized callers
	problems   []Problem
}

// finding is a problem whose kind and name are not known yet.
type finding struct {
	severity Severity
	message  string
	detail   string // for authorized callers
}

// add adds the problems of one thing, and returns the worst severity.
func (b *builder) add(kind, name string, found []finding) (worst Severity) {
	for _, f := range found {
		if !b.authorized {
			f.detail = ""
		}
		b.problems = append(b.problems, Problem{
			Severity: f.severity,
			Kind:     kind,
			Name:     name,
			Message:  f.message,
			Detail:   shorten(f.detail),
		})
		worst = worse(worst, f.severity)
	}
	return worst
}

// sorted returns the problems, errors first.
func (b *builder) sorted() []Problem {
	slices.SortStableFunc(b.problems, func(x, y Problem) int { return rank(y.Severity) - rank(x.Severity) })
	return append([]Problem{}, b.problems...)
}

func rank(s Severity) int { return slices.Index([]Severity{"", SeverityWarning, SeverityError}, s) }

func worse(a, b Severity) Severity {
	if rank(b) > rank(a) {
		return b
	}
	return a
}

// informerProblems returns the problems of an informer that are not those of a watch or a subscription.
func informerProblems(s informer.InformerStatus, now time.Time) (found []finding) {
	if s.Missing > 0 {
		found = append(found, finding{SeverityError, "the store lacks " + count(s.Missing, "object") +
			" that cannot be decoded", ""})
	}
	modified := 0
	for _, r := range s.Reflectors {
		modified += r.Traffic.Modified
	}
	if modified > 0 {
		found = append(found, finding{SeverityError, "the program has modified " + count(modified, "object") +
			" of the store, which others read", ""})
	}
	if s.Blocked > 0 {
		found = append(found, finding{SeverityWarning, fmt.Sprintf("the store is behind: %s wait, %d blocked",
			count(s.Queued, "change"), s.Blocked), ""})
	}
	if last := s.Audit.Last; last.Differ > 0 && now.Sub(last.Time) < newAudit {
		found = append(found, finding{SeverityWarning, fmt.Sprintf(
			"the store differed from the server in %s, as an audit found %s ago", count(last.Differ, "object"),
			round(now.Sub(last.Time))), ""})
	}
	return found
}

// watchProblems returns the problems of a reflector.
func watchProblems(r status.Reflector, now time.Time) (found []finding) {
	down := time.Duration(0)
	if !r.NoWatchSince.IsZero() {
		down = now.Sub(r.NoWatchSince)
	}
	switch {
	case r.State == status.ReflectorIdle && r.NoWatchSince.IsZero():
		found = append(found, finding{SeverityWarning, "not started", ""})
	case r.State == status.ReflectorIdle:
		found = append(found, finding{SeverityWarning, "stopped " + round(now.Sub(r.Since)) + " ago", ""})
	case r.State == status.ReflectorAbsent:
		found = append(found, finding{SeverityWarning, "the server does not serve this resource" + lastError(r.LastError,
			r.LastErrorTime, now), ""})
	case r.State == status.ReflectorBackoff:
		found = append(found, finding{SeverityError, fmt.Sprintf("no watch for %s, %s in a row%s", round(down),
			count(r.Failures, "failure"), lastError(r.LastError, r.LastErrorTime, now)), ""})
	case r.State == status.ReflectorListing && down > slowStart:
		found = append(found, finding{SeverityWarning, fmt.Sprintf("no watch for %s, %s listed so far%s", round(down),
			count(r.List.Objects, "object"), lastError(r.LastError, r.LastErrorTime, now)), ""})
	case r.State == status.ReflectorWatching && down > patientIdle:
		found = append(found, finding{SeverityWarning, "no watch for " + round(down) + lastError(r.LastError, r.LastErrorTime,
			now), ""})
	}
	if r.List.Forecast.Exceeded {
		found = append(found, finding{SeverityWarning, "the first list may take more memory than the process has: " +
			r.List.String(), ""})
	}
	if r.WarmStart.SaveError != nil {
		found = append(found, finding{SeverityWarning, "the state for a warm start cannot be saved", ""})
	}
	if r.Stale > 0 {
		found = append(found, finding{SeverityWarning, count(r.Stale, "object") + " whose newest version cannot be decoded",
			""})
	}
	return found
}

func subscriptionProblems(s status.Subscription) (found []finding) {
	if s.Busy > slowCall {
		found = append(found, finding{limited(s.Busy, stuckCall),
			fmt.Sprintf("one call for %s, backlog %s", round(s.Busy), number(s.Backlog)), ""})
	}
	if s.Oldest > slowWait && s.Busy <= slowCall {
		found = append(found, finding{SeverityWarning, fmt.Sprintf("a change has waited for %s, backlog %s", round(s.Oldest),
			number(s.Backlog)), ""})
	}
	if s.Blocking {
		found = append(found, finding{SeverityWarning, "the informer waits for this handler", ""})
	}
	if s.Durable != nil && s.Durable.SaveError != nil {
		found = append(found, finding{SeverityWarning, "its durable state cannot be saved, and new objects wait", ""})
	}
	return found
}

// queueProblems returns the problems of a queue. worked says that a controller is working on it: the queue of a replica
// that is not the leader only grows.
func queueProblems(s status.Queue, worked bool) (found []finding) {
	if s.LongestRunning > slowWork {
		found = append(found, finding{limited(s.LongestRunning, stuckWork), "a key in work for " + round(s.LongestRunning),
			s.LongestRunningKey})
	}
	if worked && s.LongestReady > slowWait {
		found = append(found, finding{SeverityWarning, fmt.Sprintf("a key has been ready for %s, %s in work",
			round(s.LongestReady), number(s.InWork)), ""})
	}
	return found
}

// replicaProblems returns the problems of a replica. While slots move, it owns fewer than it should have.
func replicaProblems(s shard.Status, now time.Time) (found []finding) {
	unrenewed := ""
	if !s.Renewed.IsZero() {
		unrenewed = "; the lease was renewed " + round(now.Sub(s.Renewed)) + " ago"
	}
	switch {
	case s.State == shard.Joining:
		found = append(found, finding{SeverityWarning, "not yet a member of the group" + lastError(s.LastError,
			s.LastErrorTime, now), ""})
	case s.State == shard.Member && s.Owned == 0 && s.Planned > 0:
		found = append(found, finding{SeverityError, fmt.Sprintf("owns none of its %s%s%s", count(s.Planned, "slot"),
			unrenewed, lastError(s.LastError, s.LastErrorTime, now)), ""})
	case s.State == shard.Member && s.Owned < s.Planned:
		found = append(found, finding{SeverityWarning, fmt.Sprintf("owns %d of its %s%s", s.Owned, count(s.Planned, "slot"),
			lastError(s.LastError, s.LastErrorTime, now)), ""})
	}
	if s.Yielded > 0 {
		found = append(found, finding{SeverityError,
			fmt.Sprintf("leaves %s to other replicas, because it cannot list their objects", count(s.Yielded, "slot")), ""})
	}
	if len(s.Overdue) > 0 {
		found = append(found, finding{SeverityError,
			fmt.Sprintf("%s of Reconcile under way, although the slots move or the lease was lost: the first for %s",
				count(len(s.Overdue), "call"), round(now.Sub(s.Overdue[0].Since))), ""})
	}
	return found
}

// controllerProblems returns the problems of a controller. A key that failed once or twice may succeed soon: conflicts
// are common.
func controllerProblems(s status.Controller, now time.Time) (found []finding) {
	if len(s.FailingKeys) == 0 {
		return nil
	}
	longest := s.FailingKeys[0]
	last, detail := lastError(s.LastError, s.LastErrorTime, now), ""
	if s.LastError != nil {
		detail = s.LastErrorKey + ": " + s.LastError.Error()
	}
	often := s.Failing > fewFailures || longest.Failures > fewFailures
	switch {
	case often && s.LastSuccess.Before(longest.Since):
		found = append(found, finding{SeverityError, fmt.Sprintf("no reconcile has succeeded for %s, %s failing%s",
			round(now.Sub(longest.Since)), count(s.Failing, "key"), last), detail})
	case often && now.Sub(longest.Since) > slowFailing:
		found = append(found, finding{SeverityWarning, fmt.Sprintf("%s failing, one for %s%s", count(s.Failing, "key"),
			round(now.Sub(longest.Since)), last), detail})
	}
	return found
}

// clientProblems returns the problems of a client: most of its latest requests failed.
func clientProblems(s status.Client, now time.Time) (found []finding) {
	if s.RecentFailures <= fewFailures || s.RecentFailures*2 < s.RecentRequests {
		return nil
	}
	severity, detail := SeverityWarning, ""
	if s.LastSuccess.Before(s.LastErrorTime) {
		severity = SeverityError
	}
	if s.LastError != nil {
		detail = s.LastError.Error()
	}
	return append(found, finding{severity, fmt.Sprintf("%s of %s failed in the last 5 min%s",
		number(int(s.RecentFailures)), count(int(s.RecentRequests), "request"), lastError(s.LastError, s.LastErrorTime,
			now)), detail})
}

func managerProblems(s manager.Status, now time.Time) (found []finding) {
	var failed, busy []string
	for _, t := range s.Tasks {
		if t.Err != nil {
			failed = append(failed, t.Name)
		}
		if t.State == manager.TaskStopping {
			busy = append(busy, t.Name)
		}
	}
	if s.Err != nil {
		found = append(found, finding{SeverityError, strings.TrimSuffix("a failure: "+class(s.Err)+"; "+names(failed), "; "),
			s.Err.Error()})
	}
	switch {
	case s.State == manager.Starting && now.Sub(s.Since) > slowStart:
		found = append(found, finding{SeverityWarning, "starting for " + round(now.Sub(s.Since)), ""})
	case s.State == manager.Stopping && !s.StopBy.IsZero():
		found = append(found, finding{SeverityWarning,
			strings.TrimSuffix(fmt.Sprintf("stopping, %s until the deadline; %s", round(s.StopBy.Sub(now)), names(busy)),
				"; "), ""})
	case s.State == manager.Stopping:
		found = append(found, finding{SeverityWarning,
			strings.TrimSuffix("stopping for "+round(now.Sub(s.Since))+"; "+names(busy), "; "), ""})
	}
	return found
}

// names returns the first names of a list as text.
func names(list []string) string {
	const most = 5
	if len(list) > most {
		return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
	}
	return strings.Join(list, ", ")
}

func electorProblems(s leader.Status, now time.Time) (found []finding) {
	detail := ""
	if s.LastError != nil {
		detail = s.LastError.Error()
	}
	failing := s.LastError != nil && s.LastErrorTime.After(s.Renewed) && now.Sub(s.LastErrorTime) < slowStart
	switch {
	case s.State == leader.Stopping && !s.StopBy.IsZero():
		found = append(found, finding{SeverityError, fmt.Sprintf("the lease is lost, %s until the work must have returned%s",
			round(s.StopBy.Sub(now)), lastError(s.LastError, s.LastErrorTime, now)), detail})
	case s.State == leader.Paused:
		found = append(found, finding{SeverityWarning, fmt.Sprintf("paused %s ago, because the lease was not renewed in time%s",
			round(now.Sub(s.Since)), lastError(s.LastError, s.LastErrorTime, now)), detail})
	case s.State == leader.Leading && now.Sub(s.Renewed) > s.RenewDeadline/2:
		found = append(found, finding{SeverityWarning, fmt.Sprintf("the lease was renewed %s ago, and is lost after %s%s",
			round(now.Sub(s.Renewed)), round(s.RenewDeadline), lastError(s.LastError, s.LastErrorTime, now)), detail})
	case s.State == leader.Candidate && failing:
		found = append(found, finding{SeverityWarning, "does not lead, and requests for the lease fail" +
			lastError(s.LastError, s.LastErrorTime, now), detail})
	case s.State == leader.Candidate && s.Holder == "" && now.Sub(s.Since) > slowStart:
		found = append(found, finding{SeverityWarning, "nobody has held the lease for " + round(now.Sub(s.Since)), ""})
	}
	return found
}

// limited returns the severity of a duration that is too long: an error above limit, and a warning below.
func limited(took, limit time.Duration) Severity {
	if took > limit {
		return SeverityError
	}
	return SeverityWarning
}

// lastError says what kind of error came last.
func lastError(err error, moment, now time.Time) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf("; last error %s ago: %s", round(now.Sub(moment)), class(err))
}

// class says what kind of error err is. Its text is not for everybody: it may come from the server, a proxy or a login
// plugin.
func class(err error) string {
	var answer apierrors.APIStatus
	var decoding *informer.DecodeError
	var audited *informer.AuditError
	var lookup *net.DNSError
	var certificate *tls.CertificateVerificationError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &decoding):
		return "an object cannot be decoded"
	case errors.As(err, &audited):
		return "the store differed from the server"
	case errors.As(err, &answer):
		return strings.TrimSpace(fmt.Sprintf("%d %s", answer.Status().Code, http.StatusText(int(answer.Status().Code))))
	case errors.As(err, &lookup):
		return "host name not found"
	case errors.As(err, &certificate):
		return "certificate not trusted"
	case utilnet.IsConnectionRefused(err):
		return "connection refused"
	case errors.Is(err, informer.ErrNoProgress), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case utilnet.IsConnectionReset(err), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection lost"
	case errors.Is(err, informer.ErrMaxMemory):
		return "more than Config.MaxMemory"
	case errors.Is(err, informer.ErrTooLarge):
		return "response too large"
	}
	return "see the log"
}

// round returns d for people, as the page shows durations: "2 min 5 s".
func round(d time.Duration) string {
	s := int(max(d, 0).Round(time.Second).Seconds())
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	case s < 48*3600:
		return fmt.Sprintf("%d h %d min", s/3600, s%3600/60)
	}
	return fmt.Sprintf("%d d %d h", s/86400, s%86400/3600)
}

// count returns a number and the noun that it counts.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return number(n) + " " + noun + "s"
}

// number returns n with thousands separators.
func number(n int) string {
	text := fmt.Sprint(n)
	for end := len(text) - 3; end > 0; end -= 3 {
		text = text[:end] + "," + text[end:]
	}
	return text
}

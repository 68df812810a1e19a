package leader

import (
	"testing"
	"time"

	"github.com/typedinformer/informer/internal/lease"
)

// The loss of the lease ends Leading in the same step, also if RenewDeadline has not passed: no Status shows a leader
// without a lease.
//
// Guarantees: E5
func TestLossEndsLeadingAtOnce(t *testing.T) {
	onStage(t, func(s *stage) {
		e := s.elector("a")
		e.term = lease.NewTerm(e.config.timing(), e.wall)
		if !e.renew(e.stamp()) {
			t.Fatal("the lease is not held")
		}
		tenure := &tenure{e, s.Context(), func(error) {}}
		tenure.begin()
		<-time.After(3 * time.Second)
		if st := e.Status(); st.State != Leading || !st.StopBy.IsZero() {
			t.Errorf("before the loss, the status is %+v", st)
		}
		e.mu.Lock()
		tenure.loseLocked()
		e.mu.Unlock()
		if st := e.Status(); st.State != Stopping || !st.Since.Equal(time.Now()) || !st.StopBy.Equal(time.Now().Add(st.Grace)) {
			t.Errorf("after the loss, the status is %+v", st)
		}
	})
}

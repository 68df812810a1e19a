package shard

import (
	"testing"
	"time"
)

// Guarantees: S3
func TestReplicasShareTheObjects(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 100)
		a := s.join("a")
		<-time.After(20 * time.Second)
		s.wantSettled(a)
		b, c := s.join("b"), s.join("c")
		<-time.After(20 * time.Second)
		s.wantSettled(a, b, c)
		s.create("ns", 100, 200)
		<-time.After(20 * time.Second)
		s.wantSettled(a, b, c)
		b.leave()
		<-time.After(5 * time.Second)
		s.wantSettled(a, c)
		c.kill()
		<-time.After(25 * time.Second)
		s.wantSettled(a)
		t.Log(s.calls, a.Status())
	})
}

package debugpage_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/debugpage"
	"github.com/typedinformer/informer/status"
)

// membersOf returns members that are synced, and then some of each kind of problem.
func membersOf(synced, broken int) (members []informer.MemberStatus) {
	add := func(name string, m informer.MemberStatus) {
		m.Name = name
		m.Informer.Resource = informer.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}
		members = append(members, m)
	}
	for i := range synced {
		add(fmt.Sprint("fine-", i), informer.MemberStatus{State: status.MemberSynced, Informer: informer.InformerStatus{
			Synced: true, Objects: 2, Memory: 300, Reflectors: []status.Reflector{{State: status.ReflectorWatching, WatchOpen: true}},
		}})
	}
	failed := errors.New(secret)
	for i := range broken {
		add(fmt.Sprint("slow-", i), informer.MemberStatus{State: status.MemberUnsynced, Informer: informer.InformerStatus{
			Reflectors: []status.Reflector{{State: status.ReflectorListing, LastError: failed, LastErrorTime: time.Now()}},
		}})
		add(fmt.Sprint("ended-", i), informer.MemberStatus{State: status.MemberEnded, Err: failed})
		add(fmt.Sprint("wrong-", i), informer.MemberStatus{Err: failed})
	}
	add("waiting", informer.MemberStatus{Informer: informer.InformerStatus{Reflectors: []status.Reflector{{}}}}) // for its turn
	return members
}

// The page shows the sums of a set, and the members with problems before others.
func TestSets(t *testing.T) {
	inRig(t, func(r *rig) {
		r.config.Informers = nil
		r.config.Sets = map[string]func() []informer.MemberStatus{
			"clusters": func() []informer.MemberStatus { return membersOf(3, 1) },
			"empty":    func() []informer.MemberStatus { return nil },
		}
		lacks(r.T, r.get("/status.json"))
		s := ask[debugpage.Status](r, "status.json")
		if len(s.Sets) != 2 || s.Sets[1].Name != "empty" || s.Sets[1].Members != 0 || s.Sets[1].Severity != "" {
			r.Fatalf("sets: %+v", s.Sets)
		}
		set := s.Sets[0]
		if set.Name != "clusters" || set.Members != 7 || set.Bad != 3 || set.Objects != 6 || set.MemoryBytes != 900 || set.Severity != debugpage.SeverityError {
			r.Errorf("set: %+v", set)
		}
		if got := fmt.Sprint(set.States); got != "map[Ended:1 Synced:3 Unsynced:1 Waiting:2]" {
			r.Errorf("states: %s", got)
		}
		var names []string
		for _, i := range s.Informers {
			if i.Set != "clusters" || i.Name != "v1 pods" {
				r.Errorf("informer: %+v", i)
			}
			names = append(names, i.Member+" "+string(i.Severity))
		}
		if got := strings.Join(names, ", "); got != "ended-0 error, wrong-0 error, slow-0 warning, fine-0 , fine-1 , fine-2 , waiting " {
			r.Errorf("members: %s", got)
		}
		problems := ""
		for _, p := range s.Problems {
			problems += fmt.Sprintf("%s %s %s: %s (%s)\n", p.Severity, p.Kind, p.Name, p.Message, p.Detail)
		}
		if want := `error set clusters: 3 of 7 members with problems ()
error informer clusters: ended-0: it has ended: see the log (hunter2)
error informer clusters: wrong-0: it cannot start: see the log (hunter2)
warning informer clusters: slow-0: it is not synced, and others start without it; last error 0 s ago: see the log ()
`; problems != want {
			r.Errorf("problems:\n%s", problems)
		}
	})
}

// The page does not grow with a set.
func TestSetIsBounded(t *testing.T) {
	inRig(t, func(r *rig) {
		r.config.Informers = nil
		r.config.Sets = map[string]func() []informer.MemberStatus{"all": func() []informer.MemberStatus { return membersOf(1000, 50) }}
		s := ask[debugpage.Status](r, "status.json")
		if len(s.Informers) != 100 || len(s.Problems) > 12 || s.Sets[0].Bad != 150 || s.Sets[0].Members != 1151 {
			r.Errorf("%d informers, %d problems, %+v", len(s.Informers), len(s.Problems), s.Sets[0])
		}
		for _, i := range s.Informers {
			if i.Severity != debugpage.SeverityError {
				r.Errorf("%s is shown before the %d members with errors", i.Member, 100)
			}
		}
	})
}

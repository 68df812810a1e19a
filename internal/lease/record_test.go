package lease

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/object"
)

// server is an API server with one Lease. It is a Client.
type server struct {
	lease    *coordinationv1.Lease // nil if it does not exist
	version  int
	requests []string
	lost     bool                     // the response to the next write gets lost
	failure  error                    // of each request; nil for none
	before   func(request string)     // called before each request; nil for none
	deadline map[string]time.Duration // of the last request of each verb
}

var (
	leases  = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	key     = object.Key{Namespace: "ns", Name: "lease"}
	errLost = errors.New("no response")
)

func (s *server) begin(ctx context.Context, verb string) error {
	s.requests = append(s.requests, verb)
	if end, ok := ctx.Deadline(); ok {
		s.deadline[verb] = time.Until(end)
	}
	if s.before != nil {
		s.before(verb)
	}
	return s.failure
}

func (s *server) Get(ctx context.Context, k object.Key, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	if err := s.begin(ctx, "get"); err != nil {
		return nil, err
	}
	if s.lease == nil {
		return nil, apierrors.NewNotFound(leases, k.Name)
	}
	return s.lease.DeepCopy(), nil
}

func (s *server) Create(ctx context.Context, l *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	if err := s.begin(ctx, "create"); err != nil {
		return nil, err
	}
	if s.lease != nil {
		return nil, apierrors.NewAlreadyExists(leases, l.Name)
	}
	return s.put(l)
}

func (s *server) Update(ctx context.Context, l *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if err := s.begin(ctx, "update"); err != nil {
		return nil, err
	}
	switch {
	case s.lease == nil:
		return nil, apierrors.NewNotFound(leases, l.Name)
	case l.ResourceVersion != s.lease.ResourceVersion || l.UID != s.lease.UID:
		return nil, apierrors.NewConflict(leases, l.Name, errors.New("another version"))
	}
	return s.put(l)
}

// put stores a Lease, with the next version.
func (s *server) put(l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	s.version++
	s.lease = l.DeepCopy()
	if s.lease.ResourceVersion = strconv.Itoa(s.version); s.lease.UID == "" {
		s.lease.UID = types.UID("uid-" + s.lease.ResourceVersion)
	}
	if s.lost {
		s.lost = false
		return nil, errLost
	}
	return s.lease.DeepCopy(), nil
}

// of returns a Lease with a holder.
func of(holder string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder},
	}
}

// renew renews the Lease of holder a.
func (r *Record) renew(t *testing.T) error {
	return r.Renew(t.Context(), func(l *coordinationv1.Lease) bool { return Holder(l) == "a" },
		func(*coordinationv1.Lease) *coordinationv1.Lease { return of("a") })
}

// held returns a server, and the record of its Lease, which is that of a.
func held(t *testing.T) (*server, *Record) {
	s := &server{deadline: map[string]time.Duration{}}
	r := NewRecord(s, key, time.Second)
	if err := r.Write(t.Context(), of("a")); err != nil || Holder(r.Seen()) != "a" {
		t.Fatalf("%v, %+v", err, r.Seen())
	}
	s.requests = nil
	return s, r
}

// A renewal is one request. After a conflict it reads the Lease, and writes again if it is still its own.
//
// Guarantees: E5
func TestRenewal(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(s *server)
		want    error
		holder  string
		sends   []string
	}{
		"as always":            {func(*server) {}, nil, "a", []string{"update"}},
		"a response gets lost": {func(s *server) { s.lost = true }, errLost, "a", []string{"update"}},
		"the one before got none": {func(s *server) { s.version++; s.lease.ResourceVersion = "99" }, nil, "a",
			[]string{"update", "get", "update"}},
		"another holds it": {func(s *server) { s.lease = of("b"); s.lease.UID = "b" }, ErrTaken, "b", []string{"update", "get"}},
		"it was deleted":   {func(s *server) { s.lease = nil }, ErrTaken, "", []string{"update"}},
		"it is deleted between the requests": {func(s *server) {
			s.lease.ResourceVersion = "99"
			s.before = func(request string) {
				if request == "get" {
					s.lease = nil
				}
			}
		}, ErrTaken, "", []string{"update", "get"}},
		"it changes again and again": {func(s *server) {
			s.before = func(request string) {
				if s.version++; request == "update" {
					s.lease.ResourceVersion = strconv.Itoa(s.version)
				}
			}
		}, errConflicts, "a", []string{"update", "get", "update"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := held(t)
			c.happens(s)
			if err := r.renew(t); !errors.Is(err, c.want) || Holder(s.lease) != c.holder || !slices.Equal(s.requests, c.sends) {
				t.Errorf("%v, the holder is %q, requests %q", err, Holder(s.lease), s.requests)
			}
			for verb, left := range s.deadline {
				if left <= 0 || left > time.Second {
					t.Errorf("%s has a timeout of %v", verb, left)
				}
			}
		})
	}
}

// A renewal whose response got lost does not cost the Lease, nor does a read that fails.
//
// Guarantees: E5
func TestLostResponse(t *testing.T) {
	s, r := held(t)
	s.lost = true
	if err := r.renew(t); err != errLost {
		t.Fatal(err)
	}
	page := apierrors.NewGenericServerResponse(http.StatusNotFound, "", leases, "", "page not found", 0, true)
	s.before = func(request string) {
		if s.failure = nil; request == "get" {
			s.failure = page
		}
	}
	if err := r.renew(t); err != page || r.Seen() == nil {
		t.Fatalf("a 404 of a proxy is %v", err)
	}
	s.before, s.failure = nil, nil
	if err := r.renew(t); err != nil {
		t.Fatal(err)
	}
	if want := []string{"update", "update", "get", "get", "update"}; !slices.Equal(s.requests, want) {
		t.Errorf("requests %q, want %q", s.requests, want)
	}
}

// A write never overwrites what was not seen. Unchanged counts from when the present spec was first seen.
//
// Guarantees: E1
func TestUnseenIsNotOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := held(t)
		other := NewRecord(s, key, time.Second)
		if err := other.Write(t.Context(), of("b")); !apierrors.IsAlreadyExists(err) {
			t.Errorf("creating an existing Lease: %v", err)
		}
		if err := other.Read(t.Context()); err != nil || Holder(other.Seen()) != "a" {
			t.Errorf("%v, %+v", err, other.Seen())
		}
		<-time.After(time.Minute)
		s.lease.Labels = map[string]string{"note": "hello"}
		if err := other.Read(t.Context()); err != nil || other.Unchanged() != time.Minute {
			t.Errorf("%v, unchanged for %v", err, other.Unchanged())
		}
		if err := r.renew(t); err != nil {
			t.Error(err)
		}
		if err := other.Write(t.Context(), of("b")); !apierrors.IsConflict(err) || Holder(s.lease) != "a" {
			t.Errorf("overwriting: %v, the holder is %q", err, Holder(s.lease))
		}
		s.lease.Spec.LeaseTransitions = new(int32(1))
		if err := other.Read(t.Context()); err != nil || other.Unchanged() != 0 {
			t.Errorf("%v, unchanged for %v", err, other.Unchanged())
		}
		r.Forget()
		if err := r.renew(t); err != ErrTaken {
			t.Errorf("a Lease that was forgotten is renewed: %v", err)
		}
	})
}

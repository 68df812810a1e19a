package ondemand

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newList returns a rig with n objects, all at u@1, and their keys. The reader holds some of them.
func newList(t *testing.T, n int, held ...int) (*rig, []Key) {
	r := newRig(t, func(c *Config[*thing]) { c.MaxBytes = 1 << 20 })
	clear(r.metadata)
	r.answer = func(_ context.Context, _ int, key Key, _ string) (Object[*thing], error) {
		return object(key.Name, "1", 0), nil
	}
	var keys []Key
	for i := range n {
		key := Key{Namespace: "ns", Name: fmt.Sprintf("%03d", i)}
		r.see(key, key.Name, "1")
		keys = append(keys, key)
	}
	for _, i := range held {
		if _, err := r.Get(t.Context(), keys[i]); err != nil {
			t.Fatal(err)
		}
	}
	r.asked = nil
	return r, keys
}

// all takes each object at version 1, as a server with two pages.
func (r *rig) all(keys []Key) ListFunc[*thing] {
	return func(_ context.Context, take func(Key, Object[*thing])) (int, error) {
		for _, key := range keys {
			take(key, object(key.Name, "1", 0))
		}
		take(Key{Name: "of another"}, object("x", "9", 0))
		return 2, nil
	}
}

func (r *rig) wantList(keys []Key, list ListFunc[*thing], want Cost) []*thing {
	r.Helper()
	objects, cost, err := r.List(r.Context(), keys, list)
	if err != nil || cost != want {
		r.Errorf("%d objects for %+v, %v, want %+v", len(objects), cost, err, want)
	}
	return objects
}

// A list fetches a few missing objects one by one, and many by pages. Its cost says so, before and after. What it
// fetched is held, so the next one costs nothing.
// Guarantees: T7
func TestListCosts(t *testing.T) {
	for _, c := range []struct {
		objects int
		held    []int
		want    Cost
	}{
		{0, nil, Cost{}},
		{10, []int{0, 1, 2, 9}, Cost{10, 4, 6}},
		{9, nil, Cost{9, 0, 2}},
		{600, []int{7}, Cost{600, 1, 2}},
	} {
		r, keys := newList(t, c.objects, c.held...)
		before := r.CostOf(keys, max(c.objects, 501))
		if before != c.want {
			t.Errorf("%d objects cost %+v beforehand, want %+v", c.objects, before, c.want)
		}
		for range 2 {
			objects := r.wantList(keys, r.all(keys), c.want)
			for n, obj := range objects {
				if obj.Text != keys[n].Name+"@1" {
					t.Errorf("object %d is %s", n, obj.Text)
				}
			}
			if len(objects) != c.objects {
				t.Errorf("%d objects, want %d", len(objects), c.objects)
			}
			c.want.Held, c.want.Requests = c.objects, 0
		}
		r.Close()
	}
}

// List fetches objects one by one if the pages lack them or have an old version. It leaves out deleted objects.
// Guarantees: T1, T7
func TestListIsNotOlderThanTheMetadata(t *testing.T) {
	r, keys := newList(t, 20)
	defer r.Close()
	r.see(keys[3], keys[3].Name, "2")
	r.answer = func(_ context.Context, _ int, key Key, version string) (Object[*thing], error) {
		if key == keys[5] {
			return Object[*thing]{}, apierrors.NewNotFound(secrets, key.Name)
		}
		return object(key.Name, version, 0), nil
	}
	list := func(ctx context.Context, take func(Key, Object[*thing])) (int, error) {
		_, err := r.all(slices.Delete(slices.Clone(keys), 5, 7))(ctx, take) // lacks 5 and 6
		r.see(keys[8], "", "")
		return 1, err
	}
	objects := r.wantList(keys, list, Cost{Objects: 20, Requests: 1 + 3})
	if len(objects) != 19 || objects[3].Text != "003@2" || objects[5].Text != "006@1" {
		t.Errorf("%d objects: %v", len(objects), objects)
	}
	if _, held := r.Peek(keys[8]); held {
		t.Error("an object that was deleted during the list is held")
	}
}

// A list holds its objects only if there is room. It drops none for them.
// Guarantees: T5
func TestListDropsNothing(t *testing.T) {
	r, keys := newList(t, 100, 40, 50)
	defer r.Close()
	r.held.limit = 5 * 24
	r.wantList(keys, r.all(keys), Cost{100, 2, 2})
	for _, n := range []int{40, 50, 0} {
		if _, held := r.Peek(keys[n]); !held {
			t.Errorf("object %d is not held", n)
		}
	}
	if s := r.Status(); s.Evicted != 0 || s.Bytes > r.held.limit {
		t.Errorf("status %+v", s)
	}
}

// An error of a request ends the list, and so does the end of the context.
func TestListFails(t *testing.T) {
	r, keys := newList(t, 20)
	defer r.Close()
	down := errors.New("down")
	if all, _, err := r.List(t.Context(), keys, func(context.Context, func(Key, Object[*thing])) (int, error) { return 1, down }); all != nil || !errors.Is(err, down) {
		t.Errorf("%v, %v", all, err)
	}
	var asked atomic.Int32
	r.answer = func(context.Context, int, Key, string) (Object[*thing], error) {
		asked.Add(1)
		return Object[*thing]{}, apierrors.NewForbidden(secrets, "", down)
	}
	if all, _, err := r.List(t.Context(), keys[:8], nil); all != nil || !apierrors.IsForbidden(err) || asked.Load() > 2*maxParallel {
		t.Errorf("%v, %v after %d requests", all, err, asked.Load())
	}
	why := errors.New("too late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if all, _, err := r.List(ctx, keys[:8], nil); all != nil || !errors.Is(err, why) {
		t.Errorf("%v, %v", all, err)
	}
}

// Pages follow the continue token in each namespace, and begin anew without a limit when it expires. A server that
// sends the same token again is an error.
func TestPages(t *testing.T) {
	expired := apierrors.NewResourceExpired("continue")
	for _, c := range []struct {
		name string
		more []any // the continue token or the error of each page of the first namespace
		want []string
		fail error
	}{
		{name: "one page", more: []any{""}, want: []string{"a//500", "b//500"}},
		{name: "three pages", more: []any{"x", "y", ""}, want: []string{"a//500", "a/x/500", "a/y/500", "b//500"}},
		{name: "expired", more: []any{"x", expired, ""}, want: []string{"a//500", "a/x/500", "a//0", "b//500"}},
		{name: "expired at first", more: []any{expired}, want: []string{"a//500"}, fail: expired},
		{name: "the same page", more: []any{"x", "x"}, want: []string{"a//500", "a/x/500"}, fail: errSamePage},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			taken := 0
			list := func(_ context.Context, namespace string, o metav1.ListOptions) ([]string, metav1.ListMeta, error) {
				got = append(got, fmt.Sprintf("%s/%s/%d", namespace, o.Continue, o.Limit))
				if o.LabelSelector != "l" {
					t.Errorf("options %+v", o)
				}
				if namespace == "b" {
					return []string{"item"}, metav1.ListMeta{}, nil
				}
				switch next := c.more[len(got)-1].(type) {
				case error:
					return nil, metav1.ListMeta{}, next
				case string:
					return []string{"item"}, metav1.ListMeta{Continue: next}, nil
				}
				return nil, metav1.ListMeta{}, nil
			}
			requests, err := Pages(t.Context(), list, []string{"a", "b"}, metav1.ListOptions{LabelSelector: "l"}, func(string) { taken++ })
			if !errors.Is(err, c.fail) || requests != len(got) || !slices.Equal(got, c.want) {
				t.Errorf("%d requests %v, %v, want %v, %v", requests, got, err, c.want, c.fail)
			}
			if c.fail == nil && taken < 2 {
				t.Errorf("%d items", taken)
			}
		})
	}
}

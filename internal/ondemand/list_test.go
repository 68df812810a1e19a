package ondemand

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/object"
)

// newList returns a rig with n objects, all at u@1, and their keys. The reader holds some of them.
func newList(t *testing.T, n int, held ...int) (*rig, []object.Key) {
	r := newRig(t, func(c *Config[*thing]) { c.MaxBytes = 1 << 20 })
	clear(r.metadata)
	r.answer = func(_ context.Context, _ int, key object.Key, _ string) (Object[*thing], error) {
		return newObject(key.Name, "1", 0), nil
	}
	var keys []object.Key
	for i := range n {
		key := object.Key{Namespace: "ns", Name: fmt.Sprintf("%03d", i)}
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
func (r *rig) all(keys []object.Key) ListFunc[*thing] {
	return func(_ context.Context, take TakeFunc[*thing]) (int, error) {
		for _, key := range keys {
			take(key, newObject(key.Name, "1", 0), nil)
		}
		take(object.Key{Name: "of another"}, newObject("x", "9", 0), nil)
		return 2, nil
	}
}

func (r *rig) wantList(keys []object.Key, list ListFunc[*thing], want Cost) []*thing {
	r.Helper()
	objects, cost, missing, err := r.List(r.Context(), keys, list)
	if err != nil || missing != nil || cost != want {
		r.Errorf("%d objects for %+v, %v, %v, want %+v", len(objects), cost, missing, err, want)
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
	r.answer = func(_ context.Context, _ int, key object.Key, version string) (Object[*thing], error) {
		if key == keys[5] {
			return Object[*thing]{}, apierrors.NewNotFound(secrets, key.Name)
		}
		return newObject(key.Name, version, 0), nil
	}
	list := func(ctx context.Context, take TakeFunc[*thing]) (int, error) {
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
	if all, _, _, err := r.List(t.Context(), keys, func(context.Context, TakeFunc[*thing]) (int, error) { return 1, down }); all != nil || !errors.Is(err, down) {
		t.Errorf("%v, %v", all, err)
	}
	var asked atomic.Int32
	r.answer = func(context.Context, int, object.Key, string) (Object[*thing], error) {
		asked.Add(1)
		return Object[*thing]{}, apierrors.NewForbidden(secrets, "", down)
	}
	if all, _, _, err := r.List(t.Context(), keys[:8], nil); all != nil || !apierrors.IsForbidden(err) || asked.Load() > 2*maxParallel {
		t.Errorf("%v, %v after %d requests", all, err, asked.Load())
	}
	why := errors.New("too late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if all, _, _, err := r.List(ctx, keys[:8], nil); all != nil || !errors.Is(err, why) {
		t.Errorf("%v, %v", all, err)
	}
}

// A list has the objects that can be decoded, and an error for the wanted ones that cannot. What the pages have of other
// objects does not matter.
// Guarantees: T7
func TestListWithoutWhatCannotBeDecoded(t *testing.T) {
	bad := errors.New("bad")
	for name, c := range map[string]struct {
		objects    int
		pages      map[int]error // of objects, by their numbers
		single     map[int]error // of requests for one
		want, lack int
		says       string
	}{
		"one of a few":     {8, nil, map[int]error{2: bad}, 7, 1, "bad"},
		"some of a few":    {8, nil, map[int]error{2: fmt.Errorf("second: %w", bad), 5: bad, 7: bad}, 5, 3, "3 objects are missing, the first one because of: second: bad"},
		"of many":          {20, map[int]error{3: bad, 4: bad}, nil, 18, 2, "2 objects are missing, the first one because of: bad"},
		"of many, changed": {20, map[int]error{3: bad}, map[int]error{19: bad}, 18, 2, "2 objects are missing"},
		"all":              {9, map[int]error{0: bad, 1: bad, 2: bad, 3: bad, 4: bad, 5: bad, 6: bad, 7: bad, 8: bad}, nil, 0, 9, "9 objects are missing"},
	} {
		t.Run(name, func(t *testing.T) {
			r, keys := newList(t, c.objects)
			defer r.Close()
			r.config.Undecodable = func(err error) bool { return errors.Is(err, bad) }
			r.answer = func(_ context.Context, _ int, key object.Key, _ string) (Object[*thing], error) {
				return newObject(key.Name, "1", 0), c.single[slices.Index(keys, key)]
			}
			list := func(_ context.Context, take TakeFunc[*thing]) (int, error) {
				take(object.Key{Name: "of another"}, Object[*thing]{}, bad)
				for n, key := range keys {
					if c.single[n] == nil {
						take(key, newObject(key.Name, "1", 0), c.pages[n])
					}
				}
				return 1, nil
			}
			all, cost, missing, err := r.List(t.Context(), keys, list)
			if err != nil || len(all) != c.want || cost.Objects-len(all) != c.lack || !errors.Is(missing, bad) || !strings.HasPrefix(missing.Error(), c.says) {
				t.Errorf("%d objects, %+v, missing %v, error %v", len(all), cost, missing, err)
			}
		})
	}
	r, keys := newList(t, 20)
	defer r.Close()
	list := func(ctx context.Context, take TakeFunc[*thing]) (int, error) {
		take(keys[7], Object[*thing]{}, bad)
		r.see(keys[8], "", "")
		take(keys[8], Object[*thing]{}, bad) // deleted meanwhile
		return r.all(keys)(ctx, take)
	}
	if all, _, missing, err := r.List(t.Context(), keys, list); len(all) != 18 || missing != bad || err != nil {
		t.Errorf("%d objects, missing %v, error %v", len(all), missing, err)
	}
}

// A list ends as soon as it has all objects, or can have no more of them but those that were deleted.
// Guarantees: T7
func TestListStopsWhenItHasAll(t *testing.T) {
	for name, c := range map[string]struct {
		first, last int   // wanted
		lacks       []int // of the pages
		taken, gets int
	}{
		"the first ones":     {0, 10, nil, 10, 0},
		"some later":         {40, 60, nil, 60, 0},
		"one was deleted":    {0, 20, []int{7}, 19, 1},
		"the last is absent": {0, 20, []int{19}, 20, 1}, // the next one shows it
		"nine were deleted":  {0, 20, []int{1, 2, 3, 4, 5, 6, 7, 8, 9}, 100 - 9, 9},
	} {
		t.Run(name, func(t *testing.T) {
			r, keys := newList(t, 100)
			defer r.Close()
			taken := 0
			list := func(_ context.Context, take TakeFunc[*thing]) (int, error) {
				for n, key := range keys {
					if slices.Contains(c.lacks, n) {
						continue
					}
					taken++
					if !take(key, newObject(key.Name, "1", 0), nil) {
						break
					}
				}
				return 1, nil
			}
			all := r.wantList(keys[c.first:c.last], list, Cost{Objects: c.last - c.first, Requests: 1 + c.gets})
			if len(all) != c.last-c.first || taken != c.taken || len(r.asked) != c.gets {
				t.Errorf("%d objects, %d taken, %d requests", len(all), taken, len(r.asked))
			}
		})
	}
}

// Pages end when take returns false.
func TestPagesEndEarly(t *testing.T) {
	requests := 0
	list := func(context.Context, string, metav1.ListOptions) ([]int, metav1.ListMeta, error) {
		requests++
		return []int{1, 2, 3}, metav1.ListMeta{Continue: fmt.Sprint(requests)}, nil
	}
	taken := 0
	n, err := Pages(t.Context(), list, []string{"a", "b"}, metav1.ListOptions{}, func(int) bool { taken++; return taken < 5 })
	if n != 2 || requests != 2 || taken != 5 || err != nil {
		t.Errorf("%d of %d requests, %d taken, %v", n, requests, taken, err)
	}
}

// named is an error of a type.
type named string

func (n named) Error() string { return string(n) }

// Failures finds each error of a type, however they are wrapped.
func TestFailures(t *testing.T) {
	all := errors.Join(named("a"), errors.New("x"), fmt.Errorf("y: %w", errors.Join(named("b"), named("c"))))
	if got := Failures[named](fmt.Errorf("list: %w", all)); !slices.Equal(got, []named{"a", "b", "c"}) {
		t.Errorf("%q", got)
	}
	if got := Failures[named](nil); got != nil {
		t.Errorf("%q of no error", got)
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
			requests, err := Pages(t.Context(), list, []string{"a", "b"}, metav1.ListOptions{LabelSelector: "l"}, func(string) bool {
				taken++
				return true
			})
			if !errors.Is(err, c.fail) || requests != len(got) || !slices.Equal(got, c.want) {
				t.Errorf("%d requests %v, %v, want %v, %v", requests, got, err, c.want, c.fail)
			}
			if c.fail == nil && taken < 2 {
				t.Errorf("%d items", taken)
			}
		})
	}
}

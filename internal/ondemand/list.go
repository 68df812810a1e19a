package ondemand

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
)

const (
	// fewMissing is the number of objects that a list fetches one by one. For more, it sends requests for pages.
	fewMissing = 8
	// maxParallel is the number of requests for single objects that a list sends at once.
	maxParallel = 4
	// PageSize is the number of objects in a page.
	PageSize = 500
)

// Cost says what a list needs.
type Cost struct {
	Objects  int // that the metadata have
	Held     int // of them, those that need no request
	Requests int
}

// CostOf returns the cost of a list of objects with these keys. all is the number of objects that the pages of a
// request for them have.
func (r *Reader[T]) CostOf(keys []object.Key, all int) Cost {
	c := Cost{Objects: len(keys)}
	for _, key := range keys {
		if _, ok := r.Peek(key); ok {
			c.Held++
		}
	}
	c.Requests = c.Objects - c.Held
	if c.Requests > fewMissing {
		c.Requests = (all + PageSize - 1) / PageSize
	}
	return c
}

// TakeFunc takes an object, or the error of one that cannot be decoded. It returns false if the list needs no objects
// that come later: of a higher namespace, or of a higher name in the same one.
type TakeFunc[T any] func(key object.Key, obj Object[T], failed error) (more bool)

// ListFunc calls take with each object of some pages, until take returns false, and returns the number of requests.
type ListFunc[T any] func(ctx context.Context, take TakeFunc[T]) (requests int, err error)

// List returns the objects with some keys, in their order, without those that no longer exist, and what it cost. Of
// each object, Get could have returned the same during the call. If many need a request, it calls list, and then
// fetches what is still missing. The error missing says that there are more objects, with an error of
// Config.Undecodable; it wraps that of the first one.
func (r *Reader[T]) List(ctx context.Context, keys []object.Key, list ListFunc[T]) (all []T, cost Cost, missing,
	err error) {
	if err := r.stopped(); err != nil {
		return nil, Cost{}, nil, fmt.Errorf("list: %w", err)
	}
	l := &listing[T]{Reader: r, found: make([]T, len(keys)), have: make([]bool, len(keys)), missing: map[object.Key]int{},
		failed: map[int]error{}}
	for n, key := range keys {
		if l.found[n], l.have[n] = r.Peek(key); !l.have[n] {
			l.missing[key] = n
		}
	}
	cost = Cost{Objects: len(keys), Held: len(keys) - len(l.missing)}
	if len(l.missing) > fewMissing {
		requests, err := list(ctx, l.take)
		cost.Requests += requests
		if err != nil {
			return nil, cost, nil, err
		}
	}
	cost.Requests += len(l.missing)
	if err := l.getAll(ctx); err != nil {
		return nil, cost, nil, err
	}
	all = l.found[:0]
	for n, obj := range l.found {
		if l.have[n] {
			all = append(all, obj)
		}
	}
	return all, cost, l.err(), nil
}

// listing is a list under way. Slices have an element for each of its keys.
type listing[T any] struct {
	*Reader[T]
	found   []T
	have    []bool
	missing map[object.Key]int // the numbers of the keys that need a request

	mu     sync.Mutex    // protects failed
	failed map[int]error // why there is no object, by the number of the key
}

// take is a [TakeFunc].
func (l *listing[T]) take(key object.Key, obj Object[T], failed error) (more bool) {
	if n, wanted := l.missing[key]; wanted {
		l.takeWanted(n, key, obj, failed)
	}
	if len(l.missing) > fewMissing {
		return true
	}
	for other := range l.missing {
		if cmp.Or(cmp.Compare(other.Namespace, key.Namespace), cmp.Compare(other.Name, key.Name)) > 0 {
			return true
		}
	}
	return false // those that are missing were deleted, or come in another order
}

func (l *listing[T]) takeWanted(n int, key object.Key, obj Object[T], failed error) {
	now, err := l.config.Metadata(key)
	if err != nil {
		return
	}
	if failed != nil {
		l.fail(n, failed)
		delete(l.missing, key)
		return
	}
	if ok, err := obj.ID.notOlder(now); err != nil || !ok {
		return
	}
	l.found[n], l.have[n] = obj.Value, true
	delete(l.missing, key)
	if obj.ID == now {
		l.offer(key, obj)
	}
}

// fail notes why an object is missing.
func (l *listing[T]) fail(n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed[n] = err
}

// err says why objects are missing, or returns nil.
func (l *listing[T]) err() error {
	if len(l.failed) == 0 {
		return nil
	}
	first := l.failed[slices.Min(slices.Collect(maps.Keys(l.failed)))]
	if len(l.failed) == 1 {
		return first
	}
	return fmt.Errorf("%d objects are missing, the first one because of: %w", len(l.failed), first)
}

// getAll gets the missing objects, some at a time. It ends at the first error that is neither "not found" nor one of
// Config.Undecodable.
func (l *listing[T]) getAll(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var getting sync.WaitGroup
	limit := run.NewLimit(maxParallel)
	for key, n := range l.missing {
		limit.Enter()
		if ctx.Err() != nil {
			limit.Leave()
			break
		}
		getting.Go(func() {
			defer limit.Leave()
			obj, err := l.Get(ctx, key)
			switch {
			case err == nil:
				l.found[n], l.have[n] = obj, true
			case apierrors.IsNotFound(err):
			case l.config.Undecodable != nil && l.config.Undecodable(err):
				l.fail(n, err)
			default:
				cancel(err)
			}
		})
	}
	getting.Wait()
	return context.Cause(ctx)
}

// Failures returns the errors of type E that err consists of.
func Failures[E error](err error) (all []E) {
	if failed, ok := err.(E); ok {
		return []E{failed}
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return Failures[E](err.Unwrap())
	case interface{ Unwrap() []error }:
		for _, part := range err.Unwrap() {
			all = append(all, Failures[E](part)...)
		}
	}
	return all
}

// errSamePage is the error of a server whose pages do not end.
var errSamePage = errors.New("the server sent the continue token of a page that the client already has")

// PageFunc reads a page of a collection.
type PageFunc[T any] func(ctx context.Context, namespace string, o metav1.ListOptions) ([]T, metav1.ListMeta, error)

// Pages calls take with each object of some namespaces, until take returns false, and returns the number of requests.
// If a continue token expires, it reads that namespace again, in one request.
func Pages[T any](ctx context.Context, list PageFunc[T], namespaces []string, selected metav1.ListOptions,
	take func(T) (more bool)) (requests int, err error) {
	for _, namespace := range namespaces {
		o := selected
		o.Limit = PageSize
		for {
			items, page, err := list(ctx, namespace, o)
			requests++
			if err != nil && o.Continue != "" && apierrors.IsResourceExpired(err) {
				o.Continue, o.Limit = "", 0
				continue
			}
			if err != nil {
				return requests, err
			}
			for _, item := range items {
				if !take(item) {
					return requests, nil
				}
			}
			if page.Continue == "" {
				break
			}
			if page.Continue == o.Continue {
				return requests, errSamePage
			}
			o.Continue = page.Continue
		}
	}
	return requests, nil
}

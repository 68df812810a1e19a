package ondemand

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
func (r *Reader[T]) CostOf(keys []Key, all int) Cost {
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

// ListFunc calls take with each object of some pages, and returns the number of requests.
type ListFunc[T any] func(ctx context.Context, take func(Key, Object[T])) (requests int, err error)

// List returns the objects with some keys, in their order, without those that no longer exist, and what it cost. Of
// each object, Get could have returned the same during the call. If many need a request, it calls list, and then
// fetches what is still missing.
func (r *Reader[T]) List(ctx context.Context, keys []Key, list ListFunc[T]) ([]T, Cost, error) {
	if err := r.stopped(); err != nil {
		return nil, Cost{}, fmt.Errorf("list: %w", err)
	}
	found, missing := make([]T, len(keys)), map[Key]int{}
	have := make([]bool, len(keys))
	cost := Cost{Objects: len(keys)}
	for n, key := range keys {
		if found[n], have[n] = r.Peek(key); !have[n] {
			missing[key] = n
		}
	}
	cost.Held = len(keys) - len(missing)
	if len(missing) > fewMissing {
		requests, err := list(ctx, func(key Key, obj Object[T]) {
			n, wanted := missing[key]
			if !wanted {
				return
			}
			now, err := r.config.Metadata(key)
			if err != nil {
				return
			}
			if ok, err := obj.ID.notOlder(now); err != nil || !ok {
				return
			}
			found[n], have[n] = obj.Value, true
			delete(missing, key)
			if obj.ID == now {
				r.offer(key, obj)
			}
		})
		cost.Requests += requests
		if err != nil {
			return nil, cost, err
		}
	}
	cost.Requests += len(missing)
	if err := r.getAll(ctx, missing, found, have); err != nil {
		return nil, cost, err
	}
	all := found[:0]
	for n, obj := range found {
		if have[n] {
			all = append(all, obj)
		}
	}
	return all, cost, nil
}

// getAll gets the missing objects, some at a time. It ends at the first error that is not "not found".
func (r *Reader[T]) getAll(ctx context.Context, missing map[Key]int, found []T, have []bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var getting sync.WaitGroup
	limit := run.NewLimit(maxParallel)
	for key, n := range missing {
		limit.Enter()
		if ctx.Err() != nil {
			limit.Leave()
			break
		}
		getting.Go(func() {
			defer limit.Leave()
			obj, err := r.Get(ctx, key)
			switch {
			case err == nil:
				found[n], have[n] = obj, true
			case !apierrors.IsNotFound(err):
				cancel(err)
			}
		})
	}
	getting.Wait()
	return context.Cause(ctx)
}

// errSamePage is the error of a server whose pages do not end.
var errSamePage = errors.New("the server sent the continue token of a page that the client already has")

// PageFunc reads a page of a collection.
type PageFunc[T any] func(ctx context.Context, namespace string, o metav1.ListOptions) ([]T, metav1.ListMeta, error)

// Pages calls take with each object of some namespaces, and returns the number of requests. If a continue token
// expires, it reads that namespace again, in one request.
func Pages[T any](ctx context.Context, list PageFunc[T], namespaces []string, selected metav1.ListOptions,
	take func(T)) (requests int, err error) {
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
				take(item)
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

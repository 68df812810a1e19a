package informer_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/typedinformer/informer"
)

func ExampleQueue() {
	queue := informer.NewQueue(informer.QueueConfig[informer.Key]{})
	queue.AddWith(informer.AddOptions{Priority: informer.LowPriority}, informer.Key{Name: "from-the-initial-list"})
	queue.Add(informer.Key{Name: "changed"})
	queue.Add(informer.Key{Name: "changed"}) // waits only once

	ctx := context.Background()
	failed := false
	reconcile := func(key informer.Key) error {
		if key.Name == "changed" && !failed {
			failed = true
			return errors.New("conflict")
		}
		return nil
	}
	worker := func() {
		for {
			key, err := queue.Get(ctx)
			if err != nil {
				return
			}
			if err := reconcile(key); err != nil {
				fmt.Println(key.Name, "failed:", err)
				queue.AddRateLimited(key) // returns in 5 ms, 10 ms, …
			} else {
				fmt.Println(key.Name, "is done after", queue.NumRequeues(key), "retries")
				queue.Forget(key)
			}
			queue.Done(key)
			if queue.Status().Delayed+queue.Len() == 0 {
				return
			}
		}
	}
	worker()
	// Output:
	// changed failed: conflict
	// from-the-initial-list is done after 0 retries
	// changed is done after 1 retries
}

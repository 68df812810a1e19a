package cache_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer/clientgo/internal/world"
)

// While many goroutines add and remove handlers, each handler receives a consistent sequence: an object is added before
// it is updated or deleted, and an update starts from the version that the handler knows.
// Guarantees: P1, H2, H7
func TestHandlersComeAndGo(t *testing.T) {
	w := world.New(t)
	w.Pod("a", "one")
	i := create(t, config(w))
	steady := &chain{T: t}
	add(t, i, steady)
	stop := run(t, i)
	over := make(chan struct{})
	var workers sync.WaitGroup
	for range 30 {
		workers.Go(func() {
			var handles []clientcache.ResourceEventHandlerRegistration
			for {
				select {
				case <-over:
					for _, r := range handles {
						_ = i.RemoveEventHandler(r)
					}
					return
				default:
				}
				if len(handles) == 0 || rand.IntN(2) == 0 {
					r, err := i.AddEventHandler(&chain{T: t})
					if err != nil {
						t.Error(err)
						return
					}
					handles = append(handles, r)
					continue
				}
				index := rand.IntN(len(handles))
				if err := i.RemoveEventHandler(handles[index]); err != nil {
					t.Error(err)
				}
				handles[index] = handles[len(handles)-1]
				handles = handles[:len(handles)-1]
			}
		})
	}
	for n := range 200 {
		name := fmt.Sprint("p", n%7)
		if n%7 == n%14 {
			w.Pod("b", name)
		} else {
			w.Delete("b", name)
		}
	}
	steady.wait(world.Describe(w.Pod("c", "last")))
	close(over)
	workers.Wait()
	stop()
}

// chain is a handler that checks the order of its events.
type chain struct {
	*testing.T
	mu   sync.Mutex // protects the fields below
	has  map[string]*corev1.Pod
	want string
	came chan struct{} // closed when the object that wait waits for arrives
}

func (c *chain) OnAdd(obj any, _ bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pod := obj.(*corev1.Pod)
	key := pod.Namespace + "/" + pod.Name
	if c.has[key] != nil {
		c.Errorf("%s was added again", key)
	}
	if c.has == nil {
		c.has = map[string]*corev1.Pod{}
	}
	c.has[key] = pod
	c.checkLocked()
}

func (c *chain) OnUpdate(old, new any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pod := new.(*corev1.Pod)
	key := pod.Namespace + "/" + pod.Name
	if c.has[key] != old {
		c.Errorf("an update of %s starts from another version than the handler has", key)
	}
	c.has[key] = pod
}

func (c *chain) OnDelete(obj any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pod := obj.(*corev1.Pod)
	key := pod.Namespace + "/" + pod.Name
	if c.has[key] == nil {
		c.Errorf("%s was deleted, but is not there", key)
	}
	delete(c.has, key)
}

// wait waits until the handler has an object that Describe describes as want.
func (c *chain) wait(want string) {
	c.mu.Lock()
	c.want, c.came = want, make(chan struct{})
	came := c.came
	c.checkLocked()
	c.mu.Unlock()
	<-came
}

func (c *chain) checkLocked() {
	for _, pod := range c.has {
		if c.came != nil && world.Describe(pod) == c.want {
			close(c.came)
			c.came = nil
		}
	}
}

package e2e

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/typedinformer/informer"
)

const (
	ledgerWorkers = 16
	sideLabel     = "side" // of a config map: a or b
)

// ledger writes config maps, and knows exactly what was written, whatever happens to the server meanwhile. No one else writes to
// them.
type ledger struct {
	client     kubernetes.Interface
	namespaces []string
	ctx        context.Context // bounds requests: a cancelled write could still succeed, after it was read

	mu     sync.Mutex // protects the fields below
	state  map[informer.Key]commit
	told   []func(commit) // called with each commit, in the order of a key's versions
	last   uint64         // the highest version
	writes map[string]int // by kind
}

// commit is one successful write.
type commit struct {
	key              informer.Key
	uid              types.UID
	version          uint64 // 0 for a deletion, whose version the server does not return
	before           uint64 // the version that it replaced
	oldSide, newSide string // the side before and after; "" if it does not exist
}

// mark returns the mark of c for a follower of everything.
func (c commit) mark() mark {
	if c.newSide == "" {
		return mark{deleted: c.uid}
	}
	return mark{version: c.version}
}

func newLedger(t *testing.T, namespaces []string) *ledger {
	l := &ledger{
		client: clientset(t, runtime.ContentTypeProtobuf), namespaces: namespaces, ctx: t.Context(),
		state: map[informer.Key]commit{}, writes: map[string]int{},
	}
	return l
}

// key returns the key of config map number i.
func (l *ledger) key(i int) informer.Key {
	return informer.Key{Namespace: l.namespaces[i%len(l.namespaces)], Name: fmt.Sprintf("config-%05d", i)}
}

// listen makes the ledger call f with each later commit.
func (l *ledger) listen(f func(commit)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, f)
}

func (l *ledger) get(key informer.Key) commit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state[key]
}

// set writes key with this side, and creates it if it does not exist.
func (l *ledger) set(key informer.Key, side string) {
	have := l.get(key)
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: key.Name, Labels: map[string]string{sideLabel: side}},
		// Nothing in it is shared with other objects, so a store's memory does not depend on how the object arrived.
		Data: map[string]string{"after": fmt.Sprint(have.version), "text": strings.Repeat(crand.Text(), 8)},
	}
	configMaps := l.client.CoreV1().ConfigMaps(key.Namespace)
	if have.newSide == "" {
		l.write(key, "created", func() (*corev1.ConfigMap, error) { return configMaps.Create(l.ctx, cm, metav1.CreateOptions{}) })
		return
	}
	cm.UID, cm.ResourceVersion = have.uid, fmt.Sprint(have.version)
	l.write(key, "updated", func() (*corev1.ConfigMap, error) { return configMaps.Update(l.ctx, cm, metav1.UpdateOptions{}) })
}

func (l *ledger) delete(key informer.Key) {
	l.write(key, "deleted", func() (*corev1.ConfigMap, error) {
		return nil, l.client.CoreV1().ConfigMaps(key.Namespace).Delete(l.ctx, key.Name, metav1.DeleteOptions{})
	})
}

// write records the result of a write. After an error, the write may have succeeded all the same.
func (l *ledger) write(key informer.Key, what string, do func() (*corev1.ConfigMap, error)) {
	cm, err := do()
	if err != nil {
		what = "failed"
		if cm, err = l.read(key); err != nil {
			return // the test has ended
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes[what]++
	c := commit{key: key}
	c.oldSide, c.before, c.uid = l.state[key].newSide, l.state[key].version, l.state[key].uid
	if cm != nil {
		c.newSide, c.version, c.uid = cm.Labels[sideLabel], versionOf(cm), cm.UID
	}
	if c.newSide == c.oldSide && c.version == c.before {
		return // not done
	}
	l.last = max(l.last, c.version)
	l.state[key] = c
	for _, tell := range l.told {
		tell(c)
	}
}

// read returns the object, or nil if there is none, once the server answers.
func (l *ledger) read(key informer.Key) (*corev1.ConfigMap, error) {
	retry := time.NewTicker(retryInterval)
	defer retry.Stop()
	for {
		cm, err := l.client.CoreV1().ConfigMaps(key.Namespace).Get(l.ctx, key.Name, metav1.GetOptions{})
		switch {
		case err == nil:
			return cm, nil
		case apierrors.IsNotFound(err):
			return nil, nil
		}
		select {
		case <-retry.C:
		case <-l.ctx.Done():
			return nil, context.Cause(l.ctx)
		}
	}
}

// step makes a random change to one config map: usually an update, which sometimes moves it to the other side.
func (l *ledger) step(key informer.Key, random float64) {
	have := l.get(key)
	switch {
	case have.newSide == "":
		l.set(key, "a")
	case random < 0.03:
		l.delete(key)
	case random < 0.06:
		l.delete(key)
		l.set(key, have.newSide)
	case random < 0.25:
		l.set(key, map[string]string{"a": "b", "b": "a"}[have.newSide])
	default:
		l.set(key, have.newSide)
	}
}

// fill creates the first n config maps.
func (l *ledger) fill(n int) {
	var group errgroup.Group
	group.SetLimit(ledgerWorkers)
	for i := range n {
		group.Go(func() error {
			l.set(l.key(i), []string{"a", "b"}[i/len(l.namespaces)%2])
			return nil
		})
	}
	_ = group.Wait()
}

// churn takes rate steps a second for d, each with the key that pick returns. It skips keys in work, and drops steps that are due
// while all workers wait for the server.
func (l *ledger) churn(d time.Duration, rate int, random *rand.Rand, pick func() informer.Key) {
	over := time.NewTimer(d)
	defer over.Stop()
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	var group errgroup.Group
	group.SetLimit(ledgerWorkers)
	defer group.Wait()
	var busy sync.Map
	for {
		select {
		case <-tick.C:
		case <-over.C:
			return
		case <-l.ctx.Done():
			return
		}
		key, chance := pick(), random.Float64()
		if _, inWork := busy.LoadOrStore(key, true); inWork {
			continue
		}
		started := group.TryGo(func() error {
			defer busy.Delete(key)
			l.step(key, chance)
			return nil
		})
		if !started {
			busy.Delete(key)
		}
	}
}

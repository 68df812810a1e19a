package intake

import (
	"context"
	"sync"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/budget"
	"github.com/typedinformer/informer/internal/source/fetch"
)

// Progress is the progress of the lists of a source. When a memory limit is near, it measures objects, and asks the
// server how many there are if that is not known.
type Progress[T object.Object] struct {
	List    *budget.List
	Source  *fetch.Source
	Counter func() *fetch.Source // for requests while Source lists; see fetch.Source.Counter
	// Measure returns the mean sizes of objects, as they are held and in other layouts. There is at least one object. The
	// root sets Measure, because a source does not know the layouts.
	Measure func(objects []T) budget.Sizes

	Arriving Arriving[T] // the objects of a first list under way

	first bool   // the list under way fills an empty sink
	count func() // begins to ask the server, during a list
}

// Begin begins a list of shard. first says that it fills an empty sink. The caller calls end when the list has ended;
// done says that the sink has it.
func (p *Progress[T]) Begin(ctx context.Context, first bool, shard string) (end func(done bool)) {
	p.List.Begin(first, p.Source.Received())
	p.first = first
	ctx, cancel := context.WithCancel(ctx)
	var counting sync.WaitGroup
	p.count = func() {
		counting.Go(func() {
			if n, ok, err := p.Counter().Count(ctx, shard); ok && err == nil {
				p.List.Claim(n)
			}
		})
	}
	return func(done bool) {
		cancel()
		counting.Wait()
		p.List.End(p.Source.Received(), done)
		p.Arriving.show(&listing[T]{}) // otherwise, old versions would stay in memory
	}
}

// check shows what has arrived, and compares the memory that the list will take with the limits. It returns an error if
// the list must end.
func (p *Progress[T]) check(l *listing[T]) error {
	objects := l.items
	if p.first {
		p.Arriving.show(l)
	}
	err := p.List.Check(len(objects), p.Source.Received(), func() budget.Sizes { return p.Measure(objects) })
	if err == nil && p.List.Unknown() {
		p.count()
	}
	return err
}

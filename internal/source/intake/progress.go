package intake

import (
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/budget"
	"github.com/typedinformer/informer/internal/source/fetch"
)

// Progress is the progress of the lists of a source, whose objects it measures when a memory limit is near.
type Progress[T object.Object] struct {
	List   *budget.List
	Source *fetch.Source
	// Measure returns the sizes of objects like these, of which there is at least one. The root gives it, since it knows
	// more ways to hold objects than a source does.
	Measure func(objects []T) budget.Sizes
}

// Begin begins a list. first says that it fills an empty sink. The caller calls end when the list has ended; done says
// that the sink has it.
func (p *Progress[T]) Begin(first bool) (end func(done bool)) {
	p.List.Begin(first, p.Source.Received())
	return func(done bool) { p.List.End(p.Source.Received(), done) }
}

// check compares the memory that the list will take with the limits. It returns an error if the list must end.
func (p *Progress[T]) check(objects []T) error {
	return p.List.Check(len(objects), p.Source.Received(), func() budget.Sizes { return p.Measure(objects) })
}

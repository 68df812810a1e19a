package deliver

import "github.com/typedinformer/informer/internal/object"

// guarded is a Handler that recovers panics and passes their values to onPanic.
type guarded[T object.Object] struct {
	handler Handler[T]
	onPanic func(value any)
}

func (g guarded[T]) recover() {
	if value := recover(); value != nil {
		g.onPanic(value)
	}
}

func (g guarded[T]) OnAdd(obj T, initial bool) {
	defer g.recover()
	g.handler.OnAdd(obj, initial)
}

func (g guarded[T]) OnUpdate(old, new T) {
	defer g.recover()
	g.handler.OnUpdate(old, new)
}

func (g guarded[T]) OnDelete(last T, final bool) {
	defer g.recover()
	g.handler.OnDelete(last, final)
}

func guardedFilter[T object.Object](filter func(T) bool, onPanic func(value any)) func(T) bool {
	return func(obj T) bool {
		defer guarded[T]{onPanic: onPanic}.recover()
		return filter(obj)
	}
}

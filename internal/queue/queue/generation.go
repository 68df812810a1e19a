package queue

// generation counts the keys that became ready between two calls of Mark, and are not done.
type generation struct {
	left int
	done chan struct{} // closed when this and all older generations have no keys left; nil in the newest
	next *generation   // nil in the newest
}

// generations is a list of generations. A key that becomes ready belongs to the newest one until it is done.
type generations struct{ oldest, newest *generation }

func newGenerations() generations {
	g := &generation{}
	return generations{g, g}
}

// join adds a key to the newest generation, and returns that.
func (g *generations) join() *generation {
	g.newest.left++
	return g.newest
}

// leave removes a key from gen.
func (g *generations) leave(gen *generation) {
	gen.left--
	if gen.left == 0 {
		g.advance()
	}
}

// mark begins a generation. The channel is closed when the older ones have no keys left.
func (g *generations) mark() <-chan struct{} {
	last := g.newest
	last.done, last.next = make(chan struct{}), &generation{}
	g.newest = last.next
	g.advance()
	return last.done
}

// advance ends the oldest generations, up to the first one that has keys left.
func (g *generations) advance() {
	for g.oldest != g.newest && g.oldest.left == 0 {
		close(g.oldest.done)
		g.oldest = g.oldest.next
	}
}

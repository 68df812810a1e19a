package queue

// delays is a heap of entries, ordered by due, then by order. Each node has four children, which halves the levels of a
// binary heap.
type delays[K comparable] []*entry[K]

func (d delays[K]) before(a, b *entry[K]) bool {
	return a.due < b.due || a.due == b.due && a.order < b.order
}

func (d *delays[K]) push(e *entry[K]) {
	e.index = len(*d)
	*d = append(*d, e)
	d.up(e)
}

// remove removes e. It frees the memory of a heap that was large and becomes empty.
func (d *delays[K]) remove(e *entry[K]) {
	h := *d
	n := len(h) - 1
	last := h[n]
	h[n] = nil
	*d = h[:n]
	if n == 0 && cap(h) > idleEntries {
		*d = nil
	}
	if last == e {
		return
	}
	last.index = e.index
	h[last.index] = last
	d.up(last)
	d.down(last)
}

// up moves e towards the root while it is before its parent.
func (d *delays[K]) up(e *entry[K]) {
	h, i := *d, e.index
	for i > 0 {
		parent := (i - 1) / 4
		if !d.before(e, h[parent]) {
			break
		}
		h[i] = h[parent]
		h[i].index = i
		i = parent
	}
	h[i], e.index = e, i
}

// down moves e away from the root while a child is before it.
func (d *delays[K]) down(e *entry[K]) {
	h, i := *d, e.index
	for {
		first := e
		for child := 4*i + 1; child < min(4*i+5, len(h)); child++ {
			if d.before(h[child], first) {
				first = h[child]
			}
		}
		if first == e {
			break
		}
		i, h[i] = first.index, first
		first.index, e.index = e.index, i
	}
	h[i] = e
}

package herd

import "time"

// agenda is what is going to happen, by time, then in the order in which it was written down.
type agenda struct {
	now  time.Duration
	last int64
	heap []deed // of four children each: the next is the first
}

type deed struct {
	at  time.Duration
	seq int64
	do  func()
}

func (d *deed) before(o *deed) bool { return d.at < o.at || d.at == o.at && d.seq < o.seq }

// at has something done at an instant, or at once if that is over.
func (a *agenda) at(then time.Duration, do func()) {
	a.last++
	d := deed{max(then, a.now), a.last, do}
	a.heap = append(a.heap, d)
	i := len(a.heap) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !d.before(&a.heap[parent]) {
			break
		}
		a.heap[i] = a.heap[parent]
		i = parent
	}
	a.heap[i] = d
}

func (a *agenda) after(d time.Duration, do func()) { a.at(a.now+d, do) }

// step does what comes next, and answers false when there is nothing.
func (a *agenda) step() bool {
	if len(a.heap) == 0 {
		return false
	}
	first := a.heap[0]
	end := len(a.heap) - 1
	d := a.heap[end]
	a.heap[end] = deed{}
	a.heap = a.heap[:end]
	if end > 0 {
		a.sink(d)
	}
	a.now = first.at
	first.do()
	return true
}

// sink puts a deed into the place that the first has left.
func (a *agenda) sink(d deed) {
	i, n := 0, len(a.heap)
	for {
		child := 4*i + 1
		if child >= n {
			break
		}
		for k, end := child+1, min(child+4, n); k < end; k++ {
			if a.heap[k].before(&a.heap[child]) {
				child = k
			}
		}
		if !a.heap[child].before(&d) {
			break
		}
		a.heap[i] = a.heap[child]
		i = child
	}
	a.heap[i] = d
}

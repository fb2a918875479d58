// Package agenda keeps what is still to happen in virtual time: what is due first comes first, and
// of what is due at one instant what was noted first, on every machine. Whatever plays has one.
//
// It has no clock: the player says when, and lets time pass. An Agenda has one owner and is not
// safe for concurrent use.
package agenda

import "time"

// Agenda is a heap of four children a node: shallow, and without a boxed element. The zero value
// is empty.
type Agenda[T any] struct {
	heap  []item[T]
	noted int64
}

type item[T any] struct {
	when time.Duration
	nth  int64
	what T
}

func (i *item[T]) before(o *item[T]) bool {
	return i.when < o.when || i.when == o.when && i.nth < o.nth
}

// Len is how much there is.
func (a *Agenda[T]) Len() int { return len(a.heap) }

// Next is when the first is due. There must be one.
func (a *Agenda[T]) Next() time.Duration { return a.heap[0].when }

// Note adds what is due at an instant.
func (a *Agenda[T]) Note(when time.Duration, what T) {
	a.noted++
	it := item[T]{when, a.noted, what}
	a.heap = append(a.heap, it)
	i := len(a.heap) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !it.before(&a.heap[parent]) {
			break
		}
		a.heap[i] = a.heap[parent]
		i = parent
	}
	a.heap[i] = it
}

// Take takes the first out. There must be one.
func (a *Agenda[T]) Take() (when time.Duration, what T) {
	first, end := a.heap[0], len(a.heap)-1
	last := a.heap[end]
	a.heap[end] = item[T]{}
	a.heap = a.heap[:end]
	if end > 0 {
		a.sink(last)
	}
	return first.when, first.what
}

// sink puts an item into the place that the first has left.
func (a *Agenda[T]) sink(it item[T]) {
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
		if !a.heap[child].before(&it) {
			break
		}
		a.heap[i] = a.heap[child]
		i = child
	}
	a.heap[i] = it
}

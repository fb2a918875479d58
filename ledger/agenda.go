package ledger

import (
	"cmp"
	"container/heap"
)

// record is an entry with its place on the agenda.
type record struct {
	Entry
	at int
}

// agenda is a heap of records: the first is due first, ties in the order of their ids, so
// that the same events end in the same words on every machine. Closed records outnumber
// the open ones by far on a busy host; without it every step would look through them all.
type agenda []*record

func (a agenda) Len() int { return len(a) }

func (a agenda) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(a[i].Until, a[j].Until), cmp.Compare(a[i].ID, a[j].ID)) < 0
}

func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].at, a[j].at = i, j
}

// Push is heap.Interface's.
func (a *agenda) Push(x any) {
	r := x.(*record)
	r.at = len(*a)
	*a = append(*a, r)
}

// Pop is heap.Interface's.
func (a *agenda) Pop() any {
	last := len(*a) - 1
	r := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	return r
}

// blank returns a record to be filled, a forgotten one if there is any.
func (l *Ledger) blank() *record {
	last := len(l.spare) - 1
	if last < 0 {
		return &record{}
	}
	r := l.spare[last]
	l.spare = l.spare[:last]
	return r
}

// forget drops a record and keeps its memory for the next one.
func (l *Ledger) forget(r *record) {
	delete(l.records, r.ID)
	heap.Remove(&l.due, r.at)
	*r = record{}
	l.spare = append(l.spare, r)
}

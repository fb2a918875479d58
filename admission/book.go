package admission

import (
	"container/list"

	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Book is what one replica knows of the admissions that it placed and that hosts alone record:
// for each key the host that holds it, so that asking twice is safe at this replica, for as
// long as the admission lives. The host's ledger is the record; the book is a copy of the part
// that this replica was told. It is bounded: beyond that the oldest admissions go on, and only
// their keys are not known here any more.
//
// Its transitions are those of the store by the same names, for one passage at a time of a
// key. There is nothing to count, so nothing is ever full. Not safe for concurrent use.
type Book struct {
	most  int
	turn  int64                    // the last placing; it tells a passage that stood still from its successor
	byKey map[owner]*list.Element  // -> *pool.Row
	byID  map[string]*list.Element // id -> *pool.Row, once a host has promised
	rows  *list.List               // of *pool.Row, the oldest first

	leaving map[string]string // id -> host, of what its caller gave back, and its host may hold
}

// owner names an admission as its consumer does.
type owner struct{ consumer, key string }

func ownerOf(r *pool.Row) owner { return owner{r.Consumer, r.Key} }

// NewBook returns an empty one with room for so many admissions.
func NewBook(most int) *Book {
	return &Book{most: most, byKey: map[owner]*list.Element{}, byID: map[string]*list.Element{}, rows: list.New(), leaving: map[string]string{}}
}

// Len counts the admissions that it knows.
func (b *Book) Len() int { return b.rows.Len() }

// Claim lets a passage place a key, unless it is placed already or is being placed.
func (b *Book) Claim(now pool.Time, c pool.Claim) pool.Claimed {
	o := owner{c.Consumer, c.Key}
	var row *pool.Row
	if e := b.byKey[o]; e != nil {
		row = rowIn(e)
	}
	if v, decided := pool.Before(row, c, now); decided {
		out := pool.Claimed{Verdict: v}
		if row != nil {
			out.Row = *row
		}
		return out
	}
	if row == nil {
		row = b.add(o)
	}
	b.turn++
	*row = pool.Row{
		Consumer: c.Consumer, Key: c.Key, Contents: c.Contents, Pool: c.Pool, Mode: c.Mode,
		State: pool.Placing, Gen: b.turn, PlacingAt: now,
	}
	return pool.Claimed{Verdict: pool.Granted, Row: *row}
}

// add makes a row, the oldest giving way.
func (b *Book) add(o owner) *pool.Row {
	for b.rows.Len() >= b.most {
		b.remove(b.rows.Front())
	}
	row := new(pool.Row)
	b.byKey[o] = b.rows.PushBack(row)
	return row
}

func rowIn(e *list.Element) *pool.Row { return e.Value.(*pool.Row) }

func (b *Book) remove(e *list.Element) {
	row := rowIn(e)
	b.rows.Remove(e)
	delete(b.byKey, ownerOf(row))
	delete(b.leaving, row.ID)
	if b.byID[row.ID] == e {
		delete(b.byID, row.ID)
	}
}

// placing returns a row that is still being placed by the same passage.
func (b *Book) placing(consumer, key string, turn int64) *pool.Row {
	e := b.byKey[owner{consumer, key}]
	if e == nil || rowIn(e).State != pool.Placing || rowIn(e).Gen != turn {
		return nil
	}
	return rowIn(e)
}

// Settle notes a promise: from now on the key is that id, at that host.
func (b *Book) Settle(now pool.Time, placed pool.Row, until pool.Time) (pool.Row, bool) {
	row := b.placing(placed.Consumer, placed.Key, placed.Gen)
	if row == nil {
		now, _ := b.Get(placed.Consumer, placed.Key)
		return now, false
	}
	row.ID, row.Host, row.Epoch, row.State = placed.ID, placed.Host, ByHostEpoch, pool.Admitted
	row.AdmittedAt, row.ReservedUntil = now, until
	b.byID[row.ID] = b.byKey[ownerOf(row)]
	return *row, true
}

// Adopt takes in what another replica placed, as its host has it, unless its key is known.
func (b *Book) Adopt(r pool.Row) {
	if b.byKey[ownerOf(&r)] == nil && r.State.OnHost() {
		b.turn++
		r.Gen = b.turn
		*b.add(ownerOf(&r)) = r
		b.byID[r.ID] = b.byKey[ownerOf(&r)]
	}
}

// NoRoom forgets what found no host: a refusal leaves nothing behind.
func (b *Book) NoRoom(placing pool.Row) pool.Claimed {
	row := b.placing(placing.Consumer, placing.Key, placing.Gen)
	if row == nil {
		return pool.Claimed{Verdict: pool.NoSuchKey}
	}
	out := pool.Claimed{Verdict: pool.PoolFull, Row: *row}
	b.remove(b.byKey[ownerOf(row)])
	return out
}

// Move lets an unbooted one be placed anew, once its host has let go of it or must have.
func (b *Book) Move(now pool.Time, id string, acknowledged bool) (pool.Row, bool) {
	e := b.byID[id]
	if e == nil {
		return pool.Row{}, false
	}
	row := rowIn(e)
	if row.State != pool.Admitted || (!acknowledged && now <= row.ReservedUntil) {
		return *row, false
	}
	delete(b.byID, id)
	b.turn++
	row.State, row.Gen, row.PlacingAt = pool.Placing, b.turn, now
	row.ID, row.Host, row.Epoch, row.RunningAt = "", "", 0, 0
	return *row, true
}

// Renew notes until when the host keeps it.
func (b *Book) Renew(id string, until pool.Time) (pool.Row, bool) {
	e := b.byID[id]
	if e == nil || !rowIn(e).State.OnHost() {
		return pool.Row{}, false
	}
	row := rowIn(e)
	row.ReservedUntil = max(row.ReservedUntil, until)
	return *row, true
}

// Track notes that it runs.
func (b *Book) Track(id string, now pool.Time) {
	if e := b.byID[id]; e != nil && rowIn(e).State == pool.Admitted {
		rowIn(e).State, rowIn(e).RunningAt = pool.Running, now
	}
}

// Reopen notes that its host keeps its place for another start.
func (b *Book) Reopen(id string, until pool.Time) {
	if e := b.byID[id]; e != nil && rowIn(e).State == pool.Running {
		rowIn(e).State, rowIn(e).ReservedUntil = pool.Admitted, until
	}
}

// Leave notes that its caller wants out. What is being placed is forgotten: its passage finds
// nothing to settle, and has the host let go.
func (b *Book) Leave(r pool.Row) {
	switch e := b.byKey[ownerOf(&r)]; {
	case e == nil || rowIn(e).ID != r.ID:
	case rowIn(e).State == pool.Placing:
		b.remove(e)
	default:
		rowIn(e).State = pool.Releasing
		b.leaving[r.ID] = rowIn(e).Host
	}
}

// Leaving names the hosts that have not yet said that what was given back there is over.
func (b *Book) Leaving() map[string]bool {
	hosts := map[string]bool{}
	for _, host := range b.leaving {
		hosts[host] = true
	}
	return hosts
}

// End forgets what its host has said is over.
func (b *Book) End(id string) {
	if e := b.byID[id]; e != nil {
		b.remove(e)
	}
}

// Get returns the row of a key.
func (b *Book) Get(consumer, key string) (pool.Row, bool) {
	return copyOf(b.byKey[owner{consumer, key}])
}

// ByID returns the row of an id.
func (b *Book) ByID(id string) (pool.Row, bool) { return copyOf(b.byID[id]) }

func copyOf(e *list.Element) (pool.Row, bool) {
	if e == nil {
		return pool.Row{}, false
	}
	return *rowIn(e), true
}

// Each calls f with every row, the oldest first.
func (b *Book) Each(f func(*pool.Row)) {
	for e := b.rows.Front(); e != nil; e = e.Next() {
		f(rowIn(e))
	}
}

// CompareBook judges what a host holds, and alone records, by this replica's book: a sandbox
// whose key was placed elsewhere behind its host's silence is superseded, and what its caller
// gave back is to be let go of. Of what another replica placed it says nothing.
func (b *Book) CompareBook(held host.Ref, whose host.Identity) Mismatch {
	row, known := b.Get(whose.Consumer, whose.Key)
	switch {
	case !known || whose.Key == "":
		return Agreed
	case row.ID == held.ID && row.State == pool.Releasing:
		return Unreleased
	case row.ID == held.ID || row.State == pool.Placing || row.ID == "":
		return Agreed
	}
	return Superseded
}

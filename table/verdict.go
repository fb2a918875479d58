package table

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Intake is the word that stands beside a host's admittable.
type Intake uint8

const (
	Open          Intake = iota
	UnderPressure        // shut by the valve; opens by itself
	IsCordoned           // shut by an operator
	IsDraining           // shut for good; what was placed there moves
)

// String returns the word of the wire.
func (i Intake) String() string {
	return [...]string{"open", "pressure", "cordoned", "draining"}[min(i, IsDraining)]
}

// Verdict is a host's whole word, in absolute values: the highest stamp wins, so that gaps
// and reordering need nothing.
type Verdict struct {
	Host        string
	Incarnation int64 // from the store's sequence, at registration
	Sequence    int64 // within the incarnation

	Admittable    gate.Bytes // to others than the waiter that memory is set aside for
	Standing      bool       // it is set aside for one
	Free          gate.Bytes // for the score: net of charges and reservations
	Limit         gate.Bytes // the smallest limit
	MaxAsk        gate.Bytes // the largest need that could ever fit: the smallest limit − headroom
	CPUFreeMilli  int64      // for the score: net likewise; below zero where cpu is overcommitted
	Intake        Intake
	Mode          gate.Mode
	StreamRestore bool

	Labels []gate.Label
	Dims   []gate.Dim // free amounts of the hard dimensions
	Limits []gate.Dim // their sizes, where known
}

// The bounds of a number that can be true: beyond them a score could overflow.
const (
	maxMemory   = gate.Bytes(1) << 50
	maxCPUMilli = 1 << 30
	maxDim      = int64(1) << 53
)

const mostNames = 1024 // of dimensions that are kept once for all hosts

// check refuses a report that cannot be true. A nonsense value often makes the best score.
func (v *Verdict) check() error {
	switch {
	case v.Limit <= 0 || v.Limit > maxMemory:
		return fmt.Errorf("table: host %q: limit %v", v.Host, v.Limit)
	case v.Admittable < 0 || v.Admittable > v.Limit:
		return fmt.Errorf("table: host %q: admittable %v of a limit of %v", v.Host, v.Admittable, v.Limit)
	case v.Free < 0 || v.Free > v.Limit:
		return fmt.Errorf("table: host %q: free %v of a limit of %v", v.Host, v.Free, v.Limit)
	case v.MaxAsk < 0 || v.MaxAsk > v.Limit:
		return fmt.Errorf("table: host %q: largest ask %v of a limit of %v", v.Host, v.MaxAsk, v.Limit)
	case v.CPUFreeMilli < -maxCPUMilli || v.CPUFreeMilli > maxCPUMilli:
		return fmt.Errorf("table: host %q: free cpu %d m", v.Host, v.CPUFreeMilli)
	case v.Intake > IsDraining || v.Mode > gate.Committed:
		return fmt.Errorf("table: host %q: intake %d, mode %d", v.Host, v.Intake, v.Mode)
	}
	for _, d := range v.Dims {
		if d.N < 0 || d.N > maxDim {
			return fmt.Errorf("table: host %q: dimension %s %d", v.Host, d.Name, d.N)
		}
	}
	return nil
}

// Observe takes a host's word, received at an instant of the owner's clock. It answers false
// for a stamp that is not newer than the last. A report that cannot be true is an error; its
// host is no candidate until a true one comes.
func (t *Table) Observe(v *Verdict, receivedAt time.Duration) (bool, error) {
	if v.Host == "" {
		t.stats.Invalid++
		return false, errors.New("table: a report without a host")
	}
	i, known := t.byID[v.Host]
	if !known {
		i = t.add(v.Host)
	}
	l := &t.rests[i]
	newer := cmp.Or(cmp.Compare(v.Incarnation, l.incarnation), cmp.Compare(v.Sequence, l.sequence))
	if l.heard && newer <= 0 && !(newer == 0 && l.muted) { // what it says again on a new connection is its newest word
		if newer == 0 {
			l.spokeAt = max(l.spokeAt, receivedAt) // it was asked, and has nothing new to say
		}
		t.stats.Ignored++
		return false, nil
	}
	if v.Incarnation > l.incarnation {
		delete(t.records, i) // another life of the agent: it starts anew
	}
	l.incarnation, l.sequence = v.Incarnation, v.Sequence
	err := v.check()
	if err == nil {
		t.take(i, v)
		t.stats.Taken++
	} else {
		t.stats.Invalid++
	}
	t.unindex(i)
	if err == nil {
		t.join(i, v.Labels)
	}
	t.heardFrom(i, receivedAt, standingOf(l.strictest(), err))
	return err == nil, err
}

func standingOf(i Intake, invalid error) Reason {
	if invalid != nil {
		return Invalid
	}
	return [...]Reason{Open: Candidate, UnderPressure: Pressure, IsCordoned: Cordoned, IsDraining: Draining}[i]
}

// take copies the amounts, in memory the host already has.
func (t *Table) take(i int32, v *Verdict) {
	h, l := &t.hosts[i], &t.rests[i]
	l.intake, l.setAside, l.maxAsk = v.Intake, v.Standing, v.MaxAsk
	l.limits = append(l.limits[:0], v.Limits...)
	h.mode, h.stream, h.cpuFree = v.Mode, v.StreamRestore, int32(v.CPUFreeMilli)
	h.admittable, h.free = int32(v.Admittable.FloorMiB()), int32(v.Free.FloorMiB())
	if !h.declares(v.Dims) {
		h.declare(len(v.Dims))
		for k, d := range v.Dims {
			h.dims()[k].name = t.nameOf(d.Name)
		}
		t.recountDims(i)
	}
	for k, d := range v.Dims {
		h.dims()[k].free = d.N
		t.slotted = t.slotted || d.Name == gate.SandboxDim
	}
}

// nameOf returns the one string that all hosts name a dimension by: it stays in the cache.
func (t *Table) nameOf(dim string) string {
	name, known := t.names[dim]
	if !known {
		if name = strings.Clone(dim); len(t.names) < mostNames {
			t.names[name] = name
		}
	}
	return name
}

// declares says whether a host's dimensions are these, in this order, as they nearly always are.
func (h *host) declares(dims []gate.Dim) bool {
	return slices.EqualFunc(h.dims(), dims, func(a dim, b gate.Dim) bool { return a.name == b.Name })
}

// heardFrom gives a host its standing and its place in the order of receipt.
func (t *Table) heardFrom(i int32, at time.Duration, standing Reason) {
	l := &t.rests[i]
	l.heard, l.muted, l.spokeAt = true, false, max(l.spokeAt, at)
	t.stand(i, standing)
	t.unlink(i)
	t.link(i, at)
	t.reindex(i)
	t.advance(max(at, t.now))
}

// stand gives a host the standing that its word makes.
func (t *Table) stand(i int32, word Reason) {
	t.rests[i].word = word
	t.restand(i)
}

// link puts a host into the order of receipt, searched from its newest end: words of different
// streams may reach the owner a little out of order.
func (t *Table) link(i int32, at time.Duration) {
	l, after := &t.rests[i], t.newest
	for after != none && t.rests[after].receivedAt > at {
		after = t.rests[after].prev
	}
	l.receivedAt, l.prev, l.next = at, after, t.oldest
	if after != none {
		l.next = t.rests[after].next
		t.rests[after].next = i
	} else {
		t.oldest = i
	}
	if l.next != none {
		t.rests[l.next].prev = i
	} else {
		t.newest = i
	}
}

func (t *Table) unlink(i int32) {
	l := &t.rests[i]
	if l.prev == none && l.next == none && t.oldest != i {
		return
	}
	if l.prev != none {
		t.rests[l.prev].next = l.next
	} else {
		t.oldest = l.next
	}
	if l.next != none {
		t.rests[l.next].prev = l.prev
	} else {
		t.newest = l.prev
	}
	l.prev, l.next = none, none
}

// advance takes the owner's now and lets every host fall silent whose word is too old. What a
// silent host last said makes it look ever better beside the living, so it is out at once.
func (t *Table) advance(now time.Duration) {
	t.now = max(t.now, now)
	t.trials()
	t.cohorts.expire(t.now)
	for t.oldest != none && t.now-t.rests[t.oldest].receivedAt >= t.opts.Silent {
		i := t.oldest
		t.unlink(i)
		t.unindex(i)
		t.stand(i, Silent)
	}
}

func sortedLabels(labels []gate.Label) []gate.Label {
	out := slices.Clone(labels)
	slices.SortFunc(out, func(a, b gate.Label) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Value, b.Value))
	})
	return out
}

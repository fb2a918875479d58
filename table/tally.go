package table

import (
	"cmp"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Reason is why a host is not asked. A host counts under the first that holds.
type Reason uint8

const (
	Candidate Reason = iota // it is not refused
	Unheard                 // not heard since this replica started
	Silent                  // its newest word is too old
	Invalid                 // its newest word cannot be true
	Draining
	Cordoned
	Pressure    // its valve is shut
	Quarantined // it did not do what it promised
	Excluded    // the caller asked to leave it out
	Labels      // it does not carry what the ask wants
	NoRoom      // too little memory
	Dimension   // too little of a hard dimension, which is named

	reasons = iota
)

var reasonWords = [reasons]string{
	"candidate", "unheard", "silent", "invalid", "draining", "cordoned",
	"pressure", "quarantined", "excluded", "labels", "no_room", "dimension",
}

// String returns the word of logs, metrics and bodies.
func (r Reason) String() string { return reasonWords[min(int(r), reasons-1)] }

// Tally is a refusal's why: how many hosts, and which, for each reason. The command line, the
// log, the metric, the body and explain all read this one value.
type Tally struct {
	Hosts  int // registered, or 1 where one was required
	Counts [reasons]int
	IDs    [reasons][]string // the first few of each
	Dims   []DimTally        // Counts[Dimension], by the dimension's name
}

// DimTally counts the hosts that one dimension refused.
type DimTally struct {
	Name  string
	Count int
	IDs   []string
}

// Only says whether one reason alone refused everywhere, and somewhere.
func (y *Tally) Only(r Reason) bool { return y.Counts[r] > 0 && y.Counts[r] == y.Hosts }

// Heard counts the hosts that are not dead air: what "no healthy agents" is not.
func (y *Tally) Heard() int {
	return y.Hosts - y.Counts[Unheard] - y.Counts[Silent] - y.Counts[Invalid]
}

// Map returns the counts above zero by word; a dimension's is "dimension:" and its name.
func (y *Tally) Map() map[string]int {
	m := map[string]int{}
	for r, n := range y.Counts {
		if n > 0 && Reason(r) != Dimension {
			m[Reason(r).String()] = n
		}
	}
	for _, d := range y.Dims {
		m[Dimension.String()+":"+d.Name] = d.Count
	}
	return m
}

// Explain counts every host by why it is not asked, with up to ids ids for each reason. Where
// no id is wanted and the ask is of memory alone it reads a few counters; else all hosts.
func (t *Table) Explain(now time.Duration, a *gate.Ask, o *PickOptions, ids int) Tally {
	t.advance(now)
	q := query{ask: a, opts: o, lenient: o.Gross}
	t.prepare(&q)
	if o.Require != "" {
		var y Tally
		if i, ok := t.byID[o.Require]; ok {
			t.tell(&y, i, &q, ids)
		}
		return y
	}
	if ids == 0 && len(a.Labels) == 0 && len(a.Dims) == 0 && len(o.Exclude) == 0 && !t.slotted && !o.Gross && t.search(&q) == none {
		y := Tally{Hosts: len(t.byID), Counts: t.counts}
		y.Counts[NoRoom], y.Counts[Candidate] = t.counts[Candidate], 0
		return y
	}
	var y Tally
	for i := range t.hosts {
		if t.hosts[i].live() {
			t.tell(&y, int32(i), &q, ids)
		}
	}
	slices.SortFunc(y.Dims, func(a, b DimTally) int { return cmp.Compare(a.Name, b.Name) })
	return y
}

// tell adds one host to the tally.
func (t *Table) tell(y *Tally, i int32, q *query, ids int) {
	why, name := t.judge(i, q)
	id := t.hosts[i].id
	y.Hosts++
	y.Counts[why]++
	if len(y.IDs[why]) < ids {
		y.IDs[why] = append(y.IDs[why], id)
	}
	if why != Dimension {
		return
	}
	k := slices.IndexFunc(y.Dims, func(d DimTally) bool { return d.Name == name })
	if k < 0 {
		k, y.Dims = len(y.Dims), append(y.Dims, DimTally{Name: name})
	}
	y.Dims[k].Count++
	if len(y.Dims[k].IDs) < ids {
		y.Dims[k].IDs = append(y.Dims[k].IDs, id)
	}
}

// Feasible says whether some registered host could ever take the ask, were it empty: silent,
// cordoned and unheard ones too. What no host is known to lack is not refused for ever. An
// empty table answers false; Len tells that from a refusal.
func (t *Table) Feasible(a *gate.Ask) bool {
	for i := range t.hosts {
		if t.hosts[i].live() && t.couldTake(int32(i), a) {
			return true
		}
	}
	return false
}

func (t *Table) couldTake(i int32, a *gate.Ask) bool {
	l, need := &t.rests[i], a.NeedOn(t.hosts[i].mode)
	if a.Memory < 0 || need < 0 || need > l.maxAsk || !carries(l.labels, a.Labels) {
		return false
	}
	for _, want := range a.Dims {
		if want.N < 0 || want.N > t.most(i, want.Name) {
			return false
		}
	}
	for _, size := range l.limits {
		if a.Takes(size.Name) > size.N { // of sandbox slots every ask takes one
			return false
		}
	}
	return true
}

// most is the size of a host's dimension; one that is declared without a size has no bound here.
func (t *Table) most(i int32, name string) int64 {
	for _, d := range t.rests[i].limits {
		if d.Name == name {
			return d.N
		}
	}
	if slices.ContainsFunc(t.hosts[i].dims(), func(d dim) bool { return d.name == name }) {
		return maxDim
	}
	return 0
}

// Promising appends up to n hosts to dst that are heard, open and labelled for the ask, in
// quarantine or not, those with the most room first: whom to ask before a refusal leaves, since their newest word may
// not have arrived yet.
func (t *Table) Promising(now time.Duration, a *gate.Ask, o *PickOptions, dst []Choice, n int) []Choice {
	t.advance(now)
	q, start := query{ask: a, opts: o, lenient: true}, len(dst)
	t.prepare(&q)
	for i := range t.hosts {
		if !t.hosts[i].live() {
			continue
		}
		if why, _ := t.judge(int32(i), &q); why == Candidate || why >= NoRoom {
			dst = t.insert(dst, start, int32(i), n, &q)
		}
	}
	return dst
}

// insert keeps dst[start:] the n hosts with the most room, in order.
func (t *Table) insert(dst []Choice, start int, i int32, n int, q *query) []Choice {
	room := t.hosts[i].room()
	k := len(dst)
	for k > start && t.hosts[dst[k-1].Ref.index].room() < room {
		k--
	}
	if k-start >= n {
		return dst
	}
	if len(dst)-start == n {
		dst = dst[:len(dst)-1]
	}
	return slices.Insert(dst, k, t.choice(i, q))
}

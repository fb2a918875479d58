package table

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// scan is the slow, obvious table: every pick looks at every host. The index must answer as it does.
type scan struct {
	opts    Options
	now     time.Duration
	words   map[string]word // host id -> its newest word
	charges map[Charge]open // of the table under test

	placed   []placedAt // of cohorts
	perHost  int        // of a cohort, within the window; 0: no rule
	window   time.Duration
	trusted  func(string) bool // not in quarantine
	askable  func(string, PickOptions) bool
	replicas int               // that are up
	own      func(string) bool // of the share, by its own test
}

type word struct {
	Verdict
	at    time.Duration
	valid bool
}

type open struct {
	host   string
	ask    gate.Ask
	mode   gate.Mode
	cohort Cohort
}

type placedAt struct {
	host   string
	cohort Cohort
	at     time.Duration
}

func newScan(o Options) *scan {
	return &scan{opts: o.withDefaults(), words: map[string]word{}, charges: map[Charge]open{}}
}

func (s *scan) observe(v Verdict, at time.Duration) {
	s.now = max(s.now, at)
	old, heard := s.words[v.Host]
	if heard && (v.Incarnation < old.Incarnation || v.Incarnation == old.Incarnation && v.Sequence <= old.Sequence) {
		return
	}
	valid := v.Limit > 0 && v.Admittable >= 0 && v.Admittable <= v.Limit && v.Free >= 0 && v.Free <= v.Limit
	s.words[v.Host] = word{v, at, valid}
}

// left returns what a host has beyond this replica's charges.
func (s *scan) left(w word) (mem, free gate.Bytes, cpu int64, dims map[string]int64) {
	mem, free, cpu, dims = w.Admittable, w.Free, w.CPUFreeMilli, map[string]int64{}
	for _, d := range w.Dims {
		dims[d.Name] = d.N
	}
	for _, c := range s.charges {
		if c.host == w.Host {
			need := gate.Need(c.ask, c.mode)
			mem, free, cpu = mem-need, free-need, cpu-c.ask.CPUMilli
			for _, d := range w.Dims {
				dims[d.Name] -= c.ask.Takes(d.Name)
			}
		}
	}
	return mem, free, cpu, dims
}

func (s *scan) candidate(w word) bool {
	return s.open(w) && s.trusted(w.Host)
}

func (s *scan) open(w word) bool {
	return w.valid && w.Intake == Open && s.now-w.at < s.opts.Silent
}

// hasShare says whether a host has its share of a cohort by what was placed and is being asked.
func (s *scan) hasShare(host string, c Cohort) bool {
	n := 0
	for _, p := range s.placed {
		if p.host == host && p.cohort == c && s.now-p.at < s.window {
			n++
		}
	}
	for _, o := range s.charges {
		if o.host == host && o.cohort == c {
			n++
		}
	}
	return c != 0 && s.perHost > 0 && n >= s.perHost
}

func (s *scan) labelled(w word, a gate.Ask) bool {
	return !slices.ContainsFunc(a.Labels, func(l gate.Label) bool { return !slices.Contains(w.Labels, l) })
}

func (s *scan) fits(w word, a gate.Ask, o PickOptions) bool {
	mem, _, _, dims := s.left(w)
	ok := s.candidate(w) && s.labelled(w, a) && mem >= gate.Need(a, w.Mode) &&
		!slices.Contains(o.Exclude, w.Host) && (o.Require == "" || o.Require == w.Host)
	for _, d := range a.Dims {
		declared := slices.ContainsFunc(w.Dims, func(x gate.Dim) bool { return x.Name == d.Name })
		ok = ok && (d.N == 0 || declared && dims[d.Name] >= d.N)
	}
	for _, d := range w.Dims { // every sandbox takes a slot, where a host declares slots
		ok = ok && (d.Name != gate.SandboxDim || dims[d.Name] >= a.Takes(d.Name))
	}
	return ok
}

// could says whether a host that was heard and is open could hold an ask, were it empty.
func (s *scan) could(w word, a gate.Ask) bool {
	ok := s.candidate(w) && s.labelled(w, a) && gate.Need(a, w.Mode) <= w.MaxAsk
	for _, name := range dimNames {
		is := func(d gate.Dim) bool { return d.Name == name }
		size := slices.IndexFunc(w.Limits, is)
		switch {
		case size >= 0:
			ok = ok && a.Takes(name) <= w.Limits[size].N
		case !slices.ContainsFunc(w.Dims, is):
			ok = ok && !slices.ContainsFunc(a.Dims, func(d gate.Dim) bool { return d.Name == name && d.N > 0 })
		}
	}
	return ok
}

// stands returns the hosts that may be asked to set memory aside.
func (s *scan) stands(now time.Duration, a gate.Ask, prefer string) (ids []string) {
	s.now = max(s.now, now)
	if w, known := s.words[prefer]; known && s.could(w, a) {
		return []string{prefer}
	}
	var most gate.Bytes
	for id, w := range s.words {
		if w.Standing || !s.could(w, a) {
			continue
		}
		room, _, _, _ := s.left(w)
		room = max(room, -gate.MiB) // as far below as the index looks
		if ids == nil || room.FloorMiB() > most.FloorMiB() {
			ids, most = nil, room
		}
		if room.FloorMiB() == most.FloorMiB() {
			ids = append(ids, id)
		}
	}
	return ids
}

// bucket counts what is under way once for each replica that is up, to spread.
func (s *scan) bucket(w word) int64 {
	_, free, cpu, _ := s.left(w)
	if s.opts.Strategy == Spread {
		for range s.replicas - 1 {
			free, cpu = free-(w.Free-s.freeOf(w)), cpu-(w.CPUFreeMilli-s.cpuOf(w))
		}
	}
	score, width := gate.Score(s.opts.Weights, cpu, free, w.StreamRestore), s.opts.BucketWidth
	if score < 0 {
		width *= 4
	}
	b := int64(s.opts.Buckets/4) + int64(math.Floor(float64(score)/float64(width)))
	b = min(max(b, 0), int64(s.opts.Buckets)-1)
	if s.opts.Strategy == Pack {
		return -b
	}
	return b
}

func (s *scan) freeOf(w word) gate.Bytes { _, free, _, _ := s.left(w); return free }

func (s *scan) cpuOf(w word) int64 { _, _, cpu, _ := s.left(w); return cpu }

// best returns the hosts that may be picked: the best of the own share if no other is much
// better, or else all of the best bucket. Hosts with their
// share of the cohort do not count while there are others.
func (s *scan) best(now time.Duration, a gate.Ask, o PickOptions) []string {
	s.now = max(s.now, now)
	if o.Gross {
		return s.last(a, o)
	}
	for _, c := range []Cohort{o.Cohort, 0} {
		if o.Require != "" {
			c = 0
		}
		if w, ok := s.words[o.Prefer]; ok && s.fits(w, a, o) && !s.hasShare(o.Prefer, c) {
			return []string{o.Prefer}
		}
		levels := map[int64][]string{} // bucket -> hosts that fit
		for id, w := range s.words {
			if s.fits(w, a, o) && !s.hasShare(id, c) {
				levels[s.bucket(w)] = append(levels[s.bucket(w)], id)
			}
		}
		order := slices.Sorted(maps.Keys(levels))
		slices.Reverse(order)
		if own := s.ownFirst(order, levels, a); own != nil {
			return own
		}
		if len(order) > 0 {
			return levels[order[0]]
		}
	}
	return nil
}

// last returns the hosts that may be picked before a refusal: those with the most room by their
// own word, those in quarantine when no other fits.
func (s *scan) last(a gate.Ask, o PickOptions) (ids []string) {
	charges, trusted := s.charges, s.trusted
	defer func() { s.charges, s.trusted = charges, trusted }()
	s.charges = nil
	for range 2 {
		if w, ok := s.words[o.Prefer]; ok && s.fits(w, a, o) {
			return []string{o.Prefer}
		}
		var most int64
		for id, w := range s.words {
			room := s.net(w, charges).FloorMiB()
			if !s.fits(w, a, o) || ids != nil && room < most {
				continue
			}
			if ids == nil || room > most {
				ids, most = nil, room
			}
			ids = append(ids, id)
		}
		if ids != nil {
			return ids
		}
		s.trusted = func(id string) bool { return trusted(id) || s.askable(id, o) }
	}
	return nil
}

// net is the room of a host net of charges, as far below zero as the index looks.
func (s *scan) net(w word, charges map[Charge]open) gate.Bytes {
	left := w.Admittable
	for _, c := range charges {
		if c.host == w.Host {
			left -= gate.Need(c.ask, c.mode)
		}
	}
	return max(left, -gate.MiB)
}

// ownFirst returns the best of the own share if no other's host is better by more than a bucket
// and what the ask takes.
func (s *scan) ownFirst(order []int64, levels map[int64][]string, a gate.Ask) []string {
	if s.replicas < 2 {
		return nil
	}
	a.CPUMilli = max(a.CPUMilli, 0)
	takes := gate.Score(s.opts.Weights, a.CPUMilli, gate.FromMiB(gate.Need(a, s.least(a)).CeilMiB()), false)
	for _, b := range order {
		own := slices.DeleteFunc(slices.Clone(levels[b]), func(id string) bool { return !s.own(id) })
		if len(own) > 0 && order[0]-b <= 1+takes/s.opts.BucketWidth {
			return own
		}
		if len(own) > 0 {
			return nil
		}
	}
	return nil
}

// least is the mode in which an ask takes least.
func (s *scan) least(a gate.Ask) gate.Mode {
	if a.Stateful {
		return gate.Committed
	}
	return gate.WorkingSet
}

// tape turns fuzzed bytes into choices; an exhausted tape answers zero.
type tape []byte

func (p *tape) n(below int) int {
	if len(*p) == 0 {
		return 0
	}
	b := (*p)[0]
	*p = (*p)[1:]
	return int(b) % below
}

// rig runs the two tables side by side.
type rig struct {
	t       testing.TB
	table   *Table
	scan    *scan
	now     time.Duration
	seq     int64
	charges []Charge
}

func newRig(t testing.TB, o Options) *rig {
	r := &rig{t: t, table: New(o), scan: newScan(o)}
	r.scan.own = func(id string) bool { return r.table.rests[r.table.byID[id]].own }
	r.scan.trusted = func(id string) bool { c, _ := r.table.Quarantined(id, r.now); return c == Trusted }
	r.scan.askable = func(id string, o PickOptions) bool {
		i, ok := r.table.byID[id]
		return ok && r.table.askable(i, &query{lenient: true, opts: &o})
	}
	return r
}

var (
	zones    = []gate.Label{{Name: "zone", Value: "a"}, {Name: "zone", Value: "b"}, {Name: "gpu", Value: "yes"}}
	dimNames = []string{"disk", "gpus", "hugepages", gate.SandboxDim}
)

func (r *rig) verdict(p *tape) Verdict {
	r.seq++
	v := Verdict{
		Host: fmt.Sprintf("h%d", p.n(9)), Incarnation: int64(p.n(2)), Sequence: r.seq - int64(p.n(3)),
		Limit: 64 * gate.GiB, MaxAsk: 60 * gate.GiB, CPUFreeMilli: int64(p.n(20)) * 700,
		Admittable: gate.Bytes(p.n(12)) * 700 * gate.MiB, Free: gate.Bytes(p.n(12)) * gate.GiB,
		StreamRestore: p.n(2) == 1, Mode: gate.Mode(p.n(2)), Standing: p.n(3) == 1,
	}
	switch p.n(12) {
	case 0:
		v.Intake = Intake(p.n(4))
	case 1:
		v.Admittable = -1
	case 2:
		v.Labels = append(v.Labels, zones[p.n(3)])
	case 3:
		v.Labels = append(v.Labels, zones[2], zones[p.n(2)])
	case 4, 5:
		v.Dims = p.dims(4)
		if size := int64(p.n(5)); size > 0 {
			v.Limits = []gate.Dim{{Name: v.Dims[0].Name, N: v.Dims[0].N + size - 1}}
		}
	}
	return v
}

// dims draws one dimension, or some of all of them: a host with many keeps them elsewhere.
func (p *tape) dims(below int) []gate.Dim {
	first := p.n(len(dimNames))
	dims := []gate.Dim{{Name: dimNames[first], N: int64(p.n(below))}}
	if p.n(3) > 0 {
		return dims
	}
	for _, name := range dimNames[first+1:] {
		dims = append(dims, gate.Dim{Name: name, N: int64(p.n(below))})
	}
	return dims
}

func (r *rig) ask(p *tape) (gate.Ask, PickOptions) {
	a := gate.Ask{Memory: gate.Bytes(p.n(9)) * 900 * gate.MiB, CPUMilli: int64(p.n(3)) * 500, Stateful: p.n(3) == 0, Rule: gate.DefaultReserveRule()}
	o := PickOptions{Rand: uint64(p.n(256)), Cohort: Cohort(p.n(3)), Gross: p.n(6) == 5, HeardSince: r.now - time.Duration(p.n(4))*time.Second}
	switch p.n(10) {
	case 0:
		a.Labels = zones[:1]
	case 1:
		a.Dims = p.dims(3)
	case 2:
		o.Exclude = []string{fmt.Sprintf("h%d", p.n(9)), "h1", "h2"}
	case 3:
		o.Require = fmt.Sprintf("h%d", p.n(10))
	case 4:
		o.Prefer = fmt.Sprintf("h%d", p.n(10))
	}
	return a, o
}

// step does one thing to both tables and compares.
func (r *rig) step(p *tape) {
	r.t.Helper()
	switch p.n(10) {
	case 8:
		r.trouble(p)
	case 9:
		if p.n(8) == 0 {
			r.scan.perHost, r.scan.window = p.n(4), time.Duration(p.n(40))*time.Second
			r.table.SetCohortRule(r.scan.perHost, r.scan.window)
			r.forgetPlaced()
			break
		}
		r.place(p)
	case 0, 1, 2:
		v := r.verdict(p)
		at := max(r.now-time.Duration(p.n(3))*time.Second, 0)
		r.table.Observe(&v, at)
		r.scan.observe(v, at)
	case 3:
		r.now += time.Duration(p.n(40)) * 500 * time.Millisecond
	case 4:
		if len(r.charges) > 0 {
			r.uncharge(p.n(len(r.charges)))
		}
	case 5:
		if p.n(3) == 0 {
			r.replicas(p.n(4))
			break
		}
		r.forget(fmt.Sprintf("h%d", p.n(9)))
	case 6:
		a, o := r.ask(p)
		r.pickStand(a, o.Prefer+o.Require)
	default:
		a, o := r.ask(p)
		r.pick(a, o, p.n(2) == 0)
	}
	if err := r.table.CheckInvariants(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) pickStand(a gate.Ask, prefer string) {
	r.t.Helper()
	want := r.scan.stands(r.now, a, prefer)
	got, ok := r.table.PickStand(&a, prefer, r.now)
	if ok != (len(want) > 0) || ok && !slices.Contains(want, got) {
		r.t.Fatalf("memory set aside at %q, %v; the scan says one of %v", got, ok, want)
	}
	for id, w := range r.scan.words {
		if got, want := r.table.Eligible(id, &a, r.now), r.scan.could(w, a); got != want {
			r.t.Fatalf("host %q is eligible: %v; the scan says %v", id, got, want)
		}
	}
}

func (r *rig) pick(a gate.Ask, o PickOptions, charge bool) {
	r.t.Helper()
	want := r.scan.best(r.now, a, o)
	got, ok := r.table.Pick(r.now, &a, &o)
	if ok != (len(want) > 0) || ok && !slices.Contains(want, got.Host) {
		r.t.Fatalf("picked %q, %v; the scan says one of %v", got.Host, ok, want)
	}
	r.explain(a, o, ok)
	if ok && charge {
		c := r.table.Charge(got.Ref, &a, o.Cohort)
		r.charges = append(r.charges, c)
		r.scan.charges[c] = open{host: got.Host, ask: a, mode: r.scan.words[got.Host].Mode, cohort: o.Cohort}
	}
}

// explain compares the quick tally with the full one, and both with the pick.
func (r *rig) explain(a gate.Ask, o PickOptions, picked bool) {
	r.t.Helper()
	quick, full := r.table.Explain(r.now, &a, &o, 0), r.table.Explain(r.now, &a, &o, 100)
	if quick.Counts != full.Counts || quick.Hosts != full.Hosts {
		r.t.Fatalf("quick tally %v, full %v", quick, full)
	}
	if (full.Counts[Candidate] > 0) != picked {
		r.t.Fatalf("picked %v, tally %v", picked, full)
	}
	named := 0
	for _, d := range full.Dims {
		named += len(d.IDs)
	}
	if named != full.Counts[Dimension] {
		r.t.Fatalf("%d hosts named for %d refused by a dimension", named, full.Counts[Dimension])
	}
}

// trouble says that a host did or did not do what it promised.
func (r *rig) trouble(p *tape) {
	ref, _ := r.table.Lookup(fmt.Sprintf("h%d", p.n(9)))
	say := []func(Ref, time.Duration){r.table.Unanswered, r.table.Unanswered, r.table.Answered, r.table.BootFailed, r.table.Booted}[p.n(5)]
	for range 1 + p.n(8) {
		say(ref, r.now)
	}
	r.scan.now = max(r.scan.now, r.now)
}

// place turns a charge into a placement of its cohort.
func (r *rig) place(p *tape) {
	if len(r.charges) == 0 {
		return
	}
	i := p.n(len(r.charges))
	c := r.charges[i]
	r.table.Place(c, r.now)
	r.scan.now = max(r.scan.now, r.now)
	if o := r.scan.charges[c]; r.scan.perHost > 0 {
		r.scan.placed = append(r.scan.placed, placedAt{o.host, o.cohort, r.scan.now})
	}
	r.uncharge(i)
}

// forgetPlaced drops what a former rule has let go of.
func (r *rig) forgetPlaced() {
	s := r.scan
	s.now = max(s.now, r.now)
	s.placed = slices.DeleteFunc(s.placed, func(p placedAt) bool { return s.perHost == 0 || s.now-p.at >= s.window })
}

func (r *rig) uncharge(i int) {
	c := r.charges[i]
	r.charges = slices.Delete(r.charges, i, i+1)
	if !r.table.Uncharge(c) || r.table.Uncharge(c) {
		r.t.Fatal("a charge must end exactly once")
	}
	delete(r.scan.charges, c)
}

// replicas says that so many others are up, besides the own.
func (r *rig) replicas(others int) {
	r.table.SetReplicas("r1", []string{"r1", "r2", "r3", "r4"}[:others+1])
	r.scan.replicas = others + 1
}

func (r *rig) forget(id string) {
	r.table.Forget(id)
	delete(r.scan.words, id)
	for c, o := range r.scan.charges {
		if o.host == id {
			o.host = "gone" // what comes under this name later is another host
			r.scan.charges[c] = o
		}
	}
	for i := range r.scan.placed {
		if r.scan.placed[i].host == id {
			r.scan.placed[i].host = "gone"
		}
	}
}

func FuzzPickEqualsScan(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 10, 5, 9, 0, 0, 9, 0, 6, 2, 0, 1, 1, 9, 0})
	f.Add([]byte{0, 1, 0, 0, 10, 5, 9, 0, 1, 4, 1, 2, 0, 7, 2, 0, 1, 1, 1, 1, 1, 0})
	f.Add([]byte{1, 2, 1, 1, 5, 11, 11, 1, 0, 3, 1, 2, 3, 39, 3, 39, 7, 1, 1, 1, 1, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		p := tape(data)
		r := newRig(t, Options{Strategy: Strategy(p.n(2)), Buckets: 64, groups: 5 + p.n(2)*20})
		for len(p) > 0 {
			r.step(&p)
		}
	})
}

// TestPickEqualsScan runs the fuzz target on long random tapes: both strategies, thousands of steps.
func TestPickEqualsScan(t *testing.T) {
	for seed := range uint64(24) {
		q := query{rand: seed}
		p := make(tape, 4000)
		for i := range p {
			p[i] = byte(q.next())
		}
		r := newRig(t, Options{Strategy: Strategy(seed % 2), BucketWidth: int64(1+seed%3) * 300, Buckets: 32, groups: 5 + int(seed%4)*10})
		for len(p) > 0 {
			r.step(&p)
		}
	}
}

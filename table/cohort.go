package table

import "time"

// Cohort names the sandboxes of one tenant and template; zero names none. Those started within
// one window peak together, so that a host with many of them is full at once however little
// each was charged: the rule keeps at most so many of a cohort on a host while others fit. It
// yields before a refusal.
//
// The counts are of this replica alone: its placements within the window, and its reserves
// without an answer. With n replicas a host may so be given n times as many; since each takes
// its own share of the hosts first, it seldom is. The state is bounded: beyond the last 65,536
// placements the oldest are forgotten before their time.
type Cohort uint64

// CohortOf is the cohort of a tenant and a template.
func CohortOf(tenant, template string) Cohort {
	c := mix(hash(tenant)) ^ hash(template)
	return Cohort(max(c, 1))
}

const (
	mostPlacements = 1 << 16
	mostLooks      = 512 // hosts with their share of a cohort that one pick looks past
)

// cohorts counts what was placed lately.
type cohorts struct {
	perHost int32 // 0: no rule
	window  time.Duration
	at      map[placeOf]int32 // cohort and host -> placements within the window, and open charges
	full    map[Cohort]int32  // cohort -> hosts that have their share of it
	ring    []placement       // placements by their time, from head on
	head    int
	n       int
}

type placeOf struct {
	cohort Cohort
	host   Ref
}

type placement struct {
	placeOf
	at time.Duration
}

// SetCohortRule puts at most perHost placements of one cohort within a window on a host; zero
// switches the rule off.
func (t *Table) SetCohortRule(perHost int, window time.Duration) {
	c := &t.cohorts
	if int(c.perHost) == perHost && c.window == window {
		return
	}
	c.perHost, c.window = int32(max(perHost, 0)), max(window, 0)
	clear(c.full)
	for p, n := range c.at {
		if c.perHost > 0 && n >= c.perHost {
			c.full[p.cohort]++
		}
	}
	c.expire(t.now)
}

// add counts one more, or one less, of a cohort on a host.
func (c *cohorts) add(p placeOf, n int32) {
	if p.cohort == 0 {
		return
	}
	was := c.at[p]
	now := was + n
	if c.at[p] = now; now <= 0 {
		delete(c.at, p)
	}
	if c.perHost == 0 || (was >= c.perHost) == (now >= c.perHost) {
		return
	}
	if c.full[p.cohort] += n; c.full[p.cohort] <= 0 {
		delete(c.full, p.cohort)
	}
}

// place remembers a placement for a window.
func (c *cohorts) place(p placeOf, now time.Duration) {
	if p.cohort == 0 || c.perHost == 0 {
		return
	}
	if c.n == mostPlacements {
		c.forgetOldest()
	}
	if c.n == len(c.ring) {
		c.grow()
	}
	c.ring[(c.head+c.n)%len(c.ring)] = placement{p, now}
	c.n++
	c.add(p, 1)
	c.expire(now)
}

func (c *cohorts) grow() {
	ring := make([]placement, max(2*len(c.ring), 64))
	for i := range c.n {
		ring[i] = c.ring[(c.head+i)%len(c.ring)]
	}
	c.ring, c.head = ring, 0
}

func (c *cohorts) forgetOldest() {
	c.add(c.ring[c.head].placeOf, -1)
	c.head, c.n = (c.head+1)%len(c.ring), c.n-1
}

// expire forgets the placements that are a window old; all of them without a rule.
func (c *cohorts) expire(now time.Duration) {
	for c.n > 0 && (c.perHost == 0 || now-c.ring[c.head].at >= c.window) {
		c.forgetOldest()
	}
}

// Place says that the host of a charge promised what was asked, so that it counts for its
// cohort. Say so before Uncharge.
func (t *Table) Place(c Charge, now time.Duration) {
	t.advance(now)
	if k := t.openCharge(c); k != nil {
		t.cohorts.place(placeOf{k.cohort, k.host}, t.now)
	}
}

// crowded is the cohort of an ask if some host has its share of it, and none otherwise: then
// there is nothing to look at.
func (t *Table) crowded(a Cohort) Cohort {
	if t.cohorts.full[a] > 0 {
		return a
	}
	return 0
}

// hasShare says whether a host has its share of the ask's cohort. A pick that has looked past
// very many such hosts gives the rule up, so that a cohort of tens of thousands costs no more.
func (t *Table) hasShare(i int32, q *query) bool {
	if q.cohort == 0 || q.looks <= 0 {
		return false
	}
	if t.cohorts.at[placeOf{q.cohort, Ref{index: i, gen: t.hosts[i].gen}}] < t.cohorts.perHost {
		return false
	}
	q.looks--
	return true
}

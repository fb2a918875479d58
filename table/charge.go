package table

import "github.com/plimsoll-project/plimsoll/gate"

// charge is one reserve that this replica sent and has no answer to yet. The totals on the host
// are the sums over these: an end is taken once, whoever reports it twice.
type charge struct {
	host   Ref
	gen    uint32
	open   bool
	trial  bool  // it is the one ask of a host on trial
	need   int64 // MiB
	cpu    int64
	cohort Cohort
	dims   []gate.Dim
}

// Charge names a charge; the zero value names none.
type Charge struct {
	index int32
	gen   uint32
}

// Charge counts an ask against a host until Uncharge: this replica's next pick sees it at once,
// without waiting for the host's word. The ask's dimensions are kept, not copied. A host that
// was forgotten is charged nothing. The cohort, if any, is charged with one more there.
func (t *Table) Charge(r Ref, a *gate.Ask, cohort Cohort) Charge {
	h := t.at(r)
	if h == nil {
		return Charge{}
	}
	var i int32
	if n := len(t.idle); n > 0 {
		i, t.idle = t.idle[n-1], t.idle[:n-1]
	} else {
		i = int32(len(t.charges))
		t.charges = append(t.charges, charge{})
	}
	c := &t.charges[i]
	c.host, c.open, c.cohort = r, true, cohort
	c.need, c.cpu = a.ReserveOn(h.mode).Positive().CeilMiB(), max(a.CPUMilli, 0)
	c.dims = a.Dims
	c.gen++
	h.count(c, 1)
	t.cohorts.add(placeOf{cohort, r}, 1)
	c.trial = len(t.records) > 0 && t.ask(r.index)
	t.reindex(r.index)
	return Charge{index: i, gen: c.gen}
}

// Uncharge ends a charge: the host answered, and its answer's own verdict was observed first.
// It answers false when the charge had ended before.
func (t *Table) Uncharge(c Charge) bool {
	k := t.openCharge(c)
	if k == nil {
		return false
	}
	k.open = false
	t.cohorts.add(placeOf{k.cohort, k.host}, -1)
	t.idle = append(t.idle, c.index)
	if h := t.at(k.host); h != nil {
		h.count(k, -1)
		if k.trial {
			t.unask(k.host.index)
		}
		t.reindex(k.host.index)
	}
	k.dims = nil
	return true
}

// openCharge returns a charge that has not ended, else nil.
func (t *Table) openCharge(c Charge) *charge {
	if c.gen == 0 || int(c.index) >= len(t.charges) {
		return nil
	}
	if k := &t.charges[c.index]; k.open && k.gen == c.gen {
		return k
	}
	return nil
}

// Outstanding counts the open charges; at rest it is zero.
func (t *Table) Outstanding() int { return len(t.charges) - len(t.idle) }

// count adds a charge's amounts to the host's totals, or takes them off.
func (h *host) count(c *charge, sign int64) {
	h.pending += sign * c.need
	h.pendingCPU += sign * c.cpu
	dims := h.dims()
	for i := range dims {
		dims[i].pending += sign * takes(c.dims, dims[i].name)
	}
}

// takes is how much of a dimension a sandbox with these takes: every one takes a slot, where
// a host declares slots at all.
func takes(dims []gate.Dim, name string) (n int64) {
	for i := range dims {
		if dims[i].Name == name {
			n = dims[i].N
		}
	}
	if name == gate.SandboxDim {
		return max(n, 1)
	}
	return n
}

// recountDims sums the open charges anew for a host whose dimensions were replaced.
func (t *Table) recountDims(i int32) {
	h := &t.hosts[i]
	for k := range t.charges {
		c := &t.charges[k]
		if !c.open || c.host != (Ref{index: i, gen: h.gen}) {
			continue
		}
		for d, dims := 0, h.dims(); d < len(dims); d++ {
			dims[d].pending += takes(c.dims, dims[d].name)
		}
	}
}

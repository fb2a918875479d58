package host

import (
	"errors"
	"fmt"
	"slices"

	"github.com/plimsoll-project/plimsoll/digest"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/ledger"
)

// CheckInvariants proves what always holds of a host, after any step.
func (h *Host) CheckInvariants() error {
	if err := h.ledger.CheckInvariants(); err != nil {
		return err
	}
	if err := h.checkSums(); err != nil {
		return err
	}
	for id, s := range h.sandboxes {
		if e, open := h.ledger.Open(id); open {
			return fmt.Errorf("sandbox %s: %d runs, and reservation %d is open", id, s.Epoch, e.Gen)
		}
		if s.Ask.Stateful && h.Charge(s) < s.Ask.Memory {
			return fmt.Errorf("sandbox %s: stateful, configured %s, charged %s", id, s.Ask.Memory, h.Charge(s))
		}
		if s.Ask.Stateful && s.Evicting != "" {
			return fmt.Errorf("sandbox %s: stateful, and told to go: %s", id, s.Evicting)
		}
		if inLine := slices.Contains(h.line, id); inLine != (s.Phase == InLine) {
			return fmt.Errorf("sandbox %s: phase %s, in line %v", id, s.Phase, inLine)
		}
	}
	return errors.Join(h.checkReopened(), h.checkStanding(), h.checkLine(), h.checkWaivers(), h.checkSeen())
}

// checkStanding proves that what is set aside is for one waiter that is present and has
// nothing here, on a host that is not taken out of use.
func (h *Host) checkStanding() error {
	s := h.standing
	if s.ID == "" {
		return nil
	}
	_, reserved := h.ledger.Open(s.ID)
	switch {
	case s.Until <= h.now || s.Until > h.now+StandFor:
		return fmt.Errorf("standing reservation %s: until %v, at %v", s.ID, s.Until, h.now)
	case s.Need < 0 || s.Need > gate.PiB:
		return fmt.Errorf("standing reservation %s: need %d", s.ID, s.Need)
	case reserved || h.sandboxes[s.ID] != nil:
		return fmt.Errorf("standing reservation %s: it has its place here", s.ID)
	case h.intake != IntakeOpen:
		return fmt.Errorf("standing reservation %s: the host is %s", s.ID, h.intake)
	}
	return nil
}

// checkWaivers proves that what is let in without a ticket is said to be, and for how long.
func (h *Host) checkWaivers() error {
	for id, s := range h.sandboxes {
		if s.Waiver != "" && (s.Epoch != UnticketedEpoch || s.Ask.HoldOnExit) {
			return fmt.Errorf("sandbox %s: booted without a ticket by %s, under epoch %d", id, s.Waiver, s.Epoch)
		}
	}
	b := h.bypass
	if b != (Bypass{}) && (b.Until <= h.now || b.Until > h.now+LongestBypass || b.By == "" || b.Reason == "") {
		return fmt.Errorf("bypass %+v, at %v", b, h.now)
	}
	return nil
}

// checkReopened proves that only what asked for it has its place kept.
func (h *Host) checkReopened() (err error) {
	h.ledger.Each(func(e ledger.Entry) {
		if e.Reopened && !e.Ask.HoldOnExit {
			err = fmt.Errorf("reservation %s/%d was opened again, and it did not ask for that", e.ID, e.Gen)
		}
	})
	return err
}

func (h *Host) checkLine() error {
	var last int64
	for _, id := range h.line {
		s := h.sandboxes[id]
		if s == nil || s.Turn <= last {
			return fmt.Errorf("the line %v is not in order, or %s is gone", h.line, id)
		}
		last = s.Turn
	}
	if h.starting < h.cfg.MaxStarts && len(h.line) > 0 {
		return fmt.Errorf("%d wait for a start while %d of %d are taken", len(h.line), h.starting, h.cfg.MaxStarts)
	}
	return nil
}

// digests sums the sandboxes up anew.
func (h *Host) digests() (booting, running digest.Sum) {
	all := Host{}
	for _, s := range h.sandboxes {
		all.digest(s, +1)
	}
	return all.booting, all.running
}

func (h *Host) checkSums() error {
	var unresident, other, resident gate.Bytes
	var cpu int64
	dims, holds := make([]int64, len(h.cfg.Dims)), make([]int64, len(h.cfg.Dims))
	var outside gate.Bytes
	for _, s := range h.strays {
		outside = outside.Add(s.Resident)
	}
	starting := 0
	for _, s := range h.sandboxes {
		unresident += h.Charge(s).Sub(s.Usage.Resident).Positive()
		other += gate.Charge(s.Ask, h.cfg.Mode.Other(), s.Usage).Sub(s.Usage.Resident).Positive()
		resident += s.Usage.Resident
		cpu += s.Ask.CPUMilli
		for i, d := range h.cfg.Dims {
			takes, held := s.takes(d.Name)
			dims[i] += takes
			holds[i] += held
		}
		if s.Phase == Starting {
			starting++
		}
	}
	if unresident != h.unresident || resident != h.resident || cpu != h.cpu || starting != h.starting {
		return fmt.Errorf("host says %s unresident, %s resident, %d cpu, %d starting; its sandboxes %s, %s, %d, %d",
			h.unresident, h.resident, h.cpu, h.starting, unresident, resident, cpu, starting)
	}
	if other != h.other {
		return fmt.Errorf("host says that %s would be unresident in its other mode; of its sandboxes %s", h.other, other)
	}
	if booting, running := h.digests(); booting != h.booting || running != h.running {
		return fmt.Errorf("host sums its sandboxes up as %+v booting, %+v running; they are %+v, %+v", h.booting, h.running, booting, running)
	}
	if !slices.Equal(dims, h.dims) || !slices.Equal(holds, h.holds) {
		return fmt.Errorf("host says its sandboxes take %v of its dimensions and hold %v, they take %v and hold %v", h.dims, h.holds, dims, holds)
	}
	if outside != h.outside {
		return fmt.Errorf("host says that what runs out of gate holds %s, it holds %s", h.outside, outside)
	}
	return nil
}

// checkSeen proves that what is noted of templates is bounded, whatever requests name.
func (h *Host) checkSeen() error {
	of := map[string]int{} // class -> its templates
	for id, t := range h.seen {
		of[id.class]++
		if t.Class != id.class || t.Template != id.template {
			return fmt.Errorf("what is noted of template %s of class %s is under another name", t.Template, t.Class)
		}
		if of[id.class] > templatesOfClass || len(h.seen) > templatesInAll {
			return fmt.Errorf("%d templates are noted, %d of class %s", len(h.seen), of[id.class], id.class)
		}
	}
	return nil
}

package host

import (
	"fmt"
	"slices"

	"github.com/plimsoll-project/plimsoll/gate"
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
		if reserved, _ := h.ledger.Get(id); reserved.Gen == s.Epoch && h.ledger.Held(id) > 0 {
			return fmt.Errorf("sandbox %s: runs, and its reservation %d is still open", id, s.Epoch)
		}
		if s.Ask.Stateful && h.Charge(s) < s.Ask.Memory {
			return fmt.Errorf("sandbox %s: stateful, configured %s, charged %s", id, s.Ask.Memory, h.Charge(s))
		}
		if inLine := slices.Contains(h.line, id); inLine != (s.Phase == InLine) {
			return fmt.Errorf("sandbox %s: phase %s, in line %v", id, s.Phase, inLine)
		}
	}
	if h.starting < h.cfg.MaxStarts && len(h.line) > 0 {
		return fmt.Errorf("%d wait for a start while %d of %d are taken", len(h.line), h.starting, h.cfg.MaxStarts)
	}
	return nil
}

func (h *Host) checkSums() error {
	var unresident, resident gate.Bytes
	var cpu int64
	starting := 0
	for _, s := range h.sandboxes {
		unresident += h.Charge(s).Sub(s.Usage.Resident).Positive()
		resident += s.Usage.Resident
		cpu += s.Ask.CPUMilli
		if s.Phase == Starting {
			starting++
		}
	}
	if unresident != h.unresident || resident != h.resident || cpu != h.cpu || starting != h.starting {
		return fmt.Errorf("host says %s unresident, %s resident, %d cpu, %d starting; its sandboxes %s, %s, %d, %d",
			h.unresident, h.resident, h.cpu, h.starting, unresident, resident, cpu, starting)
	}
	return nil
}

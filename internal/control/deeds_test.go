package control_test

import (
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/host"
)

// TestADeedIsAuditedOnce has what somebody did at a host told twice, because what acknowledges
// it is lost on the way: the audit has it once. What the host's next life does is another deed.
func TestADeedIsAuditedOnce(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		h := r.host("h1")
		for life := range 2 {
			h.fail("AckedDeed", "failed")
			h.step(host.SetBypass{For: time.Hour, By: "uid-0", Reason: "the store burns"})
			time.Sleep(3 * time.Minute)
			if told, untold := h.calls("AckedDeed"), len(h.h.Held().Deeds); told != 2*(life+1) || untold != 0 {
				t.Errorf("acknowledged %d times, and %d deeds are still told", told, untold)
			}
			deeds, err := r.memory.Audit(t.Context(), 10)
			if err != nil || len(deeds) != life+2 || deeds[0].Reason != "the store burns" { // the first is of the configuration
				t.Errorf("%+v %v", deeds, err)
			}
			h.restart(2000)
		}
	})
}

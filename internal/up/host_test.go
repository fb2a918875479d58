package up

import (
	"strings"
	"testing"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// T14: a machine of 128 GB whose agent lives in 2 says so, loudly, at its start; unless its operator
// has stated as much.
func TestANarrowCgroupIsTold(t *testing.T) {
	machine := gate.Limit{Name: hostmem.MachineLimit, Size: 128 * gate.GiB}
	narrowed := gate.Limit{Name: "cgroup:/system.slice/plimsoll.service", Size: 2 * gate.GiB}
	for _, c := range []struct {
		limits []gate.Limit
		budget gate.Bytes
		told   bool
	}{
		{[]gate.Limit{machine}, 0, false},
		{[]gate.Limit{machine, narrowed}, 0, true},
		{[]gate.Limit{machine, narrowed}, 8 * gate.GiB, true},
		{[]gate.Limit{machine, narrowed}, gate.GiB, false},
		{[]gate.Limit{machine, {Name: "cgroup:/wide", Size: 256 * gate.GiB}}, 0, false},
		{nil, 0, false},
	} {
		text := narrow(c.limits, c.budget)
		if told := text != ""; told != c.told || told && !(strings.Contains(text, narrowed.Name) && strings.Contains(text, "2048 MiB")) {
			t.Errorf("%+v, budget %v: %q", c.limits, c.budget, text)
		}
	}
}

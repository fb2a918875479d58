package observe

import (
	"fmt"
	"regexp"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/config"
)

// RulesOf are the rules that a host's settings state. There must be one by which something
// can be found.
func RulesOf(h *config.Host) (Rules, error) {
	o := h.Observe
	r := Rules{
		Parent: o.CgroupParent, Default: o.DefaultSize, Reserve: gate.DefaultReserveRule(),
		Headroom: h.Headroom, Budget: h.Budget,
	}
	if o.CgroupParent == "" && o.Match == "" {
		return r, fmt.Errorf("nothing says what a sandbox is: name a cgroup parent (host.observe.cgroup_parent, --cgroup-parent /machine.slice) or a pattern of processes (host.observe.match, --match 'firecracker|qemu-system')")
	}
	var err error
	for _, p := range []struct {
		pattern string
		into    **regexp.Regexp
		name    string
	}{{o.Match, &r.Match, "match"}, {o.SizePattern, &r.Size, "size pattern"}, {o.Stateful, &r.Stateful, "pattern of the stateful"}} {
		if p.pattern == "" {
			continue
		}
		if *p.into, err = regexp.Compile(p.pattern); err != nil {
			return r, fmt.Errorf("the %s is no regular expression: %w", p.name, err)
		}
	}
	if r.Size != nil && r.Size.NumSubexp() != 1 {
		return r, fmt.Errorf("the size pattern %s has no one group for the size; write it in parentheses, as in mem=([0-9]+[MG])", r.Size)
	}
	return r, nil
}

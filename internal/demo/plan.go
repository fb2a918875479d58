package demo

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

type size = gate.Bytes

// What the sandboxes are like. Of the rest of the plan everything follows.
const (
	className    = "sandbox"
	classMemory  = 512 * gate.MiB
	reserveFloor = 64 * gate.MiB
	touched      = 40 * gate.MiB // what each holds
	grown        = 320 * gate.MiB
)

const (
	leastBudget = 768 * gate.MiB // one fits in committed mode
	mostBudget  = 8 * gate.GiB   // more would take longer than a minute
	leastBurst  = 40             // creates at once
	budgetStep  = 256 * gate.MiB
	spare       = 256 * gate.MiB // for the two hosts, and what else moves on the machine
)

// modes are shown side by side, in this order.
func modes() []gate.Mode { return []gate.Mode{gate.Committed, gate.WorkingSet} }

// plan is what one run is about.
type plan struct {
	version  string
	budget   size
	asked    size   // the budget that there is too little memory for; 0: there is enough
	binding  string // what there is too little of
	run      string // marks every process and cgroup of this run
	dir      string // of everything that this run writes
	keepLogs bool
	machine  *hostmem.Machine
	self     string
}

// newPlan measures the machine and takes a budget that it has the memory for, so that on both
// hosts it is the budget that binds, and the figures follow from it.
func newPlan(budget size, keepLogs bool, version string) (plan, error) {
	p := plan{version: version, budget: budget, keepLogs: keepLogs}
	var err error
	if p.self, err = self(); err != nil {
		return p, err
	}
	if p.machine, err = hostmem.Discover("/"); err != nil {
		return p, err
	}
	limits, err := p.machine.Limits("/")
	if err != nil {
		return p, err
	}
	if err := p.shrink(gate.Free(limits)); err != nil {
		return p, err
	}
	if p.dir, err = os.MkdirTemp(place(os.TempDir()), "plimsoll-demo-"); err != nil {
		return p, fmt.Errorf("make a directory for the demo: %w; name one that you can write in TMPDIR", err)
	}
	p.run = filepath.Base(p.dir)
	return p, nil
}

// place is where the files of a run go: where others go, unless the kernel would not take the
// path of a socket there.
func place(temporary string) string {
	const most, ours = 107, len("/plimsoll-demo-1234567890/working-set/agent.sock")
	if len(temporary)+ours > most {
		return "/tmp"
	}
	return temporary
}

// shrink takes the largest budget that fits into what is free.
func (p *plan) shrink(free size, binding string) error {
	asked := p.budget
	for p.budget > leastBudget && p.uses() > free {
		p.budget = max(p.budget-budgetStep, leastBudget)
	}
	if p.budget < asked {
		p.asked, p.binding = asked, binding
	}
	if p.uses() > free {
		return &cli.Failure{
			Status: 1,
			Err:    fmt.Errorf("demo: %s are free (limit: %s), and the smallest demo takes %s", free, binding, p.uses()),
			Try:    "again when there is more memory",
		}
	}
	return nil
}

// uses is what must be free for the budget of either host to be what binds while the
// sandboxes of the other hold their memory.
func (p *plan) uses() size {
	return p.budget.Add(touched.Scale(int64(p.room(gate.WorkingSet)), 1)).Add(grown).Add(spare)
}

// write makes the configuration of each host.
func (p *plan) write() error {
	for _, m := range modes() {
		dir := filepath.Join(p.dir, m.String())
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return fmt.Errorf("make a directory for host %s: %w", m, err)
		}
		if err := os.WriteFile(p.path(m), []byte(p.text(m)), 0o600); err != nil {
			return fmt.Errorf("write the configuration of host %s: %w", m, err)
		}
	}
	return nil
}

func (p *plan) path(m gate.Mode) string { return filepath.Join(p.dir, m.String(), "plimsoll.yaml") }

// parent is the cgroup of a host's sandboxes, below one that is this run's own.
func (p *plan) parent(m gate.Mode) string { return p.run + "/" + m.String() }

// text is a host's whole configuration.
func (p *plan) text(m gate.Mode) string {
	return fmt.Sprintf("data_dir: %s\nlisten: 127.0.0.1:0\n", filepath.Join(p.dir, m.String())) +
		p.shown(m.String(), p.parent(m))
}

// shown is the part of it that the figures follow from.
func (p *plan) shown(mode, parent string) string {
	return fmt.Sprintf(`host:
  id: %s
  mode: %s
  budget: %s
  headroom: %s
  max_starts: 40
  sample_sandboxes: 250ms
  dwell: 2s
  cgroup_parent: %s
fleet:
  pools: [{name: default, cap: none}]
  classes:
    - {name: %s, pool: default, memory: %s, reserve_floor: %s}
  default_quota: none
`, mode, mode, written(p.budget), written(gate.DefaultHeadroom([]gate.Limit{{Size: p.budget}})), parent,
		className, written(classMemory), written(reserveFloor))
}

// written is a size as a configuration has it.
func written(b size) string {
	if b%gate.GiB == 0 {
		return fmt.Sprintf("%dGiB", int64(b/gate.GiB))
	}
	return fmt.Sprintf("%dMiB", b.CeilMiB())
}

// arithmetic is what the configuration of one host comes to, by package gate.
type arithmetic struct {
	mode     gate.Mode
	line     size // what may be promised in all
	need     size // of one sandbox
	room     int  // how many fit
	headroom size
}

// expect computes it from the text that the host is given.
func (p *plan) expect(m gate.Mode) (arithmetic, error) {
	file, err := config.Parse(p.path(m), []byte(p.text(m)))
	if err != nil {
		return arithmetic{}, err
	}
	h := file.Local.Host
	ask, _, err := file.Fleet.Classes[0].Ask(nil, nil, "", nil)
	if err != nil {
		return arithmetic{}, err
	}
	a := arithmetic{mode: h.Mode, headroom: h.Headroom, need: gate.Need(ask, h.Mode)}
	a.line = gate.Admittable(gate.Account{Free: h.Budget, Headroom: h.Headroom})
	a.room = int(a.line / a.need)
	return a, nil
}

// room is how many sandboxes fit; zero where the configuration is not valid, which starting
// the host then says.
func (p *plan) room(m gate.Mode) int {
	a, _ := p.expect(m)
	return a.room
}

// creates is how many are asked for at once: more than fit in either mode.
func (p *plan) creates() int {
	return max(leastBurst, p.room(gate.WorkingSet)+leastBurst/4)
}

// parseBudget reads the flag as the configuration would.
func parseBudget(text string) (size, error) {
	local := config.Default("").Local
	err := config.Overlay(&local, func(name string) string {
		if name == "PLIMSOLL_HOST_BUDGET" {
			return cmp.Or(text, "0MiB")
		}
		return ""
	})
	if err != nil {
		return 0, errors.New("write a size, as in 1GiB")
	}
	if b := local.Host.Budget; b < leastBudget || b > mostBudget {
		return 0, fmt.Errorf("write a size from %s to %s", written(leastBudget), written(mostBudget))
	}
	return local.Host.Budget, nil
}

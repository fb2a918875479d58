package herd

import (
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/table"
)

const (
	incarnation = 1
	headroom    = 256 * gate.MiB
	cores       = 16
)

// deltas is ours: a host says its whole word at once when it has moved, at most every 20 ms, and
// with each answer; a replica picks from its own table, its own share first; the host checks and
// reserves in one step; a denial leads to another pick, a bounded number of times; and before a
// refusal the most promising hosts are asked again.
type deltas struct {
	*fleet
	agents []agent // of the same index as hosts
	sides  []replica
	cfg    admission.Config
}

// agent is a host's real rule, and when it next has something to do by itself.
type agent struct {
	host *host.Host
	tick time.Duration
}

// replica is what one knows, and whom it has wait for its next sweep.
type replica struct {
	table    *table.Table
	number   int
	sweeping bool
	waiting  []*passage
	choices  []table.Choice
}

// newDeltas has every replica hear every host once. With shares each takes its own first.
func newDeltas(f *fleet, shares bool) *deltas {
	d := &deltas{fleet: f, agents: make([]agent, len(f.hosts)), sides: make([]replica, f.replicas), cfg: admission.DefaultConfig()}
	var live []string
	for r := range d.sides {
		d.sides[r] = replica{table: table.New(table.Options{}), number: r}
		live = append(live, fmt.Sprintf("replica-%d", r))
	}
	for h := range d.agents {
		d.agents[h] = agent{host: newHost(f.hosts[h].id), tick: forever}
		fx := d.agents[h].host.Step(f.now, d.sample())
		d.hear(wordOf(&fx.Answer.Verdict))
		d.wake(h)
	}
	for r := range d.sides {
		if shares {
			d.sides[r].table.SetReplicas(live[r], live)
		}
	}
	return d
}

// newHost is one that lets any number start: that is not what is played.
func newHost(id string) *host.Host {
	cfg := host.DefaultConfig(id, cores)
	cfg.Headroom, cfg.MaxStarts = headroom, 1<<20
	return host.New(cfg, incarnation)
}

// sample is a machine with room for just the slots, of which nothing is used: what was promised
// counts, and that alone.
func (d *deltas) sample() host.Sample {
	size := gate.Need(d.ask, gate.WorkingSet).Scale(int64(d.slots), 1).Add(headroom)
	return host.Sample{Limits: []gate.Limit{{Name: "machine", Size: size}}, Full: true}
}

// wordOf is a host's word as a replica takes it.
func wordOf(v *host.Verdict) *table.Verdict {
	word := control.TableVerdict(*v)
	return &word
}

// hear has every replica take a word in.
func (d *deltas) hear(v *table.Verdict) {
	for r := range d.sides {
		d.observe(r, v)
	}
}

func (d *deltas) observe(r int, v *table.Verdict) {
	if _, err := d.sides[r].table.Observe(v, d.now); err != nil {
		panic(err) // a host of this play says what cannot be true
	}
}

// step takes a host on, has its news sent, and its ends acknowledged: that no replica has heard of
// one is not what is played.
func (d *deltas) step(h int, ev host.Event) host.Answer {
	a := &d.agents[h]
	fx := a.host.Step(d.now, ev)
	answer, publish := fx.Answer, fx.Publish
	for _, e := range a.host.Unwritten() {
		publish = a.host.Step(d.now, host.Acked{ID: e.ID, Epoch: e.Epoch}).Publish || publish
	}
	if publish {
		d.publish(wordOf(&answer.Verdict))
	}
	d.wake(h)
	return answer
}

// publish sends a word to every replica.
func (d *deltas) publish(v *table.Verdict) {
	if d.turns == nil {
		d.after(oneWay, func() { d.hear(v) })
		return
	}
	for r := range d.sides {
		d.hand(r, oneWay, func() { d.observe(r, v) })
	}
}

// wake has a host go on by itself when it has to.
func (d *deltas) wake(h int) {
	a := &d.agents[h]
	due := max(a.host.Due(), d.now)
	if due >= a.tick {
		return
	}
	a.tick = due
	d.hand(processOf(h), due-d.now, func() {
		if a.tick == due {
			a.tick = forever
			d.step(h, host.Tick{})
		}
	})
}

package control

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
)

// showHost says a view in the units of the wire: what a host has is rounded down, what it
// must give up.
func showHost(v host.View, wall time.Time) api.Host {
	h := api.Host{
		Limits: make([]api.Limit, 0, len(v.Limits)),
		ID:     v.Config.ID, Mode: api.ChargeMode(v.Config.Mode.String()), Enforcement: api.Enforcement(v.Verdict.Enforcement.String()), WouldRefuse: wouldOf(v.Waived),
		Intake: api.Intake(v.Verdict.Intake.String()), IntakeReason: string(v.Shut), BindingLimit: v.Binding,
		FreeMB: v.Account.Free.FloorMiB(), HeadroomMB: v.Account.Headroom.CeilMiB(),
		UnresidentMB: v.Account.Unresident.CeilMiB(), ReservedMB: v.Account.Reserved.CeilMiB(),
		AdmittableMB: v.Verdict.Admittable.FloorMiB(), Reservations: int64(v.Reservations),
		ResidentMB: v.Resident.CeilMiB(), CommittedMB: v.Committed.CeilMiB(),
		CPUTotal: float64(v.Verdict.CPUTotalMilli) / 1000, CPUUsed: float64(v.Verdict.CPUTotalMilli-v.Verdict.CPUFreeMilli) / 1000,
		Incarnation: v.Verdict.Incarnation, Sequence: v.Verdict.Sequence, PSISomeAvg10: float64(v.Reading.Some) / 100, SandboxCount: int64(len(v.Sandboxes)),
		Starts: api.Starts{
			Running: int64(v.Starting), Waiting: int64(v.InLine),
			Max: int64(v.Config.MaxStarts), MaxWaiting: int64(v.Config.MaxWaitingStarts),
		},
	}
	showReclaim(&h, &v, wall)
	if v.Tally.For > 0 { // else it is its last word, or its agent is of a version that counts nothing
		h.Tally = showTally(&v.Tally, v.Verdict.WouldOffer)
	}
	if v.Bypass.Until > 0 {
		b := showBypass(&v)
		h.Bypass = &b
	}
	for _, l := range v.Limits {
		h.Limits = append(h.Limits, api.Limit{Name: l.Name, SizeMB: l.Size.FloorMiB(), UsedMB: l.Used.CeilMiB()})
	}
	for _, l := range v.Config.Labels {
		if h.Labels == nil {
			h.Labels = api.Labels{}
		}
		h.Labels[l.Name] = l.Value
	}
	var cache gate.Bytes
	for i, s := range v.Sandboxes {
		cache = cache.Add(s.FileCache)
		h.Sandboxes = append(h.Sandboxes, showSandbox(s, v.Charges[i].CeilMiB(), v.Verdict.At, wall))
	}
	h.FileCacheMB = cache.CeilMiB()
	h.OutOfGateCount, h.OutOfGateMB = int64(len(v.OutOfGate)), v.Outside.CeilMiB()
	for i := range v.OutOfGate {
		h.Sandboxes = append(h.Sandboxes, showStray(&v.OutOfGate[i]))
	}
	return h
}

// showStray shows what runs out of gate. Whose it is nobody knows.
func showStray(s *host.Stray) api.Sandbox {
	out := api.Sandbox{
		ID: s.ID, State: api.SandboxStateUnticketed, Cgroup: s.Where,
		ResidentMB: s.Resident.CeilMiB(), ChargeMB: s.Resident.CeilMiB(),
	}
	if len(s.PIDs) > 0 {
		out.PID = int64(s.PIDs[0])
	}
	return out
}

func showSandbox(s host.Sandbox, chargeMB int64, now host.Instant, wall time.Time) api.Sandbox {
	out := api.Sandbox{
		ID: s.ID, Key: s.Identity.Key, Consumer: s.Identity.Consumer, Tenant: s.Identity.Tenant, Class: s.Ask.Class,
		PID: int64(s.Process.Pid), ResidentMB: s.Usage.Resident.CeilMiB(), ChargeMB: chargeMB,
		SwappedMB: s.Swapped.CeilMiB(), FileCacheMB: s.FileCache.CeilMiB(),
		Waiver: string(s.Waiver), ConfiguredMB: s.Ask.Memory.CeilMiB(), Stateful: s.Ask.Stateful, State: api.SandboxState(s.Phase),
	}
	if s.Stopping || s.Evicting != "" {
		out.State = api.SandboxStateEnding
	}
	if s.Tracked != 0 {
		at := wall.Add(s.Tracked - now).UTC().Truncate(time.Millisecond)
		out.StartedAt = &at
	}
	return out
}

// Config is the configuration in force.
func (g *Gateway) Config(ctx context.Context) (api.ConfigDocument, error) {
	c, err := g.Store.Config(ctx)
	if err != nil {
		return api.ConfigDocument{}, api.Refuse(api.Unavailable, "the store could not be read")
	}
	return showConfig(c), nil
}

// Apply replaces the configuration by compare-and-set. A document with any fault changes nothing.
func (g *Gateway) Apply(ctx context.Context, by string, change api.ConfigChange) (api.ConfigDocument, error) {
	fleet, err := config.ParseFleet("document", []byte(change.Document))
	if err != nil {
		return api.ConfigDocument{}, err
	}
	c := Config{Generation: change.Generation, Document: change.Document, By: by}
	_, ok, err := g.Store.Apply(ctx, c, fleet.Settings())
	if !errors.Is(err, ErrOverCeiling) {
		g.failed(err, "call", "apply")
	}
	inForce, errRead := g.Store.Config(ctx)
	c.Generation++
	switch {
	case errRead == nil && same(inForce, c):
		c = inForce
	case ok: // it was in force, and perhaps no longer is
	case errors.Is(err, ErrOverCeiling):
		return api.ConfigDocument{}, api.Refuse(api.OverCeiling, "%s; plimsoll pools shows them", err)
	case err != nil || errRead != nil:
		return api.ConfigDocument{}, api.Refuse(api.Unavailable, "the store did not answer; apply the same again, or read which one is in force")
	default:
		return api.ConfigDocument{}, api.Refuse(api.GenerationConflict, "generation %d is not the one in force, which is %d", change.Generation, inForce.Generation)
	}
	if err := g.Load(ctx); err != nil {
		g.Log.Error("configuration applied, but not loaded here", "err", err)
	}
	g.wakes.wake()
	return showConfig(c), nil
}

// same says whether what is in force is this very change: it may have been written, and its
// answer lost, so that asking twice is safe.
func same(inForce, c Config) bool {
	c.AppliedAt = inForce.AppliedAt
	return inForce == c
}

func showConfig(c Config) api.ConfigDocument {
	return api.ConfigDocument{Generation: c.Generation, Document: c.Document, AppliedBy: c.By, AppliedAt: wireTime(c.AppliedAt)}
}

// readyWithin is as long as the store may take to show that it is there: whoever asks is a
// load balancer, and a store that hangs is none.
const readyWithin = 2 * time.Second

// Ready says whether this replica can admit, and if not, why: to anybody, so that the store's
// own words, which name its address, are for the log.
func (g *Gateway) Ready(ctx context.Context) error {
	if g.Fleet() == nil {
		return api.Refuse(api.Unavailable, "no configuration is in force")
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := g.Store.Ping(ctx); err != nil {
		g.Log.Warn("not ready: the store cannot be written", "err", err)
		return api.Refuse(api.Unavailable, "the store cannot be written")
	}
	if g.Fleet().AnyWithoutHosts() {
		return nil
	}
	for _, link := range g.links() {
		if _, _, silent := g.link(link.ID()); !silent {
			return nil
		}
	}
	return api.Refuse(api.NoHealthyAgents, "no host agent is heard")
}

func sortedKeys[V any](m map[string]V) []string { return slices.SortedFunc(maps.Keys(m), cmp.Compare) }

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// ceilingOf is the account-wide limit; nil where there is none.
func ceilingOf(f *config.Fleet) *int64 {
	if f.Ceiling == config.None {
		return nil
	}
	n := int64(f.Ceiling)
	return &n
}

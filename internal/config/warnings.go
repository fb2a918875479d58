package config

import (
	"fmt"
	"strings"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/pool"
)

// BudgetLimit is the name of the limit that the agent's own budget is.
const BudgetLimit = "budget"

// Warnings says what is allowed and yet cannot work as written: on this file's own host,
// given its measured limits, what a class or a cap asks for that memory can never hold. The
// host is taken as empty, so every number is the most there is room for.
func Warnings(f File, hostLimits []gate.Limit) []string {
	out := exposure(&f.Local)
	if f.Fleet == nil {
		return out
	}
	out = append(out, f.Fleet.idle()...)
	if f.Local.Host == nil {
		return out
	}
	h := emptyHost(f.Local.Host, hostLimits)
	if len(h.limits) == 0 {
		return out
	}
	for i := range f.Fleet.Classes {
		if c := &f.Fleet.Classes[i]; !f.Fleet.WithoutHosts(c) {
			out = append(out, h.classWarnings(c)...)
		}
	}
	for i := range f.Fleet.Pools {
		if p := &f.Fleet.Pools[i]; p.Placement == OnHost {
			out = append(out, h.poolWarnings(f.Fleet, p)...)
		}
	}
	return out
}

// exposure warns of tokens that travel in clear.
func exposure(l *Local) []string {
	if l.TLS != nil || !beyondLoopback(l.Listen) {
		return nil
	}
	return []string{fmt.Sprintf("listen: %s is reachable from other machines and speaks plain HTTP, so tokens travel in clear; put TLS in front of it", l.Listen)}
}

// idle warns of what is set aside for nobody, and of words that nothing listens to.
func (f *Fleet) idle() (out []string) {
	for i := range f.Pools {
		out = append(out, f.idlePool(&f.Pools[i])...)
	}
	for i := range f.Classes {
		if words := f.Classes[i].forHosts(); f.WithoutHosts(&f.Classes[i]) && len(words) > 0 {
			out = append(out, fmt.Sprintf("class %s: its pool is without hosts, so nothing comes of %s", f.Classes[i].Name, strings.Join(words, ", ")))
		}
	}
	for _, c := range f.Consumers {
		if len(c.Tokens) == 0 {
			out = append(out, fmt.Sprintf("consumer %s: has no token, so nobody can be it; plimsoll token create --consumer %s makes one", c.Name, c.Name))
		}
	}
	return out
}

func (f *Fleet) idlePool(p *Pool) (out []string) {
	priorities := map[int]bool{} // of the classes that use it
	for _, c := range f.Classes {
		if c.Pool == p.Name {
			priorities[c.Priority] = true
		}
	}
	if len(priorities) == 0 {
		return []string{fmt.Sprintf("pool %s: no class uses it, so its cap of %s is set aside for nothing", p.Name, p.Cap)}
	}
	for _, s := range p.Shares {
		if s.Consumer == "" && !priorities[s.Priority] {
			out = append(out, fmt.Sprintf("pool %s: no class of it has priority %d, so the share of that priority is nobody's", p.Name, s.Priority))
		}
	}
	return out
}

// forHosts names what a class says and only a host would act on.
func (c *Class) forHosts() (words []string) {
	var d Class
	d.defaults()
	if len(c.Labels) > 0 {
		words = append(words, "labels")
	}
	if len(c.Dimensions) > 0 {
		words = append(words, "dimensions")
	}
	if c.Reserve != d.Reserve || c.ReserveFraction != d.ReserveFraction || c.ReserveFloor != d.ReserveFloor || c.ReserveUntil != d.ReserveUntil || c.SettleAfter != d.SettleAfter {
		words = append(words, "its reserve settings")
	}
	return words
}

// room is what a host with nothing on it can promise.
type room struct {
	host       *Host
	limits     []gate.Limit
	admittable gate.Bytes
	by         string // the limit that is the least
}

func emptyHost(h *Host, measured []gate.Limit) room {
	var limits []gate.Limit
	for _, l := range measured {
		limits = append(limits, gate.Limit{Name: l.Name, Size: l.Size})
	}
	if h.Budget > 0 {
		limits = append(limits, gate.Limit{Name: BudgetLimit, Size: h.Budget})
	}
	headroom := h.Headroom
	if headroom == 0 {
		headroom = gate.DefaultHeadroom(limits)
	}
	free, by := gate.Free(limits)
	return room{host: h, limits: limits, by: by, admittable: gate.Admittable(gate.Account{Free: free, Headroom: headroom})}
}

// need is what the host would hold for a sandbox of a class at a size.
func (r room) need(c *Class, size gate.Bytes) gate.Bytes {
	ask := c.AskOf(pool.Contents{MemoryMB: size.CeilMiB()})
	return gate.Need(ask, r.host.Mode)
}

func (r room) classWarnings(c *Class) (out []string) {
	for _, d := range dimsOf(c.Dimensions) {
		if has := r.host.Dimensions[d.Name]; d.N > has {
			out = append(out, fmt.Sprintf("class %s: takes %d of %s and this host has %d, so it never fits here", c.Name, d.N, d.Name, has))
		}
	}
	least, most := r.need(c, c.MinMemory), r.need(c, c.MaxMemory)
	switch {
	case !gate.Fits(r.admittable, least):
		out = append(out, fmt.Sprintf("class %s: needs %s at least and this host, empty, promises %s (limit: %s), so it never fits here", c.Name, formatBytes(least), formatBytes(r.admittable), r.by))
	case !gate.Fits(r.admittable, most):
		out = append(out, fmt.Sprintf("class %s: at its max_memory it needs %s and this host, empty, promises %s (limit: %s); the largest requests never fit here", c.Name, formatBytes(most), formatBytes(r.admittable), r.by))
	}
	return out
}

// holds is how many sandboxes of a class the host has room for at once, at its smallest.
func (r room) holds(c *Class) int64 {
	n := int64(maxCount)
	if need := r.need(c, c.MinMemory); need > 0 {
		n = int64(r.admittable / need)
	}
	ask := c.AskOf(pool.Contents{MemoryMB: c.MinMemory.CeilMiB()})
	for _, d := range ask.Dims {
		if d.N > r.host.Dimensions[d.Name] {
			return 0
		}
	}
	for name, has := range r.host.Dimensions {
		if takes := ask.Takes(name); takes > 0 {
			n = min(n, has/takes)
		}
	}
	return n
}

// poolWarnings compares a cap with what the pool's smallest class fills the host with: no
// mix of its classes is more. What is learned may later be less than the reserve.
func (r room) poolWarnings(f *Fleet, p *Pool) []string {
	var best *Class
	var most int64
	for i := range f.Classes {
		c := &f.Classes[i]
		if n := r.holds(c); c.Pool == p.Name && n > most {
			best, most = c, n
		}
	}
	if best == nil || p.Cap == None || int64(p.Cap) <= most {
		return nil
	}
	hosts := (int64(p.Cap) + most - 1) / most
	return []string{fmt.Sprintf("pool %s: the cap is %s and this host, empty, has room for %d (class %s, %s each of %s, limit: %s); until smaller reserves are learned, the cap needs %d such hosts",
		p.Name, p.Cap, most, best.Name, formatBytes(r.need(best, best.MinMemory)), formatBytes(r.admittable), r.by, hosts)}
}

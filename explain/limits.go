package explain

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/plimsoll-project/plimsoll/pool"
)

// limits is what of a pool's cap, a share's and a tenant's quota would have to be higher, all at
// once, for the request to be admitted.
func limits(f *Facts) []Change {
	p := &f.Pool
	if p.Position == 0 { // nobody counted
		return nil
	}
	lacksQuota := f.lacks() == forQuota || p.AtQuota() && !p.QuotaShadow
	lacksSlot := p.Short > 0 && !p.Shadow
	var out []Change
	if !lacksQuota && p.ShareShort == 0 && lacksSlot {
		out = append(out, resume(f), raiseCap(f))
	}
	if lacksQuota || p.ShareShort > 0 && !p.Shadow || lacksSlot && len(out) > 0 && overCeiling(p) {
		out = append(out, raiseAll(f, lacksQuota, lacksSlot))
	}
	return out
}

// resume takes back what an operator set, where that is what is in the way.
func resume(f *Facts) Change {
	p := &f.Pool
	if p.Override.Since == 0 || p.Configured != pool.Unlimited && p.Configured < p.Cap+p.Short {
		return Change{}
	}
	return Change{
		Kind: Limit, Who: Operator, Target: "pool " + p.Name, From: p.Cap, To: p.Configured, Command: "plimsoll pool resume " + p.Name + because(f),
		Why: fmt.Sprintf("%s set its cap to %d (%s); the configuration says %s", p.Override.By, p.Cap, p.Override.Reason, limitWord(p.Configured)),
	}
}

func limitWord(n int64) string {
	if n == pool.Unlimited {
		return "none"
	}
	return strconv.FormatInt(n, 10)
}

func overCeiling(p *Pool) bool { return p.Ceiling > 0 && p.Caps+p.Short > p.Ceiling }

// raiseCap is for a while, which an operator may; the caps must still sum to the ceiling.
func raiseCap(f *Facts) Change {
	p := &f.Pool
	if overCeiling(p) {
		return Change{}
	}
	to := p.Cap + p.Short
	return Change{
		Kind: Limit, Who: Operator, Target: "pool " + p.Name, From: p.Cap, To: to,
		Command: fmt.Sprintf("plimsoll pool set %s --cap %d --for 1h%s", p.Name, to, because(f)),
		Why:     fmt.Sprintf("%s to %s, for an hour: %s", slots(p.Short), p.Name, ahead(p)),
	}
}

func slots(n int64) string {
	if n == 1 {
		return "one slot more"
	}
	return grouped(n) + " slots more"
}

// ahead says what else the slots are for.
func ahead(p *Pool) string {
	switch n := p.Position - 1; {
	case n > 0 && p.SetAside > 0:
		return fmt.Sprintf("%d wait ahead, and %d free are reserved for others", n, p.SetAside)
	case n > 0:
		return fmt.Sprintf("%d wait ahead", n)
	case p.SetAside > 0:
		return fmt.Sprintf("%d free are reserved for others", p.SetAside)
	}
	return "nobody waits ahead"
}

// raiseAll changes the configuration, where more than a cap is in the way.
func raiseAll(f *Facts, quota, slot bool) Change {
	p := &f.Pool
	c := Change{Kind: Limit, Who: Operator}
	var sets, why []string
	raise := func(target, path string, from, to int64, said string) {
		if len(sets) == 0 {
			c.Target, c.From, c.To = target, from, to
		}
		sets, why = append(sets, path+"="+strconv.FormatInt(to, 10)), append(why, said)
	}
	if quota {
		raise("tenant "+f.Tenant, "quotas."+f.Tenant, p.QuotaLimit, p.QuotaUse+p.QuotaAhead+1,
			fmt.Sprintf("tenant %s holds %d of its %d", f.Tenant, p.QuotaUse, p.QuotaLimit))
	}
	if p.ShareShort > 0 && !p.Shadow {
		name := p.Share.Consumer
		if name == "" {
			name = strconv.FormatInt(p.Share.Priority, 10)
		}
		raise("pool "+p.Name, "pools."+p.Name+".shares."+name+".max", p.Share.Max, p.Share.Max+p.ShareShort,
			fmt.Sprintf("the share of %s holds %d of at most %d", name, p.Share.Held, p.Share.Max))
	}
	if slot {
		if overCeiling(p) {
			raise("ceiling", "ceiling", p.Ceiling, p.Caps+p.Short, fmt.Sprintf("the caps sum to %d of the ceiling's %d; lower another pool instead if the account has no more", p.Caps, p.Ceiling))
		}
		raise("pool "+p.Name, "pools."+p.Name+".cap", p.Cap, p.Cap+p.Short, fmt.Sprintf("pool %s has %d of %d slots taken", p.Name, p.Busy, p.Cap))
	}
	c.Command, c.Why = "plimsoll config set "+strings.Join(sets, " "), strings.Join(why, "; ")
	return c
}

package regimes

import (
	"fmt"
	"math"
)

// risks are what each way to be wrong costs.
func (r *Result) risks() (all []string) {
	all = append(all, r.machines())
	if word := r.kills(); word != "" {
		all = append(all, word)
	}
	all = append(all, r.margin())
	if word := r.busier(); word != "" {
		all = append(all, word)
	}
	if word := r.correlated(); word != "" {
		all = append(all, word)
	}
	ours, quota := r.plain(Learned), find(r.Regimes, Learned, true, r.Load)
	all = append(all,
		fmt.Sprintf("What is learned does not see the future: of %s creates %s were refused at first though a host would have held them, and %s gave up. Whoever must not lose those needs more hosts, or patience for longer than %.4g s.",
			count(ours.Asked), count(ours.WrongRefusals), count(ours.GaveUp), r.PatienceS),
		fmt.Sprintf("A quota that is taken for a capacity gate turns work away that there is room for: %s of %s creates here.", count(quota.OverQuota), count(quota.Asked)),
		"If sandboxes come to hold more than those that taught, each is charged what it holds from the next sample on, so that a host takes fewer; a class that breaks its prediction goes back to its prior by itself. If memory still runs short, the valve shuts the intake, and a sandbox without state goes before the kernel has to choose.",
		"If yours are not like these, none of these figures is yours: give this command your own --runs, --memory and --arrivals (docs/your-own-workload.md).",
	)
	return all
}

// machines is what it costs to stay with what is configured.
func (r *Result) machines() string {
	hosts := func(regime string) string {
		row := r.plain(regime)
		if row.PerHost == 0 {
			return "no number of"
		}
		return count(int64(math.Ceil(r.Load * float64(r.Hosts) / row.PerHost)))
	}
	return fmt.Sprintf("Too little admitted costs machines: for all that is asked for here it takes about %s hosts by what is configured, %s by what was learned, %s by the essay's rule. With %s hosts, %s of what was asked for gave up by what is configured, and %s by what was learned.",
		hosts(Committed), hosts(Learned), hosts(Essay), count(int64(r.Hosts)),
		percent(part(r.plain(Committed).GaveUp, r.plain(Committed).Asked)), percent(part(r.plain(Learned).GaveUp, r.plain(Learned).Asked)))
}

// kills is what it costs to refuse nobody; "" where it cost nothing at any load.
func (r *Result) kills() string {
	worst := r.plain(None)
	for _, row := range r.at(None) {
		if row.Kills > worst.Kills {
			worst = row
		}
	}
	if worst.Kills == 0 {
		return ""
	}
	return fmt.Sprintf("Too much admitted costs work: where nobody is refused the kernel killed %s sandboxes at %.4g asked for per host, and %s at %.4g, with %s of their work; it takes the largest, whoever it is.",
		count(r.plain(None).Kills), r.Load, count(worst.Kills), worst.Load, hours(worst.LostWork))
}

// margin is how near each came to the end of the machine.
func (r *Result) margin() string {
	ours, essay := r.plain(Learned), r.plain(Essay)
	words := fmt.Sprintf("By what was learned the fullest second of any host left %s MiB of %s", count(r.HostMB-ours.MostResident), count(r.HostMB))
	if ours.MostResident > r.HostMB {
		words = fmt.Sprintf("By what was learned a host was over its %s MiB: do not switch on this evidence", count(r.HostMB))
	}
	if essay.MostResident > ours.MostResident && essay.PerHost > ours.PerHost {
		return words + fmt.Sprintf(". The essay's rule held more, %s on a host and not %s, and paid with its margin: %s MiB left, %s s in the headroom, %s evicted or killed. It gives its reserve up before a sandbox peaks.",
			many(essay.PerHost), many(ours.PerHost), count(max(r.HostMB-essay.MostResident, 0)), count(essay.InHeadroom), count(essay.ended()))
	}
	return words + "."
}

// busier is what a little more load costs; "" where none was played.
func (r *Result) busier() string {
	for _, row := range r.at(Learned) {
		if row.Load > r.Load {
			now := r.plain(Learned)
			return fmt.Sprintf("If the load was judged too low, and %.4g are asked for per host instead of %.4g, %s give up by what was learned instead of %s, and %s are killed or evicted.",
				row.Load, r.Load, percent(part(row.GaveUp, row.Asked)), percent(part(now.GaveUp, now.Asked)), count(row.ended()))
		}
	}
	return ""
}

// correlated is what it costs if they peak together; "" where it was not played apart.
func (r *Result) correlated() string {
	if len(r.Together) == 0 {
		return ""
	}
	lost := func(regime string, quota bool) string {
		return count(find(r.Together, regime, quota, r.Load).ended())
	}
	return fmt.Sprintf("If whole batches peak in the same second, a bet on what is not touched can be lost whoever makes it: of %s creates that were played so %s were killed or evicted by what was learned, %s by the essay's rule, %s where nobody is refused; with a quota %s, %s and %s. A class of that kind is charged what is configured once it is called stateful; a quota bounds what one tenant of it can do.",
		count(find(r.Together, Learned, false, r.Load).Asked), lost(Learned, false), lost(Essay, false), lost(None, false), lost(Learned, true), lost(Essay, true), lost(None, true))
}

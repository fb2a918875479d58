package control

import (
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/table"
)

// cohort is whom a sandbox peaks together with. What is charged in full takes part in no bet.
func (d *driving) cohort() table.Cohort {
	if d.req.Ask.Stateful {
		return 0
	}
	return table.CohortOf(d.req.Claim.Contents.Tenant, d.req.Ask.Template)
}

// came tells the table what came of a reserve: a promise counts for its cohort, a host that
// answers is trusted, and one that does not answer twice in a row is left alone for a while.
func (d *driving) came(hostID string, answered, promised bool) {
	g := d.gateway
	g.mu.Lock()
	defer g.mu.Unlock()
	ref, _ := g.table.Lookup(hostID)
	if promised {
		g.table.Place(d.charge, g.Now())
	}
	was, _ := g.table.Quarantined(hostID, g.Now())
	if answered {
		g.table.Answered(ref, g.Now())
	} else {
		g.table.Unanswered(ref, g.Now())
	}
	g.tellTrust(hostID, was)
	g.table.Uncharge(d.charge)
}

// boots tells the table of the boots that a host speaks of: which came up, and how many failed.
func (g *Gateway) boots(hostID string, up, failed int) {
	if up+failed == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	ref, _ := g.table.Lookup(hostID)
	was, _ := g.table.Quarantined(hostID, g.Now())
	for range failed {
		g.table.BootFailed(ref, g.Now())
	}
	if up > 0 {
		g.table.Booted(ref, g.Now())
	}
	g.tellTrust(hostID, was)
}

// tellTrust says in the log that a host was quarantined, or is no more. g.mu must be held.
func (g *Gateway) tellTrust(hostID string, was table.Cause) {
	cause, until := g.table.Quarantined(hostID, g.Now())
	switch {
	case cause == was:
	case cause != table.Trusted:
		g.Log.Warn("host quarantined: nothing is placed on it, but for a trial from then on", "host", hostID, "cause", cause, "for", (until - g.Now()).Round(time.Second))
	default:
		g.Log.Info("host trusted again", "host", hostID, "cause", was)
	}
}

// unbooted counts the ends of sandboxes that never came up, of those not heard of before.
func (t *tending) unbooted(ends []host.End) (n int) {
	for _, e := range ends {
		if _, known := t.ends[host.Ref{ID: e.ID, Epoch: e.Epoch}]; e.Unbooted && !known {
			n++
		}
	}
	return n
}

// heldAgainst is why nothing is placed on a host, as the API says it, "" if nothing stands
// against it; and how many reserves in a row it left unanswered, before it comes to that.
func (g *Gateway) heldAgainst(hostID string) (why api.Quarantine, unanswered int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	cause, _ := g.table.Quarantined(hostID, g.Now())
	return api.Quarantine(cause.String()), int64(g.table.UnansweredBy(hostID))
}

// useCohortRule puts a configuration's rule in force in the table.
func (g *Gateway) useCohortRule(fleet *config.Fleet) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.table.SetCohortRule(fleet.CohortRule())
}

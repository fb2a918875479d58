package sim

import (
	"time"

	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// What nobody should do, and somebody does now and then in a history that a seed draws: each
// must come to nothing.

// promiseFor is how long a replica asks a host to hold a reservation. One that miscounts asks
// for a day.
func (f *Fleet) promiseFor() time.Duration {
	if f.rough && f.chance(2) {
		return 24 * time.Hour
	}
	return bootWithin
}

// tamper has a ticket redeemed that is not what was minted, or at a host that it is not for.
func (f *Fleet) tamper(a *agent, text ticket.Text) {
	if !f.rough || !f.chance(3) {
		return
	}
	at := f.agents[f.rand.IntN(len(f.agents))]
	if at == a {
		forged := []byte(text)
		i := len(forged) - 1 - f.rand.IntN(20) // in the MAC
		forged[i] = 'A' + (forged[i]+1)%26
		text = ticket.Text(forged)
	}
	f.after(f.between(time.Millisecond, 5*time.Second), func() {
		at.awakeNow(func() {
			if _, err := at.keys.Verify(text, ticket.Expect{Audience: at.id}); err == nil {
				f.violate(boots, "host %s takes a ticket that is forged, or for %s", at.id, a.id)
			}
		})
	})
}

// order is an operator's word to a host.
func (a *agent) order(to host.Intake) {
	a.awake(func() { a.step(host.SetIntake{Intake: to}) })
}

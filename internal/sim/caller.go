package sim

import (
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/backoff"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/hint"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// class is a kind of sandbox that callers ask for.
type class struct {
	name     string
	pool     string
	priority int64
	ask      gate.Ask
}

// classes are the kinds; their needs are small against the hosts, and one is stateful. The
// last two are booted by a substrate.
func classes() []class {
	rule := gate.ReserveRule{Permille: 257, Floor: 64 * gate.MiB} // no whole number of MiB, so that rounding shows
	short := rule
	short.Until, short.SettleAfter = gate.UntilSettled, 2*time.Second
	return []class{
		{name: "small", pool: poolName, ask: gate.Ask{Class: "small", Memory: 512 * gate.MiB, CPUMilli: 500, Rule: rule}},
		{name: "large", pool: poolName, ask: gate.Ask{Class: "large", Memory: 2048 * gate.MiB, CPUMilli: 1000, Rule: short}},
		{name: "database", pool: poolName, priority: urgent, ask: gate.Ask{Class: "database", Memory: 1024 * gate.MiB, CPUMilli: 500, Stateful: true, Rule: short}},
		{name: "app", pool: poolName, ask: gate.Ask{Class: "app", Memory: 768 * gate.MiB, CPUMilli: 500, Rule: short, HoldOnExit: true}},
		{name: "job", pool: pureName, ask: gate.Ask{Class: "job", Memory: 512 * gate.MiB, CPUMilli: 500}},
		{name: "turn", pool: pureName, priority: urgent, ask: gate.Ask{Class: "turn", Memory: 512 * gate.MiB, CPUMilli: 500}},
	}
}

func (c *class) contents(tenant string) pool.Contents {
	return pool.Contents{
		Tenant: tenant, Class: c.name, MemoryMB: c.ask.Memory.CeilMiB(), Stateful: c.ask.Stateful, HoldOnExit: c.ask.HoldOnExit, Priority: c.priority,
	}
}

// caller wants one key admitted, uses it, and comes back: through the SDK's own backoff, or,
// in a storm, without any.
type caller struct {
	fleet     *Fleet
	key       string
	consumer  string
	tenant    string
	class     class
	impatient bool
	until     time.Duration // it is that long
	once      bool          // does not come back
	gone      bool          // will never call again
	tries     *backoff.Backoff
	mode      pool.Mode
	call      int // rises with every call, so that late answers are told apart
}

// callWithin is when a caller takes a connection for lost.
const callWithin = 40 * time.Second

// create begins anew, while callers come at all.
func (c *caller) create() {
	f := c.fleet
	if f.now >= f.plan.Active || c.gone {
		return
	}
	c.tries = backoff.New(backoff.Policy{}, f.wall())
	c.mode = pool.Refuse
	if f.chance(50) {
		c.mode = pool.Queue
	}
	c.post(false)
}

// post asks any replica that answers; a lost connection is tried elsewhere.
func (c *caller) post(attempt bool) {
	f := c.fleet
	c.call++
	call := c.call
	r := f.anyReplica()
	if !r.up {
		f.after(10*time.Millisecond, func() { c.answered(call, nil, admission.Answer{Kind: admission.No, Code: api.Unavailable}) })
		return
	}
	claim := pool.Claim{
		ID: "a-" + c.key, Consumer: c.consumer, Key: c.key, Pool: c.class.pool, Mode: c.mode, MaxQueueAge: time.Minute, Attempt: attempt,
		Contents: c.class.contents(c.tenant),
	}
	if attempt && !f.chance(20) {
		claim.Present = presentFor
	}
	r.awake(r.life, func() {
		r.drive(admission.Request{Claim: claim, Ask: r.taught(c.class.ask)}, func(a admission.Answer) { c.answered(call, r, a) })
	})
	f.after(callWithin, func() { c.answered(call, nil, admission.Answer{Kind: admission.No, Code: api.Unavailable}) })
}

// answered does what callers do: boot, dawdle, change their mind, come back.
func (c *caller) answered(call int, r *replica, a admission.Answer) {
	f := c.fleet
	if call != c.call {
		return
	}
	c.call++
	f.fact(factAnswer, c.key, int64(a.Kind))
	f.tell("%s is told %s", c.key, words(a))
	switch a.Kind {
	case admission.Yes:
		f.result.Admitted++
		c.comeBack(c.use(r, a.Row))
	case admission.Wait:
		c.wait(a)
	default:
		f.result.Refused++
		c.retry(r, a)
	}
}

// wait holds a long poll: the next attempt comes when the replica looks again, or much
// later, when the caller hung up.
func (c *caller) wait(a admission.Answer) {
	f := c.fleet
	pause := f.between(100*time.Millisecond, presentEvery)
	if f.chance(10) {
		pause = f.between(5*time.Second, 40*time.Second)
	}
	if f.chance(5) {
		f.after(pause, func() { c.leave("a-"+c.key, 0) })
		return
	}
	f.after(pause, func() { c.post(!f.chance(10)) })
}

// retry follows the appointment with the SDK's backoff, until its patience ends.
func (c *caller) retry(r *replica, a admission.Answer) {
	f := c.fleet
	status := a.Code.Meaning().Status
	if c.impatient && f.now < c.until {
		c.later(f.between(time.Millisecond, f.pace(50*time.Millisecond)), c.create)
		return
	}
	o := backoff.Outcome{Status: status}
	if r != nil && r.up {
		rate, _ := r.slots.Rate(f.now)
		o.RetryMS = hint.Millis(hint.Appointment(r.book.Place(f.now, 1, rate), rate, hint.DefaultBounds(), f.rand.Uint64()))
	}
	delay, verdict := c.tries.Next(f.wall(), o, f.rand.Uint64())
	if verdict != backoff.Retry {
		c.later(f.between(time.Second, 20*time.Second), c.create)
		return
	}
	f.after(delay, func() { c.post(false) })
}

// pace is how long callers are busy otherwise: a history that must be long has not more calls.
func (f *Fleet) pace(usually time.Duration) time.Duration {
	return max(usually, usually/180*(f.plan.Active/time.Second))
}

func (c *caller) later(d time.Duration, do func()) {
	if !c.once {
		c.fleet.after(d, do)
	}
}

// comeBack has the caller ask anew: most wait for the end of what runs for long.
func (c *caller) comeBack(lasts time.Duration) {
	f := c.fleet
	again := f.between(time.Second, f.pace(90*time.Second))
	if lasts > longestLife && f.chance(70) {
		again = lasts
	}
	c.later(again, c.create)
}

// use boots what was admitted, or lets it lapse, or gives it back, or asks again for the
// same; it says how long the sandbox is going to run.
func (c *caller) use(r *replica, row pool.Row) time.Duration {
	f := c.fleet
	if row.Audience != "" {
		c.useSlot(r, row)
		return 0
	}
	if f.chance(20) {
		f.after(f.between(0, 30*time.Second), func() { c.leave(row.ID, row.Epoch) })
	}
	if f.rough && f.chance(40) {
		f.after(f.between(100*time.Millisecond, 20*time.Second), func() { c.heartbeat(row.ID, nil) })
	}
	text, ok := r.mint(row)
	a := f.byID[row.Host]
	if !ok || a == nil || f.chance(12) {
		return 0
	}
	resident := 20*gate.MiB + gate.Bytes(f.rand.Int64N(row.MemoryMB<<20/6+1))
	f.tamper(a, text)
	lasts := f.lifetime()
	if lasts > longestLife {
		f.after(f.between(longestLife, 2*lasts), func() { c.leave(row.ID, row.Epoch) })
	}
	boot := func() { a.redeem(text, life{peak: resident, lasts: lasts}) }
	if row.HoldOnExit {
		boot = c.restarting(a, row, text, life{peak: resident, lasts: lasts})
	}
	f.after(f.between(time.Millisecond, 5*time.Second), boot)
	if f.rough {
		ref := host.Ref{ID: row.ID, Epoch: row.Epoch}
		a.booters[ref] = boot
		f.after(bootWithin, func() { delete(a.booters, ref) }) // no ticket outlives that
	}
	if f.chance(5) { // a copy of the ticket, used again
		f.after(f.between(time.Millisecond, 70*time.Second), func() { a.redeem(text, life{peak: resident, lasts: time.Second}) })
	}
	return lasts
}

// restarting boots, and boots again some time after each end with the newest ticket, while
// its heartbeats keep the place; then they stop.
func (c *caller) restarting(a *agent, row pool.Row, text ticket.Text, l life) func() {
	f := c.fleet
	until := f.now + max(f.between(10*time.Second, longestLife), l.lasts)
	var beat, boot func()
	beat = func() {
		if f.now < until {
			c.heartbeat(row.ID, func(now pool.Row, newest ticket.Text) {
				if now.Epoch == row.Epoch {
					text = newest
				}
			})
			f.after(f.between(bootWithin/6, bootWithin/3), beat)
		}
	}
	l.over = func() {
		if f.now < until && f.chance(80) {
			f.after(f.between(0, 30*time.Second), boot)
		}
	}
	boot = func() {
		next := l
		next.lasts = min(l.lasts, max(until-f.now, time.Second))
		a.redeem(text, next)
	}
	f.after(f.between(bootWithin/6, bootWithin/3), beat)
	return boot
}

// lifetime is how long a sandbox is going to run. Where hosts fall silent, some outlive that.
func (f *Fleet) lifetime() time.Duration {
	rest := f.plan.Active + longestLife - f.now
	switch {
	case rest > silence && f.chance(30):
		return f.between(longestLife, rest)
	case f.chance(20):
		return f.between(usualLife, longestLife)
	}
	return f.between(time.Second, usualLife)
}

// heartbeat has what was admitted kept, at any replica that is up, and may take its new ticket.
func (c *caller) heartbeat(id string, then func(pool.Row, ticket.Text)) {
	f := c.fleet
	r := f.anyReplica()
	if !r.up {
		return
	}
	keep := admission.Request{Claim: pool.Claim{ID: id}, Ask: r.taught(c.class.ask), Keep: true}
	r.awake(r.life, func() {
		r.drive(keep, func(a admission.Answer) {
			if text, ok := r.mint(a.Row); ok && a.Kind == admission.Yes && then != nil {
				then(a.Row, text)
			}
		})
	})
}

// perhapsLeave lets the caller of an admission give it back, now and then, perhaps for good.
func (f *Fleet) perhapsLeave(id string, percent int, within time.Duration) {
	for _, c := range f.callers {
		if "a-"+c.key != id || !f.chance(percent) {
			continue
		}
		last := f.chance(50)
		f.after(f.between(0, within), func() {
			c.leave(id, 0)
			c.gone = c.gone || last
		})
	}
}

// leaveAgain asks whether what was going is gone, unless the caller has come back meanwhile.
func (c *caller) leaveAgain(id string, epoch int64, call int) {
	if c.call == call {
		c.leave(id, epoch)
	}
}

// leave gives back what was admitted under that epoch, zero for any, at any replica that is up.
func (c *caller) leave(id string, epoch int64) {
	f := c.fleet
	if r := f.anyReplica(); r.up && !c.gone {
		call := c.call
		r.awake(r.life, func() {
			r.depart(id, epoch, func(a admission.Answer) {
				if a.Kind == admission.Going && c.call == call && !c.gone {
					f.after(f.between(5*time.Second, 20*time.Second), func() { c.leaveAgain(id, epoch, call) })
				}
			})
		})
	}
}

// words says an answer for the transcript.
func words(a admission.Answer) string {
	switch a.Kind {
	case admission.Yes:
		return fmt.Sprintf("yes: %s/%d on %s", a.Row.ID, a.Row.Epoch, audience(&a.Row))
	case admission.Wait:
		return "to wait for a " + a.Row.WaitingFor
	}
	if len(a.Tally) > 0 {
		return fmt.Sprintf("no: %s, %v", a.Code, map[string][]string(a.Tally))
	}
	return "no: " + string(a.Code)
}

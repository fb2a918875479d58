package sim

import (
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/pool"
)

// crowd is many callers who do all the same.
type crowd struct {
	prefix   string
	n        int64
	class    string
	consumer string
	tenant   string
	queue    bool
	every    time.Duration // a stream: one comes after the other
	until    time.Duration // a crowd: each comes again and again so long
	lasts    time.Duration // of what it boots
}

func parseStream(w *wording) act { return parseCrowdOf(w, true) }

func parseCrowd(w *wording) act { return parseCrowdOf(w, false) }

func parseCrowdOf(w *wording, stream bool) act {
	c := crowd{prefix: w.name("the beginning of their keys"), n: w.number("how many"), class: w.name("a class"), consumer: plain, tenant: "t"}
	for len(w.rest) > 0 {
		switch {
		case w.has("as"):
			c.consumer = w.name("a consumer")
		case w.has("tenant"):
			c.tenant = w.name("a tenant")
		case w.has("queue"):
			c.queue = true
		case stream && w.has("every"):
			c.every = w.time()
		case !stream && w.has("for"):
			c.until = w.time()
		case w.has("lasts"):
			c.lasts = w.time()
		default:
			w.fail("nobody knows what %q means here", w.rest[0])
		}
	}
	if w.err == nil && (c.lasts <= 0 || c.every+c.until <= 0 || c.n > mostKeys) {
		w.fail("say how often or how long they come, and how long what they boot lasts; at most %d of them", mostKeys)
	}
	return func(s *stage) error { return s.come(c) }
}

// come lets them come: one after the other, or all at once and again and again.
func (s *stage) come(c crowd) error {
	if c.until > 0 {
		c.until += s.now
	}
	for i := range c.n {
		p, err := s.introduced(fmt.Sprintf("%s%d", c.prefix, i+1), c.class)
		if err != nil {
			return err
		}
		p.consumer, p.tenant = c.consumer, c.tenant
		if c.queue {
			p.mode, p.patience = pool.Queue, 10*time.Minute
		}
		s.after(c.every*time.Duration(i), func() { p.join(c) })
	}
	return nil
}

// join asks once; whoever is one of a crowd asks again until its time is over.
func (p *party) join(c crowd) {
	s := p.stage
	r := s.anyReplica()
	again := func(in time.Duration) {
		if s.now+in < c.until {
			s.after(in, func() { p.join(c) })
		}
	}
	if !p.asks(r) {
		again(time.Second)
		return
	}
	p.send(r, admission.Request{Claim: p.claim(p.waits(), presentFor*time.Duration(min(p.tries-1, 1))), Ask: p.class.ask}, func(a admission.Answer) {
		if a.Kind != admission.Yes {
			again(s.between(100*time.Millisecond, presentEvery))
			return
		}
		p.useFor(r, c.lasts, func() { again(s.between(0, time.Second)) })
	})
}

// waits says whether its last answer was a place in the line.
func (p *party) waits() bool {
	row, ok := p.stage.model().ByID(p.id())
	return ok && row.State == pool.Waiting
}

// useFor boots what was admitted, and gives it back when that has ended.
func (p *party) useFor(r *replica, lasts time.Duration, then func()) {
	s, t := p.stage, *p.newest()
	if t.row.Audience != "" {
		p.redeemAt(t, "", lasts)
	} else {
		s.byID[t.row.Host].redeem(t.text, life{peak: gate.FromMiB(10), lasts: lasts})
	}
	s.after(lasts+time.Second/2, func() {
		r.depart(p.id(), t.row.Epoch, func(admission.Answer) { then() })
	})
}

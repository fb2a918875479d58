package sim

import (
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/backoff"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/hint"
)

// app is a hosted application that is woken: its platform asks with the SDK's backoff and
// writes a status down. Only what can never be becomes `error`.
type app struct {
	tries   *backoff.Backoff
	history []string // statuses, as they changed
}

func (a *app) set(status string) {
	if n := len(a.history); n == 0 || a.history[n-1] != status {
		a.history = append(a.history, status)
	}
}

func parseApp(w *wording) act {
	keys, of := w.keys(), w.name("a class")
	at := w.replicas("patience")
	policy := backoff.Policy{}
	if w.has("patience") {
		policy.Deadline = w.time()
	}
	return func(s *stage) error {
		return s.each(keys, at, func(key string, r *replica) error {
			p, err := s.introduced(key, of)
			if err == nil {
				p.app = &app{tries: backoff.New(policy, s.wall())}
				p.wake(r)
			}
			return err
		})
	}
}

// wake asks once; a replica that is down is a lost connection.
func (p *party) wake(r *replica) {
	if !p.asks(r) {
		p.told(r, admission.Answer{Kind: admission.No, Code: api.Unavailable})
		return
	}
	p.send(r, admission.Request{Claim: p.claim(false, 0), Ask: p.class.ask}, func(a admission.Answer) { p.told(r, a) })
}

// told does what the platform does with an answer.
func (p *party) told(r *replica, a admission.Answer) {
	s := p.stage
	if a.Kind == admission.Yes {
		p.app.set("admitted")
		if err := p.redeem(*p.newest(), gate.FromMiB(10), false); err != nil {
			s.violate(boots, "%v", err)
		}
		return
	}
	o := backoff.Outcome{Status: a.Code.Meaning().Status}
	if r.up {
		rate, _ := r.slots.Rate(s.now)
		o.RetryMS = hint.Millis(hint.Appointment(r.book.Place(s.now, 1, rate), rate, hint.DefaultBounds(), s.rand.Uint64()))
	}
	delay, verdict := p.app.tries.Next(s.wall(), o, s.rand.Uint64())
	switch verdict {
	case backoff.Retry:
		p.app.set("waiting_capacity")
		s.tell("%s asks again in %v", p.key, delay.Round(time.Millisecond))
		s.after(delay, func() { p.wake(r) })
	case backoff.OutOfPatience:
		p.app.set("waiting_capacity") // parked, not failed
		s.tell("%s is parked", p.key)
	default:
		p.app.set("error")
	}
}

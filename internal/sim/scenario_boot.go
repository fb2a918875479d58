package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

func parseBoot(w *wording) act {
	keys := w.keys()
	size, fails, with, as := gate.FromMiB(10), false, int64(0), ""
	for len(w.rest) > 0 {
		switch {
		case w.has("using"):
			size = w.size()
		case w.has("and fail"):
			fails = true
		case w.has("with ticket"):
			with = w.number("which")
		case w.has("as"):
			as = w.name("an instance")
		default:
			w.fail("nobody knows what %q means here", w.rest[0])
		}
	}
	return func(s *stage) error {
		return s.each(keys, nil, func(key string, _ *replica) error {
			p, err := s.known(key)
			if err != nil {
				return err
			}
			t := p.newest()
			if with > 0 && int(with) <= len(p.tickets) {
				t = &p.tickets[with-1]
			}
			if t == nil || int(with) > len(p.tickets) {
				return fmt.Errorf("%s has no such ticket", key)
			}
			if t.row.Audience != "" {
				p.redeemAt(*t, as, forever)
				return nil
			}
			return p.redeem(*t, size, fails)
		})
	}
}

// redeem boots with a ticket at the host that it names.
func (p *party) redeem(t placed, size gate.Bytes, fails bool) error {
	s := p.stage
	a := s.byID[t.row.Host]
	if !t.ok || a == nil {
		return fmt.Errorf("no ticket can be minted for %s on %q", p.key, t.row.Host)
	}
	p.boot = "unanswered"
	a.redeem(t.text, life{peak: size, lasts: forever, fails: fails, told: func(d host.Denial) {
		p.boot = strings.TrimSpace("refused " + string(d))
		if d == "" {
			p.boot = "booted"
		}
	}})
	if size > gate.FromMiB(10) {
		ref := host.Ref{ID: t.row.ID, Epoch: t.row.Epoch}
		s.after(time.Second, func() { a.holds(ref, size) })
	}
	return nil
}

// holds lets a sandbox hold that much from now on.
func (a *agent) holds(ref host.Ref, size gate.Bytes) bool {
	p := a.running[ref]
	if p != nil {
		a.grow(ref, p, size)
	}
	return p != nil
}

// sandbox finds where a key's sandbox runs.
func (p *party) sandbox() (*agent, host.Ref, error) {
	for _, a := range p.stage.agents {
		for ref := range a.running {
			if ref.ID == p.id() {
				return a, ref, nil
			}
		}
	}
	return nil, host.Ref{}, fmt.Errorf("%s runs nowhere", p.key)
}

func parseGrow(w *wording) act {
	keys, size := w.keys(), w.size()
	return onSandbox(keys, func(a *agent, ref host.Ref) { a.holds(ref, size) })
}

func parseEnd(w *wording) act {
	return onSandbox(w.keys(), func(a *agent, ref host.Ref) { a.exit(ref, "ended by itself") })
}

func onSandbox(keys []string, do func(*agent, host.Ref)) act {
	return func(s *stage) error {
		return s.each(keys, nil, func(key string, _ *replica) error {
			if s.endInstance(s.of(key).id()) {
				return nil
			}
			a, ref, err := s.of(key).sandbox()
			if err == nil {
				do(a, ref)
			} else if strings.HasSuffix(keys[0], "*") {
				return nil // it does not run any more
			}
			return err
		})
	}
}

// endInstance ends what a substrate runs of an admission, if anything.
func (s *stage) endInstance(id string) bool {
	if s.substrate == nil {
		return false
	}
	for _, ref := range sortedRefs(s.substrate.running) {
		if ref.ID == id {
			s.substrate.stop(ref, s.substrate.running[ref])
			return true
		}
	}
	return false
}

package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/host"
)

// cut is a replica's death at one moment of one key's passage.
type cut struct {
	replica *replica
	id, do  string
	during  bool
}

// loss is one frame, or answer, that will be lost.
type loss struct {
	host   int
	what   frame
	answer bool
}

// fault is one transition that will fail.
type fault struct {
	what     write
	persists bool
}

func (s *stage) cutBefore(r *replica, id, do string) { s.cut(r, id, do, false) }

func (s *stage) cutDuring(r *replica, id, do string) { s.cut(r, id, do, true) }

func (s *stage) cut(r *replica, id, do string, during bool) {
	i := slices.IndexFunc(s.cuts, func(c *cut) bool { return *c == cut{r, id, do, during} })
	if i < 0 {
		return
	}
	s.cuts = slices.Delete(s.cuts, i, i+1)
	s.tell("replica %d dies, its passage of %s being at %s", r.index+1, id, do)
	r.kill(forever)
}

func (s *stage) loses(l link, what frame, answer bool) bool {
	i := slices.IndexFunc(s.losses, func(x *loss) bool { return *x == loss{l.host, what, answer} })
	if i < 0 {
		return false
	}
	s.losses = slices.Delete(s.losses, i, i+1)
	s.tell("the %s of replica %d and %s is lost (answer: %t)", what, l.replica+1, s.agents[l.host].id, answer)
	return true
}

func (s *stage) fails(what write) (fails, persists bool) {
	if s.down {
		return true, false
	}
	i := slices.IndexFunc(s.faults, func(f *fault) bool { return f.what == what })
	if i < 0 {
		return false, true
	}
	f := s.faults[i]
	s.faults = slices.Delete(s.faults, i, i+1)
	s.tell("the store fails at %s; persisted: %t", what, f.persists)
	return true, f.persists
}

// unspent is an order that never came to pass: the scenario then proves less than it says.
func (s *stage) unspent() error {
	if n := len(s.cuts) + len(s.losses) + len(s.faults); n > 0 {
		return fmt.Errorf("%d of the ordered deaths, losses and failures never came to pass", n)
	}
	return nil
}

// effects are the words for what a passage does.
func effects() []string {
	var out []string
	for do := admission.Claim; do <= admission.Reply; do++ {
		out = append(out, doing(do))
	}
	return append(out, doing(admission.Leave), doing(admission.End))
}

func parseKill(w *wording) act {
	id := w.name("who")
	for _, during := range []bool{false, true} {
		if w.has(map[bool]string{false: "before", true: "during"}[during]) {
			return parseCut(w, id, during)
		}
	}
	away := time.Duration(forever)
	if w.has("for") {
		away = w.time()
	}
	return func(s *stage) error {
		if a := s.byID[id]; a != nil {
			a.kill(away, noLoss)
			return nil
		}
		r, err := s.replica(id)
		if err == nil {
			r.kill(away)
		}
		return err
	}
}

func parseCut(w *wording, id string, during bool) act {
	do := w.word("what it is about to do")
	if !slices.Contains(effects(), do) {
		w.fail("a passage never does %q", do)
	}
	w.must("of")
	key := w.name("a key")
	return func(s *stage) error {
		r, err := s.replica(id)
		if err == nil {
			s.cuts = append(s.cuts, &cut{r, s.of(key).id(), do, during})
		}
		return err
	}
}

func parseRestart(w *wording) act {
	id := w.name("who")
	return func(s *stage) error {
		if a := s.byID[id]; a != nil {
			if a.up {
				return fmt.Errorf("%s is up", id)
			}
			a.restart(s.takes[id])
			delete(s.takes, id)
			return nil
		}
		r, err := s.replica(id)
		switch {
		case err != nil:
			return err
		case r.up:
			return fmt.Errorf("%s is up", id)
		}
		r.start()
		return nil
	}
}

func parseWipe(w *wording) act { return losing(w, lostAll) }

func parseForget(w *wording) act { return losing(w, lostLedger) }

func losing(w *wording, takes forgets) act {
	return ofHost(w, func(s *stage, a *agent) {
		a.kill(forever, takes)
		s.takes[a.id] = takes
	})
}

func parsePause(w *wording) act {
	id, t := w.name("who"), w.time()
	return func(s *stage) error {
		if a := s.byID[id]; a != nil {
			s.Fleet.pause(&a.doze, t)
			return nil
		}
		r, err := s.replica(id)
		if err == nil {
			s.Fleet.pause(&r.doze, t)
		}
		return err
	}
}

// ofHost is a command whose next word is a host.
func ofHost(w *wording, do func(*stage, *agent)) act {
	id := w.name("a host")
	return func(s *stage) error {
		a, err := s.host(id)
		if err == nil {
			do(s, a)
		}
		return err
	}
}

func parsePartition(w *wording) act {
	if len(w.rest) < 2 {
		return ofHost(w, func(s *stage, a *agent) {
			for _, r := range s.replicas {
				s.net.cut[link{r.index, a.index}] = true
			}
		})
	}
	return ofLink(w, func(s *stage, l link) { s.net.cut[l] = true })
}

func parseDeaf(w *wording) act {
	return ofLink(w, func(s *stage, l link) { s.net.deaf[l] = true })
}

// ofLink is a command whose next words are a replica and a host.
func ofLink(w *wording, do func(*stage, link)) act {
	rid, hid := w.name("a replica"), w.name("a host")
	return func(s *stage) error {
		r, err := s.replica(rid)
		if err != nil {
			return err
		}
		a, err := s.host(hid)
		if err == nil {
			do(s, link{r.index, a.index})
		}
		return err
	}
}

func parseFreeze(w *wording) act {
	return ofHost(w, func(s *stage, a *agent) { s.net.frozen[a.index] = true })
}

func parseHeal(*wording) act {
	return func(s *stage) error {
		clear(s.net.cut)
		clear(s.net.deaf)
		clear(s.net.frozen)
		return nil
	}
}

func parseLose(w *wording) act {
	w.must("next")
	answer := w.has("answer to")
	what := frame(w.word("a frame"))
	if !slices.Contains([]frame{frameReserve, frameRenew, frameRelease, frameAck, frameStand, frameQuestion, frameNews}, what) {
		w.fail("there is no frame %q", what)
	}
	if answer {
		w.must("of")
	} else {
		w.must("to")
	}
	return ofHost(w, func(s *stage, a *agent) {
		s.losses = append(s.losses, &loss{a.index, what, answer || what == frameNews})
	})
}

func parseStore(w *wording) act {
	switch {
	case w.has("down"):
		return set(func(s *stage) { s.down = true })
	case w.has("up"):
		return set(func(s *stage) { s.down = false })
	}
	w.must("fails next")
	what := write(w.word("a transition"))
	known := []write{
		"claim", "settle", "regen", "no-room", "keep", "move", "read", "hear", writeTrack, writeEnd, writeLeave,
		writePulse, writeReopen, writeReturn, writeRedeem, writeSeen,
	}
	if !slices.Contains(known, what) {
		w.fail("the store has no transition %q", what)
	}
	persists := w.has("but persists")
	return func(s *stage) error {
		s.faults = append(s.faults, &fault{what, persists})
		return nil
	}
}

func parseClock(w *wording) act {
	w.must("of store")
	t := w.time()
	return func(s *stage) error { s.store.ahead += t; return nil }
}

func parseOther(w *wording) act {
	id := w.name("a host")
	size := w.size()
	w.rest = append([]string{id}, w.rest...)
	return ofHost(w, func(_ *stage, a *agent) { a.other = size })
}

func parseFlutter(w *wording) act {
	id := w.name("a host")
	low, high := w.size(), w.size()
	w.must("every")
	every := w.time()
	w.must("for")
	lasts := w.time()
	if every <= 0 && w.err == nil {
		w.fail("every must be above zero")
	}
	return func(s *stage) error {
		a, err := s.host(id)
		if err != nil {
			return err
		}
		for t, up := time.Duration(0), true; t < lasts; t, up = t+every, !up {
			size := low
			if up {
				size = high
			}
			s.after(t, func() { a.other = size })
		}
		return nil
	}
}

func parseStalls(w *wording) act {
	id, n := w.name("a host"), w.percent()
	return func(s *stage) error {
		a, err := s.host(id)
		if err == nil {
			a.stalls = max(100*n, 1)
		}
		return err
	}
}

func parseIntake(to string) func(*wording) act {
	return func(w *wording) act {
		return ofHost(w, func(_ *stage, a *agent) {
			for _, i := range []host.Intake{host.IntakeOpen, host.IntakeCordoned, host.IntakeDraining} {
				if i.String() == to {
					a.step(host.SetIntake{Intake: i})
				}
			}
		})
	}
}

func parseRotate(w *wording) act {
	w.must("keys")
	return func(s *stage) error { s.rotate(Episode{No: int(s.serial)}); return nil }
}

// set is a command that only sets something.
func set(do func(*stage)) act {
	return func(s *stage) error {
		do(s)
		return nil
	}
}

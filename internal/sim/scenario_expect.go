package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

func parseExpect(w *wording) act {
	switch {
	case w.has("idle"):
		return expectIdle
	case w.has("order"):
		return expectOrder(w)
	case w.has("pool"):
		return expectPool(w)
	case len(w.rest) > 1 && strings.Trim(w.rest[0], "0123456789") == "":
		return expectTally(w)
	}
	id := w.word("what is expected")
	if len(w.rest) == 0 {
		w.fail("what of %s?", id)
		return nil
	}
	if g, ok := gauges()[w.rest[0]]; ok {
		w.word("")
		return expectGauge(w, id, g)
	}
	switch {
	case w.has("intake"):
		return expectIntake(w, id)
	case w.has("is"):
		return expectRow(w, id)
	case w.has("runs"):
		return expectRuns(w, id)
	}
	return expectKey(w, id)
}

func expectIdle(s *stage) error {
	if err := s.unspent(); err != nil {
		return err
	}
	if left := s.unrest(); len(left) > 0 {
		return fmt.Errorf("expected every gauge to be zero, and %s", left[0].What)
	}
	return nil
}

func expectOrder(w *wording) act {
	var keys []string
	for len(w.rest) > 0 && w.err == nil {
		keys = append(keys, w.keys()...)
	}
	if len(keys) < 2 {
		w.fail("an order has at least two keys")
	}
	return func(s *stage) error {
		var seen []string
		for _, p := range s.asked {
			if slices.Contains(keys, p.key) && p.admitted > 0 {
				seen = append(seen, p.key)
			}
		}
		slices.SortStableFunc(seen, func(a, b string) int { return cmp.Compare(s.keys[a].admitted, s.keys[b].admitted) })
		return differs(strings.Join(keys, " "), strings.Join(seen, " "))
	}
}

// differs is what was expected and what was, where they are not the same.
func differs(want, got string) error {
	if want == got {
		return nil
	}
	return fmt.Errorf("expected %s, and it was %s", want, cmp.Or(got, "nothing"))
}

func outside(want bound, got int64) error {
	if want.holds(got) {
		return nil
	}
	return fmt.Errorf("expected %s, and it was %d", want, got)
}

func expectPool(w *wording) act {
	id, what, want := w.name("a pool"), w.word("busy, waiting or cap"), w.bound()
	if what != "busy" && what != "waiting" && what != "cap" {
		w.fail("a pool is not %q", what)
	}
	return func(s *stage) error {
		s.model().Advance(s.store.time()) // a cap for a while ends by the clock, though nobody asks
		for _, l := range s.model().Lines() {
			if l.Name == id {
				return outside(want, map[string]int64{"busy": l.Busy, "waiting": l.Waiting, "cap": l.Limits.Cap}[what])
			}
		}
		return fmt.Errorf("there is no pool %q", id)
	}
}

// expectTally counts the last answers of all keys: `7 admitted, 13 refused no_capacity`.
func expectTally(w *wording) act {
	text := strings.Join(w.rest, " ")
	w.rest = nil
	text, prefix, _ := strings.Cut(text, " among ")
	type count struct {
		want int
		what string
	}
	var counts []count
	for part := range strings.SplitSeq(text, ", ") {
		var c count
		digits, what, _ := strings.Cut(part, " ")
		if _, err := fmt.Sscan(digits, &c.want); err != nil || what == "" {
			w.fail("%q is not how many of what", part)
		}
		c.what = what
		counts = append(counts, c)
	}
	return func(s *stage) error {
		for _, c := range counts {
			got := 0
			for _, p := range s.asked {
				if strings.HasPrefix(p.key, prefix) && (p.outcome() == c.what || (c.what == atOnce && p.atOnce)) {
					got++
				}
			}
			if got != c.want {
				return fmt.Errorf("expected %d %s, and it was %d; in all: %s", c.want, c.what, got, s.outcomes(prefix))
			}
		}
		return nil
	}
}

// atOnce is of those whose first call was a yes, whatever came afterwards.
const atOnce = "admitted at once"

// outcomes counts every outcome, for a message.
func (s *stage) outcomes(prefix string) string {
	counts := map[string]int{}
	for _, p := range s.asked {
		if strings.HasPrefix(p.key, prefix) {
			counts[p.outcome()]++
		}
	}
	var out []string
	for what, n := range counts {
		out = append(out, fmt.Sprintf("%d %s", n, what))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// outcome is the last answer to its caller, in words.
func (p *party) outcome() string {
	if p.last == nil {
		return "unanswered"
	}
	switch p.last.Kind {
	case admission.Yes:
		return "admitted"
	case admission.Wait:
		return "waiting"
	case admission.Gone:
		return "gone"
	case admission.Going:
		return "going"
	}
	return "refused " + string(p.last.Code)
}

// gauges are the numbers of a host.
func gauges() map[string]func(*stage, *agent, *host.View) int64 {
	mib := func(b gate.Bytes) int64 { return b.FloorMiB() }
	return map[string]func(*stage, *agent, *host.View) int64{
		"admittable":   func(_ *stage, a *agent, _ *host.View) int64 { return mib(a.host.Admittable()) },
		"reserved":     func(_ *stage, _ *agent, v *host.View) int64 { return mib(v.Account.Reserved) },
		"reservations": func(_ *stage, _ *agent, v *host.View) int64 { return int64(v.Reservations) },
		"sandboxes":    func(_ *stage, _ *agent, v *host.View) int64 { return int64(len(v.Sandboxes)) },
		"outside":      func(_ *stage, _ *agent, v *host.View) int64 { return int64(len(v.OutOfGate)) },
		"resident":     func(_ *stage, a *agent, _ *host.View) int64 { return mib(a.resident) },
		"aside":        func(_ *stage, _ *agent, v *host.View) int64 { return mib(v.Standing.Need) },
		"kept":         func(_ *stage, _ *agent, v *host.View) int64 { return int64(v.Reopened) },
		"free":         func(_ *stage, _ *agent, v *host.View) int64 { return mib(v.Account.Free) },
		"moves":        func(s *stage, a *agent, _ *host.View) int64 { return s.intakes[a.id].moves },
		"charged": func(_ *stage, _ *agent, v *host.View) (sum int64) {
			for _, c := range v.Charges {
				sum += mib(c)
			}
			return sum
		},
	}
}

func expectGauge(w *wording, id string, gauge func(*stage, *agent, *host.View) int64) act {
	want := w.bound()
	return func(s *stage) error {
		a, err := s.host(id)
		if err != nil {
			return err
		}
		v := a.host.View()
		return outside(want, gauge(s, a, &v))
	}
}

func expectIntake(w *wording, id string) act {
	want := w.word("an intake")
	if !slices.Contains([]string{"open", "pressure", "cordoned", "draining"}, want) {
		w.fail("there is no intake %q", want)
	}
	return func(s *stage) error {
		a, err := s.host(id)
		if err != nil {
			return err
		}
		return differs(want, a.host.Intake().String())
	}
}

// expectRow compares what the store says.
func expectRow(w *wording, key string) act {
	want, on := w.word("a state"), w.on()
	states := []pool.State{"unknown"}
	if states = append(states, pool.States()...); !slices.Contains(states, pool.State(want)) {
		w.fail("there is no state %q", want)
	}
	return func(s *stage) error {
		row, ok := s.model().ByID(s.of(key).id())
		if !ok {
			row.State = "unknown"
		}
		if on == "" {
			row.Host = ""
		}
		return differs(where(want, on), where(string(row.State), row.Host))
	}
}

// on reads `on H`, where it stands.
func (w *wording) on() string {
	if w.has("on") {
		return w.name("a host")
	}
	return ""
}

func where(what, on string) string {
	if on == "" {
		return what
	}
	return what + " on " + on
}

func expectRuns(w *wording, key string) act {
	want := "nowhere"
	if !w.has(want) {
		w.must("on")
		want = w.name("a host")
	}
	return func(s *stage) error {
		var on []string
		for _, a := range s.agents {
			for ref := range a.running {
				if ref.ID == s.of(key).id() {
					on = append(on, a.id)
				}
			}
		}
		if s.substrate != nil {
			for ref := range s.substrate.running {
				if ref.ID == s.of(key).id() {
					on = append(on, s.substrate.name)
				}
			}
		}
		return differs(want, cmp.Or(strings.Join(on, ", "), "nowhere"))
	}
}

// expectKey compares what a caller knows.
func expectKey(w *wording, key string) act {
	check := keyCheck(w)
	return func(s *stage) error {
		p, err := s.known(key)
		if err != nil {
			return err
		}
		return check(p)
	}
}

func keyCheck(w *wording) func(*party) error {
	switch {
	case w.has("tries"):
		return number(w, func(p *party) int64 { return int64(p.tries) })
	case w.has("yeses"):
		return number(w, func(p *party) int64 { return int64(len(p.yeses)) })
	case w.has("place"):
		return number(w, func(p *party) int64 {
			row, _ := p.stage.model().ByID(p.id())
			return row.Place
		})
	case w.has("waited"):
		return waited(w)
	case w.has("history"):
		want := strings.Join(w.many("a status"), " ")
		return func(p *party) error {
			if p.app == nil {
				return fmt.Errorf("%s is no app", p.key)
			}
			return differs(want, strings.Join(p.app.history, " "))
		}
	case w.has("booted"):
		return func(p *party) error { return differs("booted", p.boot) }
	case w.has("boot refused"):
		want := "refused " + w.word("a denial")
		return func(p *party) error { return differs(want, p.boot) }
	}
	return outcomeCheck(w)
}

func number(w *wording, of func(*party) int64) func(*party) error {
	want := w.bound()
	return func(p *party) error { return outside(want, of(p)) }
}

// waited is from the first call to the first yes.
func waited(w *wording) func(*party) error {
	want := w.bounded(func() int64 { return w.time().Milliseconds() })
	return func(p *party) error {
		if p.admitted == 0 {
			return fmt.Errorf("%s was never admitted", p.key)
		}
		if took := (p.admitted - p.first).Milliseconds(); !want.holds(took) {
			return fmt.Errorf("expected %s ms, and it was %v", want, time.Duration(took)*time.Millisecond)
		}
		return nil
	}
}

// outcomeCheck compares the last answer, and as much of its placement as is named.
func outcomeCheck(w *wording) func(*party) error {
	want := w.word("an outcome")
	on, epoch, lacks := "", int64(0), ""
	switch want {
	case "refused":
		want += " " + w.word("a code")
	case "admitted":
		on = w.on()
		if w.has("epoch") {
			epoch = w.number("an epoch")
		}
	case "waiting":
		if w.has("for") {
			lacks = w.word("what it waits for")
		}
	case "unanswered", "gone", "going":
	default:
		w.fail("there is no outcome %q", want)
	}
	return func(p *party) error {
		var row pool.Row
		if p.last != nil {
			row = p.last.Row
		}
		if want != p.outcome() {
			return fmt.Errorf("expected %s, and it was %s%s", want, p.outcome(), p.why())
		}
		switch {
		case on != "" && on != row.Host:
			return differs("admitted on "+on, "admitted on "+row.Host)
		case epoch != 0 && epoch != row.Epoch:
			return differs(fmt.Sprint("epoch ", epoch), fmt.Sprint("epoch ", row.Epoch))
		case lacks != "" && lacks != row.WaitingFor:
			return differs("waiting for "+lacks, "waiting for "+row.WaitingFor)
		}
		return nil
	}
}

// why is what the last answer gives as its reasons.
func (p *party) why() string {
	if p.last == nil || len(p.last.Tally) == 0 {
		return ""
	}
	return fmt.Sprint(" ", map[string][]string(p.last.Tally))
}

package sim

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// stage is what a scenario is played on: a fleet, who asked for what, and what was ordered.
type stage struct {
	*Fleet
	story   bytes.Buffer
	limits  pool.Settings
	ceiling int64             // zero: none
	keys    map[string]*party // key -> its caller
	asked   []*party          // in the order of their first calls
	intakes map[string]*intake
	takes   map[string]forgets // host id -> what its agent's end took with it
	down    bool               // the store
	cuts    []*cut             // replicas that will die at a certain moment
	losses  []*loss            // frames that will be lost
	faults  []*fault           // transitions that will fail
}

// intake is a host's intake as the onlooker last saw it.
type intake struct {
	now   host.Intake
	moves int64
}

// forever is how long something stays dead that a scenario brings back by a word.
const forever = 1 << 40 * time.Microsecond

// Failure is a scenario that did not end as it says.
type Failure struct {
	File    string
	Line    int
	Text    string
	Problem error
	Story   string
}

// Error says where, what, and all that led to it.
func (f *Failure) Error() string {
	return fmt.Sprintf("%s:%d: %s: %v\n\nthe story so far:\n%s", f.File, f.Line, f.Text, f.Problem, f.Story)
}

// Unwrap returns what was expected and what was.
func (f *Failure) Unwrap() error { return f.Problem }

// Play plays the scenario. The seed draws how long things take, and nothing else.
func (sc Scenario) Play(seed uint64) error {
	_, err := sc.play(seed)
	return err
}

func (sc Scenario) play(seed uint64) (*stage, error) {
	s := &stage{keys: map[string]*party{}, intakes: map[string]*intake{}, takes: map[string]forgets{}}
	s.Fleet = emptyFleet(seed, &s.story)
	s.tame = true
	s.net.lost, s.net.doubled = 0, 0
	s.limits = pool.Settings{Pools: map[string]pool.Limits{}, Quotas: map[string]int64{}, DefaultQuota: pool.Unlimited}
	s.Fleet.orders = orders{frame: s.loses, write: s.fails, effect: s.cutBefore, begun: s.cutDuring}
	for _, st := range sc.steps {
		s.tell("%d: %s", st.line, st.text)
		err := st.do(s)
		if err == nil {
			err = s.violated()
		}
		if err != nil {
			return s, &Failure{sc.File, st.line, st.text, err, lastLines(s.story.String(), 120)}
		}
	}
	return s, nil
}

func (s *stage) violated() error {
	if len(s.result.Violations) == 0 {
		return nil
	}
	return fmt.Errorf("%v", s.result.Violations[0])
}

// until lets the world go on; after each event the invariants must hold.
func (s *stage) until(t time.Duration) error {
	if t < s.now {
		return fmt.Errorf("it is %v already", s.now)
	}
	for s.step(t) {
		s.watch()
		if err := s.violated(); err != nil {
			return err
		}
	}
	return nil
}

// watch counts how often each intake moves.
func (s *stage) watch() {
	for _, a := range s.agents {
		if seen, now := s.intakes[a.id], a.host.Intake(); a.up && seen.now != now {
			seen.now = now
			seen.moves++
			s.tell("%s: intake %s", a.id, now)
		}
	}
}

func lastLines(text string, most int) string {
	lines := strings.SplitAfter(text, "\n")
	if len(lines) <= most {
		return text
	}
	return fmt.Sprintf("  … %d lines before …\n%s", len(lines)-most, strings.Join(lines[len(lines)-most:], ""))
}

func parseAt(w *wording) act {
	t := w.time()
	return func(s *stage) error { return s.until(t) }
}

func parseAfter(w *wording) act {
	t := w.time()
	return func(s *stage) error { return s.until(s.now + t) }
}

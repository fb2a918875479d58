package explaintest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/explain"
	"github.com/plimsoll-project/plimsoll/gate"
)

// elsewhere are the codes that no create gets, and what does.
var elsewhere = map[api.Code]string{
	api.TicketRejected:     "a redemption",
	api.MethodNotAllowed:   "another method than those of a resource",
	api.GenerationConflict: "a configuration",
	api.InvalidConfig:      "a configuration",
	api.OverCeiling:        "a pool's cap, or a configuration",
	api.HostStateConflict:  "an order to a host",
	api.JoinRejected:       "a host that joins",
	api.HostIsBuried:       "a host that registers",
	api.ModeOfAll:          "an order of modes",
}

func scenarios() []scenario { return slices.Concat(capacity, atHosts, ofServer, nevers) }

// TestEachCodeHasAScenario: a code that is added is either one that no create gets, or has a
// scenario here.
func TestEachCodeHasAScenario(t *testing.T) {
	played := map[api.Code]int{}
	for _, s := range scenarios() {
		played[s.code]++
	}
	for _, m := range api.Table() {
		switch why, other := elsewhere[m.Code]; {
		case other && played[m.Code] > 0:
			t.Errorf("%s: a create gets it, and it is said to be for %s", m.Code, why)
		case !other && played[m.Code] == 0:
			t.Errorf("%s: no scenario brings it about", m.Code)
		}
	}
}

// TestExplainedChangesAdmit: for each code, what explain names is what admits. The no is brought
// about anew for each change, and that change alone is made.
func TestExplainedChangesAdmit(t *testing.T) {
	for _, sc := range scenarios() {
		t.Run(string(sc.code)+", "+sc.about, func(t *testing.T) {
			t.Parallel()
			first := sc.refused(t)
			d := first.decision
			if !strings.Contains(d.Line, sc.line) || d.Nearest != sc.near {
				t.Errorf("line %q\nnearest %q", d.Line, d.Nearest)
			}
			if got := kinds(d.Changes); got != sc.kinds {
				t.Fatalf("changes: %s, want %s\n%+v", got, sc.kinds, d.Changes)
			}
			for i, c := range d.Changes {
				p := first
				if i > 0 {
					p = sc.refused(t)
				}
				if got := p.decision.Changes[i]; got != c && got.Kind != string(explain.Wait) {
					t.Errorf("the second time: %+v, the first %+v", got, c)
				}
				p.make(c)
			}
		})
	}
}

func kinds(changes []api.Change) string {
	var words []string
	for _, c := range changes {
		words = append(words, c.Kind)
	}
	return strings.Join(words, " ")
}

// refused is a no that was brought about, and what explain says of it.
type refused struct {
	of       *scenario
	s        *stage
	token    string
	body     string
	decision api.Decision
}

func (sc *scenario) refused(t *testing.T) *refused {
	t.Helper()
	doc, hosts := document(), one(4096, nil)
	if sc.fleet != nil {
		doc = sc.fleet(doc)
	}
	if sc.hosts != nil {
		hosts = sc.hosts
	}
	p := &refused{of: sc, s: newStage(t, doc, hosts()...), token: "alicealice", body: sc.body}
	if sc.token != "" {
		p.token = sc.token
	}
	if sc.before != nil {
		sc.before(p.s)
	}
	got := p.s.post(p.token, p.body)
	if !sc.once {
		got = p.s.post(p.token, p.body) // whoever asks again without a change gets it again
	}
	var said struct {
		Code       api.Code `json:"code"`
		DecisionID string   `json:"decision_id"`
	}
	p.s.must(json.Unmarshal(got.body, &said))
	if said.Code != sc.code || said.DecisionID == "" {
		t.Fatalf("%d %s, want %s", got.status, got.body, sc.code)
	}
	p.s.must(json.Unmarshal([]byte(p.s.run("plimsoll explain "+said.DecisionID+" -o json")), &p.decision))
	return p
}

// make makes one change, by just what it names, and asks again.
func (p *refused) make(c api.Change) {
	p.s.t.Helper()
	sc := p.of
	switch {
	case c.Patch != "":
		p.body = patched(p.s, p.body, c.Patch)
	case strings.HasPrefix(c.Command, "plimsoll agent "):
		p.happens(c, sc.agent)
	case strings.HasPrefix(c.Command, "plimsoll token create "):
		p.token = strings.TrimSpace(p.s.run(c.Command))
	case strings.HasPrefix(c.Command, "plimsoll host token create"):
		joins := newHost("h9", 64*gate.GiB)
		if sc.joins != nil {
			joins = newHost(sc.joins.id, sc.joins.budget, sc.joins.config)
		}
		p.s.joins(p.s.run(c.Command), joins)
	case c.Kind == string(explain.Server):
		p.happens(c, sc.mend)
	case c.Command != "":
		p.s.run(c.Command)
	case c.Kind == string(explain.Request) && sc.redone != nil:
		p.body = sc.redone(p.body)
	case c.Kind == string(explain.Wait):
		p.happens(c, sc.time)
	}
	if c.Kind == string(explain.QueueUp) {
		if got := p.s.post(p.token, p.body); got.status != http.StatusAccepted {
			p.s.t.Errorf("%+v: no place in the line: %d %s", c, got.status, got.body)
		}
		p.happens(c, sc.time)
	}
	p.admitted(c)
}

func (p *refused) happens(c api.Change, step func(*stage)) {
	p.s.t.Helper()
	if step == nil {
		p.s.t.Fatalf("%+v: the scenario does not say what that is", c)
	}
	step(p.s)
}

// admitted asks until it is admitted: an order takes effect at every replica, which takes a moment.
func (p *refused) admitted(c api.Change) {
	p.s.t.Helper()
	var got reply
	p.s.eventually("a yes after "+c.Kind+" "+c.Command+c.Patch, func() bool {
		got = p.s.post(p.token, p.body)
		return got.status == http.StatusCreated || got.status == http.StatusOK
	})
}

// patched is a JSON merge patch (RFC 7396).
func patched(s *stage, body, patch string) string {
	s.t.Helper()
	var of, change map[string]any
	s.must(json.Unmarshal([]byte(body), &of))
	s.must(json.Unmarshal([]byte(patch), &change))
	merge(of, change)
	out, err := json.Marshal(of)
	s.must(err)
	return string(out)
}

func merge(of, change map[string]any) {
	for name, value := range change {
		inner, isObject := value.(map[string]any)
		was, has := of[name].(map[string]any)
		switch {
		case value == nil:
			delete(of, name)
		case isObject && has:
			merge(was, inner)
		default:
			of[name] = value
		}
	}
}

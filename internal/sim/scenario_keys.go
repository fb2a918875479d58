package sim

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// party is whoever asks under one key, and what it knows.
type party struct {
	stage    *stage
	key      string
	class    class
	consumer string
	tenant   string
	mode     pool.Mode
	patience time.Duration // in the line

	tries    int // calls
	call     int // the call whose answer it waits for; a hang-up raises it
	first    time.Duration
	admitted time.Duration // the first yes; zero: none
	last     *admission.Answer
	yeses    map[int64]bool // epochs it was told
	tickets  []placed       // in the order in which they came
	boot     string         // what became of its last boot
	app      *app           // nil: nobody's but the scenario's
	atOnce   bool           // its first call was a yes
	kept     int            // rises when its heartbeats begin, or end
}

// placed is a ticket, as it was minted with the yes, and the placement it stands for.
type placed struct {
	row  pool.Row
	text ticket.Text
	ok   bool
}

func (p *party) id() string { return "a-" + p.key }

// newest is its last ticket; nil: it has none.
func (p *party) newest() *placed {
	if len(p.tickets) == 0 {
		return nil
	}
	return &p.tickets[len(p.tickets)-1]
}

func (p *party) claim(attempt bool, present time.Duration) pool.Claim {
	return pool.Claim{
		ID: p.id(), Consumer: p.consumer, Key: p.key, Pool: p.class.pool, Mode: p.mode, MaxQueueAge: p.patience, Attempt: attempt, Present: present,
		Contents: p.class.contents(p.tenant),
	}
}

// asks counts a call and says whether anybody is there to take it. Nobody, is no answer.
func (p *party) asks(r *replica) bool {
	if p.tries == 0 {
		p.first = p.stage.now
	}
	p.tries++
	p.call++
	p.last = nil
	if !r.up {
		p.stage.tell("%s: replica %d is down", p.key, r.index+1)
	}
	return r.up
}

// send drives a passage at a replica.
func (p *party) send(r *replica, req admission.Request, then func(admission.Answer)) {
	r.awake(r.life, func() {
		r.drive(req, func(a admission.Answer) {
			p.hears(r, a)
			then(a)
		})
	})
}

// hears takes an answer in, whichever of its calls it belongs to.
func (p *party) hears(r *replica, a admission.Answer) {
	s := p.stage
	s.tell("%s is told %s", p.key, words(a))
	p.last = &a
	if a.Kind != admission.Yes {
		return
	}
	if p.admitted == 0 {
		p.admitted, p.atOnce = s.now, p.tries == 1
	}
	if p.yeses == nil {
		p.yeses = map[int64]bool{}
	}
	p.yeses[a.Row.Epoch] = true
	text, ok := r.mint(a.Row)
	p.tickets = append(p.tickets, placed{a.Row, text, ok})
}

func (p *party) post(r *replica) {
	if p.asks(r) {
		p.send(r, admission.Request{Claim: p.claim(false, 0), Ask: p.class.ask}, func(admission.Answer) {})
	}
}

// pollEvery is how often a held long poll looks, as a replica that hears of no turn does.
const pollEvery = 500 * time.Millisecond

// poll holds a long poll until an answer, its time, or a hang-up.
func (p *party) poll(r *replica, until time.Duration) {
	call := p.call
	present := time.Duration(0)
	if until > p.stage.now {
		present = presentFor
	}
	p.send(r, admission.Request{Claim: p.claim(true, present), Ask: p.class.ask}, func(a admission.Answer) {
		if a.Kind == admission.Wait && p.stage.now+pollEvery <= until {
			p.stage.after(pollEvery, func() {
				if p.call == call {
					p.poll(r, until)
				}
			})
		}
	})
}

// of finds or makes the caller of a key.
func (s *stage) of(key string) *party {
	p := s.keys[key]
	if p == nil {
		p = &party{stage: s, key: key, consumer: plain, tenant: "t", mode: pool.Refuse}
		s.keys[key] = p
	}
	return p
}

// known finds the caller of a key that was created.
func (s *stage) known(key string) (*party, error) {
	if p := s.keys[key]; p != nil && p.class.name != "" {
		return p, nil
	}
	return nil, fmt.Errorf("nobody created %q", key)
}

// introduced makes the caller, or lets it come again.
func (s *stage) introduced(key, of string) (*party, error) {
	p := s.of(key)
	if of != "" {
		c, err := s.class(of)
		if err != nil {
			return nil, err
		}
		if p.class.name == "" {
			s.asked = append(s.asked, p)
		}
		p.class = c
	}
	if p.class.name == "" {
		return nil, fmt.Errorf("%s names no class", key)
	}
	return p, nil
}

// somewhere is the i-th of the replicas a line names, in turn; r1 where it names none.
func (s *stage) somewhere(ids []string, i int) (*replica, error) {
	if len(ids) == 0 {
		ids = []string{"r1"}
	}
	return s.replica(ids[i%len(ids)])
}

func parseCreate(w *wording) act {
	keys := w.keys()
	of, tenant, consumer := "", "", ""
	var at []string
	var mode pool.Mode
	age := 10 * time.Minute
	for len(w.rest) > 0 {
		switch {
		case w.has("at"):
			at = w.many("a replica", "tenant", "as", "queue")
		case w.has("tenant"):
			tenant = w.name("a tenant")
		case w.has("as"):
			consumer = w.name("a consumer")
		case w.has("queue"):
			mode = pool.Queue
			if w.has("for") {
				age = w.time()
			}
		case of == "":
			of = w.name("a class")
		default:
			w.fail("nobody knows what %q means here", w.rest[0])
		}
	}
	return func(s *stage) error {
		return s.each(keys, at, func(key string, r *replica) error {
			p, err := s.introduced(key, of)
			if err != nil {
				return err
			}
			p.tenant, p.consumer = cmp.Or(tenant, p.tenant), cmp.Or(consumer, p.consumer)
			if mode != "" {
				p.mode, p.patience = mode, age
			}
			p.post(r)
			return nil
		})
	}
}

// each does something for each key, at the replicas in turn.
func (s *stage) each(keys, at []string, do func(key string, r *replica) error) error {
	for i, key := range s.expand(keys) {
		r, err := s.somewhere(at, i)
		if err == nil {
			err = do(key, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// expand finds who is meant by k*: the keys of that beginning whose last answer was a yes.
func (s *stage) expand(keys []string) (out []string) {
	for _, key := range keys {
		prefix, ok := strings.CutSuffix(key, "*")
		if !ok {
			out = append(out, key)
			continue
		}
		for _, p := range s.asked {
			if strings.HasPrefix(p.key, prefix) && p.outcome() == "admitted" {
				out = append(out, p.key)
			}
		}
	}
	return out
}

// replicas reads `at R…`, where it stands.
func (w *wording) replicas(stops ...string) []string {
	if w.has("at") {
		return w.many("a replica", stops...)
	}
	return nil
}

func parseAttempt(w *wording) act {
	keys, at := w.keys(), w.replicas("wait")
	wait := time.Duration(0)
	if w.has("wait") {
		wait = w.time()
	}
	return func(s *stage) error {
		return s.each(keys, at, func(key string, r *replica) error {
			p, err := s.known(key)
			if err == nil && p.asks(r) {
				p.poll(r, s.now+wait)
			}
			return err
		})
	}
}

func parseHangUp(w *wording) act {
	w.must("up")
	keys := w.keys()
	return func(s *stage) error {
		return s.each(keys, nil, func(key string, r *replica) error {
			p, err := s.known(key)
			if err != nil {
				return err
			}
			p.call++
			r.transact("attend", func() { s.model().Attend(p.id(), 0); s.store.touched(p.id()) }, func(bool) {})
			return nil
		})
	}
}

// beat keeps what it has.
func (p *party) beat(r *replica) {
	p.send(r, admission.Request{Claim: p.claim(true, 0), Ask: p.class.ask, Keep: true}, func(admission.Answer) {})
}

func parseHeartbeat(w *wording) act {
	keys, at := w.keys(), w.replicas()
	return func(s *stage) error {
		return s.each(keys, at, func(key string, r *replica) error {
			p, err := s.known(key)
			if err == nil && p.asks(r) {
				p.beat(r)
			}
			return err
		})
	}
}

func parseRelease(w *wording) act {
	keys, at := w.keys(), w.replicas()
	return func(s *stage) error {
		return s.each(keys, at, func(key string, r *replica) error {
			p, err := s.known(key)
			if err == nil && p.asks(r) {
				r.awake(r.life, func() { r.depart(p.id(), 0, func(a admission.Answer) { p.hears(r, a) }) })
			}
			return err
		})
	}
}

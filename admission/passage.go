// Package admission decides the course of one passage: which step follows which answer,
// from a caller's ask to its yes, its place in a queue, or its no.
//
//	in:  store, then host        Claim → Pick → Reserve → Settle → Reply
//	out: host, then store        Leave → Release → End → Reply
//
//	Claim ─ granted ─▶ Pick ─▶ Reserve ─ yes ─▶ Settle ─ still ours ─▶ yes
//	  │                 ▲ │        │ │                    └ lost ─▶ Release; answer from the row
//	  │                 │ │        │ └ unknown ─▶ Release, detached; Regen ─▶ Pick   (closed there ─▶ Regen ─▶ Pick)
//	  │                 │ │        └ denied ─▶ Pause ─▶ Pick, a bounded number of times
//	  │                 │ └ no host ─▶ Sweep ─▶ Pick once more ─▶ NoRoom ─▶ place kept, or no
//	  │                                                                    └ first of its kind for 10 s ─▶ Stand
//	  ├ admitted, unbooted ─▶ Keep ─ lapsed, draining, silent ─▶ Move ─▶ Pick
//	  ├ of a pool without hosts ─▶ yes; its heartbeats ─▶ Hear
//	  └ queued, full, over quota, … ─▶ that
//
// Of a class that its host alone records (Request.ByHost) Claim, Settle, NoRoom, Move and Read
// go to the replica's own Book, and no store is asked. Each host that is asked gets an id of
// its own (see HostID), under the one epoch ByHostEpoch: so there is nothing to Regen.
//
// A passage asks for one effect at a time and is stepped with its result; what is
// detached it does not wait for. It does no I/O and reads no clock: now is the replica's
// own monotonic clock. Not safe for concurrent use.
//
// Worked: two hosts, h1 denies for lack of room, h2 promises. The effects are Claim, Pick,
// Reserve h1, Pause, Pick without h1, Reserve h2, Settle, Reply, under one generation.
package admission

import (
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Instant is a reading of the replica's monotonic clock.
type Instant = time.Duration

// Config bounds a passage.
type Config struct {
	BootWithin   time.Duration // how long a reservation lives between renewals; 60 s
	Repicks      int           // hosts asked after the first; 4
	RepickWithin time.Duration // none is asked later than this after the first; 2 s
	Pause        time.Duration // before asking another; 10 ms
}

// DefaultConfig is the configuration table's.
func DefaultConfig() Config {
	return Config{BootWithin: time.Minute, Repicks: 4, RepickWithin: 2 * time.Second, Pause: 10 * time.Millisecond}
}

// Request is what a passage is about.
type Request struct {
	Claim pool.Claim
	Ask   gate.Ask
	Keep  bool // a heartbeat of the row Claim.ID: keeps what there is, places nothing

	ByHost bool // no store keeps it: see Book
}

// Do is an effect that the shell carries out.
type Do uint8

// String returns the effect's name.
func (d Do) String() string {
	switch {
	case int(d) < len(doNames):
		return doNames[d]
	case d == Leave:
		return "leave"
	}
	return "end"
}

var doNames = [...]string{
	"claim", "pick", "reserve", "regen", "settle", "no-room", "keep", "hear", "vacate", "move", "read", "sweep", "pause",
	"pick-stand", "stand", "note-stand", "reply",
}

// The effects. Each is answered by its own event; Reply by none.
const (
	Claim     Do = iota // Store.Claim
	Pick                // Table.Pick without Exclude; with a Host: that one, if it is Table.Eligible
	Reserve             // ask Host for (ID, Gen) until HeardAt + BootWithin of its clock
	Regen               // Store.Regen
	Settle              // Store.Settle
	NoRoom              // Store.NoRoom
	Keep                // Store.Renew, then Host's Renew
	Hear                // Store.Hear: there is no host
	Vacate              // Host's Release, and wait for its word
	Move                // Store.Move
	Read                // Store.ByID
	Sweep               // ask the most promising hosts for their newest word
	Pause               // let Pause pass
	PickStand           // Table.PickStand, preferring Host
	Stand               // ask Host to set memory aside for ID
	NoteStand           // Store.Stand
	Reply               // the passage is over
)

// Effect is one thing to do.
type Effect struct {
	Do      Do
	Host    string
	ID      string
	Gen     int64 // or epoch
	Exclude []string
	Acked   bool         // Move: the old host acknowledged
	Of      pool.Passage // Leave
	Last    bool         // Pick: before a refusal, so whatever may have room is asked
	Reply   *Answer      // Reply
}

// Step is what a passage wants next: one effect, and before it perhaps a detached one.
type Step struct {
	Detached *Effect // a Vacate whose answer nobody waits for, and that survives the caller
	Effect   Effect
}

// Passage is the state of one.
type Passage struct {
	cfg      Config
	req      Request
	row      pool.Row
	now      Instant
	begun    Instant  // the first pick
	asked    []string // hosts that have (id, Gen) closed, or may have it open
	mute     []string // those of them that did not answer
	tries    int
	swept    bool
	over     bool // the host that did not answer was the last to be asked
	moved    bool // has moved once already
	kept     bool // a heartbeat has asked the host already
	reborn   bool // the host was asked by the clock of a former life
	waits    int  // for another call's placing
	settles  int  // whose outcome is unknown
	atStand  bool // the host where memory is set aside for it is being looked at
	tally    Tally
	waiting  *Answer // told once memory is set aside
	standing string  // host that is asked to set it aside

	detached *Effect
}

// New returns a passage that has not begun.
func New(cfg Config, req Request) *Passage {
	return &Passage{cfg: cfg, req: req, tally: Tally{}}
}

// Begin asks for the claim. A heartbeat only reads its row: it claims nothing.
func (p *Passage) Begin(now Instant) Step {
	p.now = now
	if p.req.Keep {
		return p.next(Effect{Do: Read, ID: p.req.Claim.ID})
	}
	return p.next(Effect{Do: Claim})
}

// Step takes the result of the last effect.
func (p *Passage) Step(now Instant, ev Event) Step {
	p.now = max(p.now, now)
	switch e := ev.(type) {
	case Claimed:
		return p.claimed(e)
	case Picked:
		return p.picked(e)
	case Reserved:
		return p.reserved(e)
	case Regened:
		return p.regened(e)
	case Settled:
		return p.settled(e)
	case NoRoomed:
		return p.noRoomed(e)
	case Kept:
		return p.keptOn(e)
	case Vacated:
		return p.vacated(e)
	case Moved:
		return p.movedOn(e)
	case Heard:
		return p.heard(e)
	case StandPicked:
		return p.standPicked(e)
	case Stood:
		return p.stood(e)
	case StandNoted:
		return p.next(Effect{Do: Reply, Reply: p.waiting})
	case RowRead:
		return p.rowRead(e)
	case Swept:
		return p.sweptHosts()
	case Paused:
		return p.paused()
	}
	return p.fail("an event that nothing asked for")
}

func (p *Passage) next(e Effect) Step {
	s := Step{Detached: p.detached, Effect: e}
	p.detached = nil
	return s
}

// releaseDetached lets the host forget a generation whose fate is unknown or lost.
func (p *Passage) releaseDetached(hostID string, gen int64) {
	p.detached = &Effect{Do: Vacate, Host: hostID, ID: p.row.ID, Gen: gen}
}

func (p *Passage) claimed(e Claimed) Step {
	if e.Failed {
		return p.unavailable()
	}
	p.row = e.Result.Row
	switch e.Result.Verdict {
	case pool.Granted:
		if p.row.Audience != "" {
			return p.reply(Answer{Kind: Yes, New: true, Row: p.row})
		}
		return p.place()
	case pool.Existing:
		return p.existing()
	case pool.BusyPlacing:
		return p.await()
	}
	return p.reply(FromVerdict(e.Result))
}

// place begins to look for a host under the row's generation: first where memory is set
// aside for it, if anywhere.
func (p *Passage) place() Step {
	p.begun, p.asked, p.mute, p.tries, p.swept = p.now, p.asked[:0], p.mute[:0], 0, false
	if p.row.StandAt != "" {
		p.atStand = true
		return p.next(Effect{Do: Pick, Host: p.row.StandAt})
	}
	return p.pick()
}

func (p *Passage) pick() Step {
	return p.next(Effect{Do: Pick, Exclude: p.asked, Last: p.swept})
}

func (p *Passage) picked(e Picked) Step {
	atStand := p.atStand
	p.atStand = false
	if e.Host != "" {
		p.asked = append(p.asked, e.Host)
		if p.req.ByHost {
			p.row.ID = e.ID
		}
		return p.next(Effect{Do: Reserve, Host: e.Host, ID: p.row.ID, Gen: p.placing()})
	}
	if atStand {
		return p.pick() // that host cannot be asked: look at all of them
	}
	p.tally.merge(e.Tally)
	return p.lastResort()
}

// sweptHosts looks once more, within bounds of its own, after every promising host has said
// its newest word. Those that denied this generation have closed it, so they can only be
// asked under a new one; those that did not answer are left alone.
func (p *Passage) sweptHosts() Step {
	denied := len(p.asked) > len(p.mute)
	p.begun, p.tries, p.tally = p.now, 0, Tally{}
	p.asked = append(p.asked[:0], p.mute...)
	for _, id := range p.mute {
		p.tally.add(unanswered, id)
	}
	if !denied {
		return p.pick()
	}
	return p.regen()
}

// placing is the generation under which hosts are asked.
func (p *Passage) placing() int64 {
	if p.req.ByHost {
		return ByHostEpoch
	}
	return p.row.Gen
}

// regen goes on under a name that no host has heard: a new generation, or the next host's own id.
func (p *Passage) regen() Step {
	if p.req.ByHost {
		return p.renamed()
	}
	return p.next(Effect{Do: Regen, ID: p.row.ID, Gen: p.row.Gen})
}

func (p *Passage) reserved(e Reserved) Step {
	at := p.asked[len(p.asked)-1]
	switch {
	case e.Unknown:
		p.tally.add(unanswered, at)
		p.mute, p.over = append(p.mute, at), p.spent()
		p.releaseDetached(at, p.placing())
		return p.regen()
	case e.Denial == "":
		return p.next(Effect{Do: Settle, Host: at, ID: p.row.ID, Gen: p.row.Gen})
	}
	p.tally.add(string(e.Denial), at)
	if e.Denial == host.Closed { // it may have been open there, and its end would be taken for another's
		p.over = p.spent()
		return p.regen()
	}
	if p.spent() {
		return p.lastResort()
	}
	return p.next(Effect{Do: Pause})
}

// spent counts one more host asked in vain and says whether that was the last.
func (p *Passage) spent() bool {
	p.tries++
	return p.tries > p.cfg.Repicks || p.now-p.begun >= p.cfg.RepickWithin
}

// lastResort is what stands before every refusal for want of a host: no negative leaves
// from what was only remembered.
func (p *Passage) lastResort() Step {
	if p.swept {
		return p.noRoom()
	}
	p.swept = true
	return p.next(Effect{Do: Sweep})
}

// paused goes on with what the pause was for.
func (p *Passage) paused() Step {
	if p.row.State == pool.Placing && len(p.asked) > 0 {
		return p.pick()
	}
	return p.next(Effect{Do: Claim})
}

func (p *Passage) regened(e Regened) Step {
	switch {
	case e.Failed:
		return p.unavailable()
	case e.Gen == 0:
		return p.next(Effect{Do: Read, ID: p.row.ID})
	}
	p.row.Gen = e.Gen
	return p.renamed()
}

func (p *Passage) renamed() Step {
	if p.over {
		p.over = false
		return p.lastResort()
	}
	return p.pick()
}

// noRoom gives the slot back.
func (p *Passage) noRoom() Step {
	return p.next(Effect{Do: NoRoom, ID: p.row.ID, Gen: p.row.Gen})
}

func (p *Passage) noRoomed(e NoRoomed) Step {
	if e.Failed {
		return p.unavailable()
	}
	r := e.Result
	p.row = r.Row
	switch r.Verdict {
	case pool.NoSuchKey:
		return p.next(Effect{Do: Read, ID: p.row.ID})
	case pool.PoolFull:
		return p.reply(Answer{Kind: No, Code: p.refusal(), Row: r.Row, Standing: r.Standing})
	}
	if r.Verdict == pool.Queued && r.Row.Starves(r.Standing) {
		return p.standFor(FromVerdict(r))
	}
	return p.reply(FromVerdict(r))
}

// refusal is which no it is. That a host which is demanded is not heard says nothing of the fleet.
func (p *Passage) refusal() api.Code {
	c, code := &p.req.Claim.Contents, p.tally.Code()
	if code == api.NoHealthyAgents && c.Host != "" && !c.Prefer {
		return api.HostSilent
	}
	return code
}

// settled has the yes, or learns that the row went on without this passage.
func (p *Passage) settled(e Settled) Step {
	at, gen := p.asked[len(p.asked)-1], p.row.Gen
	if e.Failed {
		if p.settles++; p.settles <= settleTries {
			return p.next(Effect{Do: Settle, Host: at, ID: p.row.ID, Gen: gen})
		}
		return p.unavailable() // persisted or not: the row's next call, or the sweep, finds out
	}
	ours := e.Row.State == pool.Admitted && e.Row.Epoch == gen && e.Row.Host == at
	if !e.OK && !ours {
		p.releaseDetached(at, p.placing())
		if e.Row.ID == "" {
			return p.reply(gone(p.row))
		}
		p.row = e.Row
		return p.fromRow()
	}
	p.row = e.Row
	return p.reply(Answer{Kind: Yes, New: true, Row: e.Row})
}

// settleTries is how often an unknown outcome of Settle is asked about again.
const settleTries = 2

func (p *Passage) rowRead(e RowRead) Step {
	switch {
	case e.Failed:
		return p.unavailable()
	case !e.Found:
		return p.reply(gone(p.row))
	}
	p.row = e.Row
	if p.req.Keep && !p.kept && (p.row.State == pool.Admitted || p.row.State == pool.Running) {
		p.kept = true
		return p.existing()
	}
	return p.fromRow()
}

// fromRow answers a passage that lost its row to another call.
func (p *Passage) fromRow() Step {
	p.tally = Tally{} // what hosts said to this passage decided nothing
	switch {
	case p.row.State == pool.Admitted || p.row.State == pool.Running:
		return p.reply(Answer{Kind: Yes, Row: p.row})
	case p.row.State == pool.Placing && !p.req.Keep:
		return p.await()
	case p.row.State == pool.Placing || p.row.State == pool.Waiting:
		return p.reply(Answer{Kind: Wait, Row: p.row})
	}
	return p.reply(fromState(p.row))
}

// await lets another call's placing finish, for as long as one may take.
func (p *Passage) await() Step {
	if p.waits++; time.Duration(p.waits)*p.cfg.Pause > p.cfg.RepickWithin {
		return p.reply(Answer{Kind: No, Code: inProgress, Row: p.row, Detail: "another call is placing this key"})
	}
	p.asked = p.asked[:0]
	return p.next(Effect{Do: Pause})
}

func (p *Passage) reply(a Answer) Step {
	a.Tally = p.tally
	return p.next(Effect{Do: Reply, Reply: &a})
}

package control

import (
	"context"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/hint"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/registry"
	"github.com/plimsoll-project/plimsoll/table"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// Link is an agent, as a replica reaches it. An error means that the outcome is unknown.
type Link interface {
	ID() string
	Do(ctx context.Context, ev host.Event) (host.Answer, error)
	Verdict(ctx context.Context) (host.Verdict, error)
	View(ctx context.Context) (host.View, error)
	Holding(ctx context.Context) (host.Held, error)
	Holds(ctx context.Context, ref host.Ref) (reserved, running bool, err error)
	Placed(ctx context.Context, id string) (host.Placed, error)
	// Lore is what the host saw of runs since a step of that sequence.
	Lore(ctx context.Context, after int64) (host.Lore, error)
	// Clear ends what runs out of gate under an id.
	Clear(ctx context.Context, id string) error
}

// Feed is what an agent says unasked.
type Feed interface {
	Next(ctx context.Context) (host.News, error)
}

// Options are what a replica needs.
type Options struct {
	Store   Store
	Keys    ticket.Keyring
	Passage admission.Config
	Table   table.Options
	Self    string // id under which this replica attests; "": it takes no share of the hosts
	Metrics *Metrics
	Log     *slog.Logger
	Now     func() time.Duration // monotonic; never steps back
	Wall    func() time.Time     // only for people and the wire
	Local   *config.Consumer     // whoever can read this machine's token file; nil: nobody
	Rand    func() uint64
}

// Gateway is one replica. Its methods may be called from any goroutine.
type Gateway struct {
	Options
	fleet       atomic.Pointer[loaded]
	storeOffset atomic.Int64 // ms that the store's clock is ahead of Now
	receipts    atomic.Pointer[hint.ReceiptKeys]
	wakes       waker
	stopping    chan struct{} // closed by Stop
	sweep       sweeper
	would       wouldBe
	passed      passed
	told        toldHints
	reports     reports
	looks       chan struct{} // holds one while somebody wants the registry read
	own         book          // of what hosts alone record
	recorded    recorded      // what other replicas placed there, as hosts last said
	crew        crew          // for the asks of batches
	deaf        atomic.Bool   // more than half of the hosts were silent when the pulse was written last

	mu    sync.Mutex           // guards what follows; never held across I/O
	table *table.Table         // picks; charged by unanswered reserves
	hosts map[string]*attached // host id -> its agent and last word
	keys  map[string]ticket.AudienceKeys
	desks map[string]*hint.Desk // pool -> who makes its appointments
	known known

	nears map[string]*nearest // kind of ask -> the hosts nearest to it

	keeper keeper

	lore atomic.Pointer[lore] // what is known of templates; nil before it was read

	past past
}

// loaded is the configuration in force.
type loaded struct {
	generation int64
	fleet      *config.Fleet
}

// attached is one agent and the last frame heard of it.
type attached struct {
	link    Link // nil: not connected at this moment
	verdict host.Verdict
	heardAt time.Duration
	heard   bool

	again    chan struct{} // of who tends it: holds one while it is to be reconciled
	turn     uint32        // at which it is reconciled in any case
	differed bool          // from the store, at the last look
	owed     bool          // a reconciliation that failed, or that a silence calls for
}

// New returns a replica that knows no host and no limits: Load and Attach follow.
func New(o Options) (*Gateway, error) {
	g := &Gateway{
		Options:  o,
		stopping: make(chan struct{}),
		table:    table.New(o.Table),
		hosts:    map[string]*attached{},
		desks:    map[string]*hint.Desk{},
		nears:    map[string]*nearest{},
		looks:    make(chan struct{}, 1),
		told:     toldHints{most: mostTold},
		known:    known{hosts: map[string]registry.Host{}, why: map[string]string{}},
	}
	g.own.rows, g.crew = admission.NewBook(mostByHost), newCrew()
	g.storeOffset.Store(g.Wall().UnixMilli() - g.Now().Milliseconds()) // until the two were compared
	return g, g.SetKeys(o.Keys)
}

// SetKeys takes other ticket keys in force, as a step of their rotation. What was minted
// under a key that is still among them stays good.
func (g *Gateway) SetKeys(ring ticket.Keyring) error {
	receipts, err := hint.NewReceiptKeys(ring)
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.Keys, g.keys = ring, map[string]ticket.AudienceKeys{}
	g.mu.Unlock()
	g.receipts.Store(&receipts)
	return nil
}

// Load takes over the configuration in force in the store.
func (g *Gateway) Load(ctx context.Context) error {
	g.compareClocks(ctx)
	c, err := g.Store.Config(ctx)
	if err != nil {
		return fmt.Errorf("read the configuration in force: %w", err)
	}
	old := g.fleet.Load()
	if c.Generation == 0 || (old != nil && old.generation >= c.Generation) {
		return nil
	}
	fleet, err := config.ParseFleet(fmt.Sprintf("generation %d", c.Generation), []byte(c.Document))
	if err != nil {
		return fmt.Errorf("the configuration in force is not readable by this version: %w", err)
	}
	// Somebody may have loaded a later one meanwhile; the next Load looks again.
	if g.fleet.CompareAndSwap(old, &loaded{generation: c.Generation, fleet: fleet}) {
		g.useCohortRule(fleet)
		g.Metrics.begin(fleet)
	}
	return nil
}

// Fleet is the configuration in force; nil before one is loaded.
func (g *Gateway) Fleet() *config.Fleet {
	if l := g.fleet.Load(); l != nil {
		return l.fleet
	}
	return nil
}

// Authenticate finds the consumer of a token by its SHA-256.
func (g *Gateway) Authenticate(tokenSHA256 [32]byte) (*config.Consumer, bool) {
	if g.Local != nil {
		for _, t := range g.Local.Tokens {
			if subtle.ConstantTimeCompare(t[:], tokenSHA256[:]) == 1 {
				return g.Local, true
			}
		}
	}
	if fleet := g.Fleet(); fleet != nil {
		return fleet.Authenticate(tokenSHA256)
	}
	return nil, false
}

// Stop answers every held long poll, so that callers turn to another address. Call it once.
func (g *Gateway) Stop() { close(g.stopping) }

// audience returns the keys for the tickets of one host, or of one substrate.
func (g *Gateway) audience(hostID string) (ticket.AudienceKeys, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if keys, ok := g.keys[hostID]; ok {
		return keys, nil
	}
	keys, err := g.Keys.Audience(hostID)
	if err != nil {
		return ticket.AudienceKeys{}, fmt.Errorf("derive the keys of %s: %w", hostID, err)
	}
	g.keys[hostID] = keys
	return keys, nil
}

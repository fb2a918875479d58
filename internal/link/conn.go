package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
	"github.com/plimsoll-project/plimsoll/internal/control"
	agentv1 "github.com/plimsoll-project/plimsoll/proto/plimsoll/agent/v1"
)

// Conn is the replica's end of one stream: the host's agent, as control sees it.
type Conn struct {
	host, replica string
	pace          pace
	incarnation   int64
	stream        *connect.BidiStreamForClient[agentv1.ReplicaFrame, agentv1.AgentFrame]
	ctx           context.Context // ends with the stream; its cause says why
	end           context.CancelCauseFunc
	hangUp        func() // closes the connection below
	left          func() // tells the dialer that it is over
	changed       func() // tells the dialer that the host holds other keys
	watchdog      *time.Timer
	feed          *agent.Feed
	words         listener // owned by read
	wake          chan struct{}
	done          sync.WaitGroup

	mu       sync.Mutex // guards what follows
	lastID   uint64
	queue    []*agentv1.Ask
	calls    map[uint64]chan<- result // id -> who waits
	keys     *agentv1.Keys            // to be sent
	held     []string                 // ids of the keys that the host last acknowledged
	heldOnce chan struct{}            // closed by the first acknowledgement
}

type result struct {
	answer  *agentv1.Answer
	verdict host.Verdict
}

func (c *Conn) start() {
	c.watchdog = time.AfterFunc(c.pace.silent, func() { c.end(ErrSilent) })
	c.done.Go(func() { c.end(c.read()) })
	c.done.Go(func() { c.end(c.write()) })
	context.AfterFunc(c.ctx, func() {
		c.watchdog.Stop()
		c.hangUp()
		c.feed.Close()
		c.left()
	})
}

// Close ends the connection, and whatever waits on it.
func (c *Conn) Close() error {
	c.end(ErrClosed)
	c.done.Wait()
	return nil
}

// ID is the host's name.
func (c *Conn) ID() string { return c.host }

// Next waits for news. It fails when the connection is over, with the reason.
func (c *Conn) Next(ctx context.Context) (host.News, error) {
	n, err := c.feed.Next(ctx)
	if errors.Is(err, agent.ErrStopped) {
		err = c.why()
	}
	return n, err
}

func (c *Conn) why() error {
	return fmt.Errorf("the stream to host %s ended: %w", c.host, context.Cause(c.ctx))
}

// Do sends an event to the host. An error means that the outcome is unknown.
func (c *Conn) Do(ctx context.Context, ev host.Event) (host.Answer, error) {
	ask, err := askOf(ev)
	if err != nil {
		return host.Answer{}, err
	}
	r, err := c.call(ctx, ask)
	if err != nil {
		return host.Answer{}, err
	}
	return answerFrom(r.answer, r.verdict), nil
}

// DoAll is Do for each event, with all of them in one frame, or in as few as hold them.
func (c *Conn) DoAll(ctx context.Context, events []host.Event) []control.Said {
	said := make([]control.Said, len(events))
	asks, places := make([]*agentv1.Ask, 0, len(events)), make([]int, 0, len(events))
	for i, ev := range events {
		ask, err := askOf(ev)
		if said[i].Err = err; err == nil {
			asks, places = append(asks, ask), append(places, i)
		}
	}
	back := make(chan result, len(asks))
	first := c.put(back, asks)
	defer c.forget(first, len(asks))
	told := make([]bool, len(asks))
	for range asks {
		r, err := c.await(ctx, back)
		if err != nil && r.answer == nil { // the rest is not known
			for i, at := range places {
				if !told[i] {
					said[at].Err = err
				}
			}
			break
		}
		i := r.answer.GetId() - first
		told[i] = true
		said[places[i]] = control.Said{Answer: answerFrom(r.answer, r.verdict), Err: err}
	}
	return said
}

// Verdict is the host's newest word.
func (c *Conn) Verdict(ctx context.Context) (host.Verdict, error) {
	r, err := c.call(ctx, &agentv1.Ask{What: &agentv1.Ask_Verdict{Verdict: &agentv1.Nothing{}}})
	return r.verdict, err
}

// View is the arithmetic laid open.
func (c *Conn) View(ctx context.Context) (host.View, error) {
	r, err := c.call(ctx, &agentv1.Ask{What: &agentv1.Ask_View{View: &agentv1.Nothing{}}})
	if err != nil {
		return host.View{}, err
	}
	return viewFrom(r.answer.GetView(), r.verdict), nil
}

// Holding is all that the host answers for.
func (c *Conn) Holding(ctx context.Context) (host.Held, error) {
	r, err := c.call(ctx, &agentv1.Ask{What: &agentv1.Ask_Holding{Holding: &agentv1.Nothing{}}})
	if err != nil {
		return host.Held{}, err
	}
	return heldFrom(r.answer.GetHeld()), nil
}

// Clear ends what runs out of gate under an id.
func (c *Conn) Clear(ctx context.Context, id string) error {
	_, err := c.call(ctx, &agentv1.Ask{What: &agentv1.Ask_Clear{Clear: id}})
	return err
}

// Holds says what the host has of a placement now.
func (c *Conn) Holds(ctx context.Context, ref host.Ref) (reserved, running bool, err error) {
	r, err := c.call(ctx, &agentv1.Ask{What: &agentv1.Ask_Holds{Holds: refOf(ref)}})
	return r.answer.GetReserved(), r.answer.GetRunning(), err
}

// Placed is what the host has of one admission.
func (c *Conn) Placed(ctx context.Context, id string) (host.Placed, error) {
	r, err := c.call(ctx, &agentv1.Ask{What: &agentv1.Ask_Placed{Placed: id}})
	if err != nil {
		return host.Placed{}, err
	}
	return placedFrom(r.answer.GetPlaced()), nil
}

// Lore is what the host saw of runs since a step of that sequence.
func (c *Conn) Lore(ctx context.Context, after int64) (host.Lore, error) {
	r, err := c.call(ctx, &agentv1.Ask{What: &agentv1.Ask_Lore{Lore: after}})
	if err != nil {
		return host.Lore{}, err
	}
	return loreFrom(r.answer.GetLore())
}

// call puts an ask in line for the next frame and waits for its answer.
func (c *Conn) call(ctx context.Context, ask *agentv1.Ask) (result, error) {
	back := make(chan result, 1)
	first := c.put(back, []*agentv1.Ask{ask})
	defer c.forget(first, 1)
	r, err := c.await(ctx, back)
	if err != nil {
		return result{}, err
	}
	return r, nil
}

// put puts asks in line, under ids that follow each other. Back has room for all answers.
func (c *Conn) put(back chan<- result, asks []*agentv1.Ask) (first uint64) {
	c.mu.Lock()
	first = c.lastID + 1
	for _, ask := range asks {
		c.lastID++
		ask.Id = c.lastID
		c.calls[ask.Id] = back
	}
	c.queue = append(c.queue, asks...)
	c.mu.Unlock()
	c.signal()
	return first
}

// await waits for one answer. One that says that it failed comes with its error.
func (c *Conn) await(ctx context.Context, back <-chan result) (result, error) {
	select {
	case r := <-back:
		if failed := r.answer.GetFailed(); failed != "" {
			return r, fmt.Errorf("host %s: %s", c.host, failed)
		}
		return r, nil
	case <-ctx.Done():
		return result{}, context.Cause(ctx)
	case <-c.ctx.Done():
		return result{}, c.why()
	}
}

func (c *Conn) forget(first uint64, n int) {
	c.mu.Lock()
	for id := first; id < first+uint64(n); id++ {
		delete(c.calls, id)
	}
	c.mu.Unlock()
}

func (c *Conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// write sends what is in line, all of it in one frame, and a heartbeat when nothing is.
func (c *Conn) write() error {
	beat := time.NewTicker(c.pace.beat)
	defer beat.Stop()
	for {
		select {
		case <-c.wake:
		case <-beat.C:
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		}
		runtime.Gosched() // whoever is about to ask does so now, and shares the frame
		if err := c.stream.Send(c.gather()); err != nil && !errors.Is(err, io.EOF) {
			return err // of io.EOF read has the reason
		}
		beat.Reset(c.pace.beat) // whatever was sent is a sign of life
	}
}

func (c *Conn) gather() *agentv1.ReplicaFrame {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.queue), maxAsks)
	f := &agentv1.ReplicaFrame{Asks: c.queue[:n:n], Keys: c.keys}
	c.keys = nil
	if c.queue = c.queue[n:]; len(c.queue) > 0 {
		c.signal()
	} else {
		c.queue = nil
	}
	return f
}

// read takes frames until the stream ends.
func (c *Conn) read() error {
	for {
		f, err := c.stream.Receive()
		if err != nil {
			return err
		}
		c.watchdog.Reset(c.pace.silent)
		if err := c.hear(f); err != nil {
			return err
		}
	}
}

// hear takes one frame in. Of another life of the agent there can be none on this stream.
func (c *Conn) hear(f *agentv1.AgentFrame) error {
	for _, s := range []*agentv1.Stamp{f.GetStamp(), f.GetVerdict().GetStamp()} {
		if s != nil && s.GetIncarnation() != c.incarnation {
			return fmt.Errorf("%w: a frame of incarnation %d on a stream of %d", ErrRefused, s.GetIncarnation(), c.incarnation)
		}
	}
	v := c.words.verdict(f.GetVerdict())
	if k := f.GetKeysHeld(); k != nil {
		c.acknowledged(k.GetIds())
	}
	if f.GetNews() && f.GetVerdict() != nil {
		c.feed.Tell(host.News{Verdict: v, Tracks: refsFrom(f.GetTracks()), Reopens: refsFrom(f.GetReopens()), Ends: endsFrom(f.GetEnds())})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range f.GetAnswers() {
		if back := c.calls[a.GetId()]; back != nil {
			delete(c.calls, a.GetId())
			back <- result{answer: a, verdict: v}
		}
	}
	return nil
}

// sendKeys has the next frame carry the host's keys.
func (c *Conn) sendKeys(k *agentv1.Keys) {
	c.mu.Lock()
	c.keys = k
	c.mu.Unlock()
	c.signal()
}

func (c *Conn) acknowledged(ids []string) {
	c.mu.Lock()
	c.held = ids
	c.mu.Unlock()
	select {
	case <-c.heldOnce:
	default:
		close(c.heldOnce)
	}
	c.changed()
}

// holds says whether the host can verify what is signed with a key.
func (c *Conn) holds(keyID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.held, keyID)
}

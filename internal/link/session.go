package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
	agentv1 "github.com/plimsoll-project/plimsoll/proto/plimsoll/agent/v1"
)

// session is one replica's stream at the agent's end, once it has proved itself. One
// goroutine reads frames and posts what they ask in their order; another gathers answers and
// news into frames. No ask costs a goroutine, and a replica that reads slowly holds nobody
// else up: what it asks waits for one of its places, and its news add up in its feed.
type session struct {
	server *Server
	stream *connect.BidiStream[agentv1.ReplicaFrame, agentv1.AgentFrame]
	places [maxOutstanding]place
	free   chan int // of places
	back   chan agent.Reply
	feed   *agent.Feed
	held   chan []string // ids of keys to acknowledge

	// Owned by write.
	speaker speaker
	newest  host.Verdict
}

// place is one ask until its answer is in a frame. It is filled before the ask is posted, and
// read after its reply.
type place struct {
	id     uint64
	seen   host.Verdict          // of a look
	finish func(*agentv1.Answer) // of a look: writes what it saw; nil for an event
}

// serve carries frames until the stream, or the agent, ends.
func (s *Server) serve(ctx context.Context, conn *connection, stream *connect.BidiStream[agentv1.ReplicaFrame, agentv1.AgentFrame]) error {
	w := &session{
		server: s, stream: stream, free: make(chan int, maxOutstanding), back: make(chan agent.Reply, maxOutstanding),
		feed: s.Host.Subscribe(), held: make(chan []string, 1),
	}
	defer s.Host.Unsubscribe(w.feed)
	defer s.Keys.Forget(w)
	for i := range w.places {
		w.free <- i
	}
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(ctx, conn.cut)
	defer stop()
	watchdog := time.AfterFunc(s.pace.silent, func() { end(ErrSilent) })
	defer watchdog.Stop()
	var writing sync.WaitGroup
	writing.Go(func() { end(w.write(ctx)) })
	end(w.read(ctx, watchdog))
	writing.Wait()
	return context.Cause(ctx)
}

func (w *session) read(ctx context.Context, watchdog *time.Timer) error {
	for {
		f, err := w.stream.Receive()
		if err != nil {
			return gone(err)
		}
		watchdog.Reset(w.server.pace.silent)
		if err := w.take(ctx, f); err != nil {
			return err
		}
	}
}

func gone(err error) error {
	if errors.Is(err, io.EOF) {
		return ErrClosed
	}
	return err
}

// take posts what a frame asks.
func (w *session) take(ctx context.Context, f *agentv1.ReplicaFrame) error {
	if len(f.GetAsks()) > maxAsks {
		return fmt.Errorf("%w: %d asks in one frame, at most %d", ErrRefused, len(f.GetAsks()), maxAsks)
	}
	if k := f.GetKeys(); k != nil {
		if err := w.takeKeys(ctx, k.GetFile()); err != nil {
			return err
		}
	}
	for _, a := range f.GetAsks() {
		if err := w.post(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// takeKeys takes the keys in force and has that acknowledged. What cannot be is acknowledged
// as what there is: then nobody signs with what this host cannot verify.
func (w *session) takeKeys(ctx context.Context, file []byte) error {
	ids, err := w.server.Keys.Take(w, file)
	if err != nil {
		w.server.Log.Error("ticket keys that a replica sent were not taken", "err", err)
	}
	select {
	case w.held <- ids:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *session) post(ctx context.Context, a *agentv1.Ask) error {
	var at int
	select {
	case at = <-w.free:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p, tag := &w.places[at], uint64(at)
	*p = place{id: a.GetId()}
	if clear, ok := a.GetWhat().(*agentv1.Ask_Clear); ok {
		go func() { w.back <- agent.Reply{Tag: tag, Err: w.server.Host.Clear(ctx, clear.Clear)} }()
		return nil
	}
	if firm, look := p.look(w.server.Host, a); look != nil {
		return w.server.Host.PostLook(ctx, tag, firm, look, w.back)
	}
	ev, err := eventOf(a)
	if err != nil {
		w.back <- agent.Reply{Tag: tag, Err: err} // there is room for one of each place
		return nil
	}
	return w.server.Host.Post(ctx, tag, ev, w.back)
}

// look makes what an ask wants to see of the host, nil if it is an event.
func (p *place) look(at Host, a *agentv1.Ask) (firm bool, look func(*host.Host)) {
	switch what := a.GetWhat().(type) {
	case *agentv1.Ask_Verdict:
		p.finish = func(*agentv1.Answer) {}
		return false, func(h *host.Host) { p.seen = h.Verdict() }
	case *agentv1.Ask_View:
		var v host.View
		p.finish = func(out *agentv1.Answer) { out.View = viewOf(&v) }
		return false, func(h *host.Host) { v = h.View(); p.seen = v.Verdict }
	case *agentv1.Ask_Holding:
		var held host.Held
		p.finish = func(out *agentv1.Answer) {
			held.OutOfGate = at.OutOfGate(&held)
			out.Held = heldOf(&held)
		}
		return true, func(h *host.Host) { held = h.Held() }
	case *agentv1.Ask_Holds:
		ref := refFrom(what.Holds)
		var reserved, running bool
		p.finish = func(out *agentv1.Answer) { out.Reserved, out.Running = reserved, running }
		return true, func(h *host.Host) { reserved, running = h.Holds(ref.ID, ref.Epoch) }
	case *agentv1.Ask_Placed:
		var placed host.Placed
		p.finish = func(out *agentv1.Answer) { out.Placed = placedOf(&placed) }
		return true, func(h *host.Host) { placed = h.Placed(what.Placed) }
	case *agentv1.Ask_Lore:
		var lore host.Lore
		p.finish = func(out *agentv1.Answer) { out.Lore = loreOf(&lore) }
		return false, func(h *host.Host) { lore = h.Lore(what.Lore) }
	}
	return false, nil
}

// write gathers whatever there is into the next frame.
func (w *session) write(ctx context.Context) error {
	beat, tidy := time.NewTicker(w.server.pace.beat), time.NewTicker(w.server.pace.beat)
	defer beat.Stop()
	defer tidy.Stop()
	w.newest.Incarnation = w.server.Host.Incarnation()
	for {
		f := new(agentv1.AgentFrame)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case r := <-w.back:
			w.answer(f, &r)
		case <-w.feed.Wake():
		case ids := <-w.held:
			f.KeysHeld = &agentv1.KeysHeld{Ids: ids}
		case <-beat.C:
		case <-tidy.C:
			w.server.Keys.Tidy()
			continue
		}
		runtime.Gosched() // what the host is about to answer goes with it
		if over := w.gather(f); over {
			return agent.ErrStopped
		}
		if err := w.stream.Send(f); err != nil {
			return err
		}
		beat.Reset(w.server.pace.beat) // whatever was sent is a sign of life
	}
}

// gather adds what else there is. The frame's verdict is the newest of all in it: what any
// answer in it says was so by then.
func (w *session) gather(f *agentv1.AgentFrame) (over bool) {
	for more := true; more; {
		select {
		case r := <-w.back:
			w.answer(f, &r)
		default:
			more = false
		}
	}
	n, some, over := w.feed.Take()
	if some {
		w.hear(&n.Verdict)
		f.News, f.Tracks, f.Reopens, f.Ends = true, refsOf(n.Tracks), refsOf(n.Reopens), endsOf(n.Ends)
	}
	if some || len(f.GetAnswers()) > 0 && w.newest.Host != "" {
		f.Verdict = w.speaker.verdict(&w.newest)
	} else {
		f.Stamp = stampOf(&w.newest)
	}
	return over
}

func (w *session) hear(v *host.Verdict) {
	if v.Host != "" && (w.newest.Host == "" || v.Newer(w.newest)) {
		w.newest = *v
	}
}

// answer writes one reply into a frame and gives its place back.
func (w *session) answer(f *agentv1.AgentFrame, r *agent.Reply) {
	p := &w.places[r.Tag]
	out := answerOf(&r.Answer)
	w.hear(&r.Answer.Verdict)
	w.hear(&p.seen)
	switch {
	case r.Err != nil:
		out = &agentv1.Answer{Failed: r.Err.Error()}
	case p.finish != nil:
		p.finish(out)
	}
	out.Id = p.id
	f.Answers = append(f.Answers, out)
	*p = place{}
	w.free <- int(r.Tag)
}

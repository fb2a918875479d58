package control

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
)

// batch is asks that are under way together. Those of a class that hosts alone record go
// abreast as far as they can: all of them claim and pick, then each host is asked once for all
// that fell to it. Whatever else a passage wants, and every passage of the store's, it does on
// a goroutine of its own.
type batch struct {
	gateway *Gateway
	who     *config.Consumer
	asks    []batchAsk
	waiting sync.WaitGroup // for what goes on elsewhere
}

// batchAsk is one of them.
type batchAsk struct {
	request *api.AdmissionRequest
	out     *ItemOutcome
	call    call
	driving driving
}

// Choir is a Link that can be asked for many things in one frame.
type Choir interface {
	// DoAll is Do for each event, in their order.
	DoAll(ctx context.Context, events []host.Event) []Said
}

// Said is what one event came to.
type Said struct {
	Answer host.Answer
	Err    error
}

// run answers all of them.
func (b *batch) run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detachedFor)
	defer cancel()
	at := map[string][]*batchAsk{} // host -> whom it is to be asked for
	for i := range b.asks {
		a := &b.asks[i]
		if b.guarded(a, func() { b.begin(ctx, a) }); a.driving.passage == nil {
			continue
		}
		if hostID := a.driving.next.Host; a.driving.next.Do == admission.Reserve && a.driving.req.ByHost {
			at[hostID] = append(at[hostID], a)
			continue
		}
		b.elsewhere(ctx, a)
	}
	for hostID, asks := range at {
		b.waiting.Add(1)
		b.gateway.crew.do(func() {
			defer b.waiting.Done()
			b.reserve(ctx, hostID, asks)
		})
	}
	b.waiting.Wait()
}

// begin judges an ask, and goes to where a host is to be asked if nothing is in its way.
func (b *batch) begin(ctx context.Context, a *batchAsk) {
	a.driving, a.call, a.out.Err = b.gateway.prepare(b.who, a.request)
	if a.out.Err != nil {
		return
	}
	d := &a.driving
	d.begin(ctx)
	for d.req.ByHost && (d.next.Do == admission.Claim || d.next.Do == admission.Pick) { // neither waits
		d.take(ctx, d.perform(ctx, d.next))
	}
}

// elsewhere runs what is left of a passage by itself.
func (b *batch) elsewhere(ctx context.Context, a *batchAsk) {
	b.waiting.Add(1)
	b.gateway.crew.do(func() {
		defer b.waiting.Done()
		b.guarded(a, func() { a.out.Outcome, a.out.Err = a.call.finish(ctx, a.driving.run(ctx)) })
	})
}

// reserve asks one host for all that fell to it.
func (b *batch) reserve(ctx context.Context, hostID string, asks []*batchAsk) {
	link, last, _ := b.gateway.link(hostID)
	var said []Said
	if link != nil {
		events := make([]host.Event, len(asks))
		for i, a := range asks {
			events[i] = a.driving.reservation(&a.driving.next, &last)
		}
		said = b.doAll(ctx, link, events)
	}
	for i, a := range asks {
		b.guarded(a, func() {
			d := &a.driving
			if link == nil {
				d.take(ctx, d.unasked(hostID))
			} else {
				d.take(ctx, d.reserved(&d.next, &said[i].Answer, said[i].Err))
			}
			if d.next.Do == admission.Settle { // it does not wait: it is the book's
				d.take(ctx, d.perform(ctx, d.next))
			}
			if d.next.Do == admission.Reply {
				a.out.Outcome, a.out.Err = a.call.finish(ctx, d.show(*d.next.Reply))
				return
			}
			b.elsewhere(ctx, a)
		})
	}
}

// doAll asks for many things at once, whatever the link can.
func (b *batch) doAll(ctx context.Context, link Link, events []host.Event) []Said {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	if c, ok := link.(Choir); ok {
		return c.DoAll(ctx, events)
	}
	said := make([]Said, len(events))
	var all sync.WaitGroup
	for i, ev := range events {
		all.Add(1)
		b.gateway.crew.do(func() {
			defer all.Done()
			said[i].Answer, said[i].Err = link.Do(ctx, ev)
		})
	}
	all.Wait()
	return said
}

// guarded keeps a broken invariant of ours, met in one ask, from taking others or the replica
// down with it.
func (b *batch) guarded(a *batchAsk, do func()) {
	defer func() {
		if p := recover(); p != nil {
			b.gateway.Log.Error("panic while answering one of a batch", "panic", p, "stack", string(debug.Stack()))
			a.out.Err, a.driving.passage = fmt.Errorf("panic: %v", p), nil
		}
	}()
	do()
}

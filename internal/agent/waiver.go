package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// Boots without a ticket: on a host in shadow, and while somebody has opened a bypass. Whether
// that is so, and whether there is room, the host decides.

// redeemOrWaive redeems the ticket, or boots by what the other end asks for where the host
// waives it. What runs already under the same ticket is not booted a second time.
func (b *booter) redeemOrWaive(ctx context.Context, q boot.Request) (*session, bool, error) {
	why := host.NoTicket
	var refused error
	if q.Ticket != "" || q.Ask == nil {
		s, inLine, denial, err := b.redeem(ctx, ticket.Text(q.Ticket))
		if err == nil || !waivable(denial) {
			return s, inLine, err
		}
		why, refused = denial, err
	}
	ask, id, err := b.askWithout(q)
	if err != nil {
		if refused != nil {
			err = refused
		}
		return nil, false, err
	}
	s, inLine, denial, err := b.bootWithout(ctx, ask, id, why)
	if denial == host.NoTicket || denial == host.Observing {
		err = refused
		if err == nil {
			r := api.Refuse(api.TicketRejected, "this host boots nothing without a ticket")
			r.Remedy = "get one from POST /v1/admissions; where no replica answers, root may say plimsoll bypass"
			err = r
		}
	}
	return s, inLine, err
}

// waivable says whether a ticket that boots nothing may be passed over. One that is used has
// its sandbox.
func waivable(d host.Denial) bool {
	switch d {
	case host.NoTicket, host.LapsedOrNever, host.Closed, host.Superseded:
		return true
	}
	return false
}

// askWithout is what is charged: what the other end says, or at least what its ticket did.
func (b *booter) askWithout(q boot.Request) (gate.Ask, host.Identity, error) {
	if q.Ask != nil {
		ask, err := askOf(q.Ask)
		return ask, host.Identity{Consumer: ownName, Key: q.Ask.Key, Pool: ownName, Class: q.Ask.Class}, err
	}
	claims, err := ticket.Inspect(ticket.Text(q.Ticket))
	if err != nil {
		return gate.Ask{}, host.Identity{}, err
	}
	ask, err := askOf(&boot.Ask{MemoryMB: max(claims.Memory.CeilMiB(), 1), Class: claims.Class})
	return ask, identity(claims), err
}

func (b *booter) bootWithout(ctx context.Context, ask gate.Ask, id host.Identity, why host.Denial) (*session, bool, host.Denial, error) {
	ref := host.Ref{ID: "unticketed:" + strings.ToLower(rand.Text()), Epoch: host.UnticketedEpoch}
	id.Key = cmp.Or(id.Key, ref.ID)
	s := &session{
		ref: ref, granted: make(chan struct{}), stopped: make(chan struct{}),
		claims: ticket.Claims{AdmissionID: ref.ID, Epoch: ref.Epoch, Key: id.Key, Class: ask.Class, Memory: ask.Memory},
	}
	b.open(s)
	answer, err := b.agent.Do(ctx, host.Boot{ID: ref.ID, Ask: ask, Identity: id, Ticket: why})
	switch {
	case err != nil:
		b.abandon(s, "the boot was not written down")
		return nil, false, "", api.Refuse(api.Unavailable, "%s", err)
	case answer.Denial != "":
		b.forget(s)
		return nil, false, answer.Denial, unticketedRefusal(answer)
	}
	s.waiver = string(host.ByBypass)
	if answer.Verdict.Enforcement == host.Shadow {
		s.waiver = string(host.ByShadow)
	}
	b.agent.cfg.Log.Warn("a sandbox boots without a ticket", "id", ref.ID, "by", s.waiver, "ticket", why, "would", answer.Would,
		"consumer", id.Consumer, "key", id.Key, "memory", ask.Memory)
	return s, answer.InLine, "", nil
}

func unticketedRefusal(a host.Answer) *api.Refusal {
	switch a.Denial {
	case host.NoRoom, host.LacksDim, host.LacksLabel, host.Cordoned:
		return api.Refuse(api.NoCapacity, "%s", strings.TrimSpace(fmt.Sprintf("needs %s; this host can promise %s: %s %s", a.Need, a.Verdict.Admittable, a.Denial, a.Detail)))
	}
	return bootRefusal(a.Denial)
}

// bypass begins, changes or ends a bypass, and tells whether there is one. Root may, and the
// agent's own user: it waives what the whole fleet has agreed on.
func (s *seam) bypass(ctx context.Context, q boot.Request) {
	if s.peer.Uid != 0 && int(s.peer.Uid) != os.Geteuid() && int(s.peer.Gid) != os.Getegid() {
		s.refuse(api.Refuse(api.Forbidden, "uid %d may not open a bypass on this host: be root, or the agent's user or group", s.peer.Uid))
		return
	}
	if q.Bypass != nil {
		ev := host.SetBypass{For: time.Duration(q.Bypass.ForMS) * time.Millisecond, By: fmt.Sprintf("uid-%d", s.peer.Uid), Reason: q.Bypass.Reason}
		answer, err := s.agent.Do(ctx, ev)
		switch {
		case err != nil:
			s.refuse(api.Refuse(api.Unavailable, "%s", err))
			return
		case answer.Denial != "":
			s.refuse(api.Refuse(api.InvalidRequest, "%s: write a reason, and a time of at most %s", answer.Detail, host.LongestBypass))
			return
		}
		s.agent.cfg.Log.Warn("a bypass was set", "by", ev.By, "for", ev.For, "reason", ev.Reason)
	}
	h, ok := s.shown(ctx)
	if !ok {
		return
	}
	if h.Bypass == nil {
		h.Bypass = &api.Bypass{Host: h.ID}
	}
	s.send(boot.Reply{Event: boot.EvBypass, Bypass: h.Bypass})
}

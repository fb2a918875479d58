package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// The host gate alone: what a node daemon reserves here by itself. The agent mints such a
// ticket under a key that nobody else has, so that it stays good when the host joins a fleet
// and gets that one's keys, and no replica ever has to know of it.

// Who and what a ticket of the agent's own says it is of.
const ownName = "local"

// own serves what needs no replica.
func (s *seam) own(ctx context.Context, q boot.Request) {
	if err := s.mayReserve(); err != nil {
		s.refuse(err)
		return
	}
	switch q.Op {
	case boot.OpReserve:
		s.reserve(ctx, q.Ask)
	case boot.OpRenew:
		s.renew(ctx, q.Ticket)
	case boot.OpRelease:
		s.release(ctx, q.Ticket)
	}
}

// mayReserve says whether the other end may spend this host's memory without asking anybody.
func (s *seam) mayReserve() error {
	if s.peer.Uid == 0 || int(s.peer.Uid) == os.Geteuid() {
		return nil
	}
	if g := s.agent.cfg.ReserveGroup; g != nil && (s.peer.Gid == *g || slices.Contains(s.groups, *g)) {
		return nil
	}
	return api.Refuse(api.Forbidden, "uid %d may not reserve on this host: be root or the agent's user, or in the group that host.reserve_group names", s.peer.Uid)
}

func (s *seam) reserve(ctx context.Context, in *boot.Ask) {
	ask, err := askOf(in)
	if err != nil {
		s.refuse(err)
		return
	}
	a := s.agent
	if in.Reserve == nil && !ask.Stateful {
		if err := a.Look(ctx, func(h *host.Host) { ask.Rule.Learned = h.Learned(&ask) }); err != nil {
			s.refuse(api.Refuse(api.Unavailable, "%s", err))
			return
		}
	}
	ref := host.Ref{ID: host.LocalPrefix + strings.ToLower(rand.Text()), Epoch: 1}
	until := a.clock() + a.cfg.Host.BootWithin
	answer, err := a.Do(ctx, host.Reserve{ID: ref.ID, Gen: ref.Epoch, Ask: ask, Until: until, Incarnation: a.life})
	switch {
	case err != nil:
		s.refuse(api.Refuse(api.Unavailable, "%s", err))
		return
	case answer.Denial != "":
		s.send(a.denial(ask, answer))
		return
	}
	claims := ticket.Claims{
		Consumer: ownName, Key: cmp.Or(in.Key, ref.ID), Pool: ownName, Class: ask.Class,
		AdmissionID: ref.ID, Memory: ask.Memory, Epoch: ref.Epoch,
	}
	if s.promise(claims, answer) != nil {
		a.takeBack(ref) // nobody has the ticket
	}
}

// promise mints the ticket and sends it.
func (s *seam) promise(c ticket.Claims, answer host.Answer) error {
	a := s.agent
	left := max(answer.Until-a.clock(), time.Millisecond)
	c.Issued = time.Now()
	c.Expires = c.Issued.Add(max(left, time.Second)) // for people; the ledger judges
	text, err := a.own.Mint(&c)
	if err != nil {
		s.refuse(err)
		return err
	}
	return s.send(boot.Reply{
		Event: boot.EvReserved, ID: c.AdmissionID, Epoch: c.Epoch, Host: a.ID(), Ticket: text.Reveal(),
		MemoryMB: c.Memory.FloorMiB(), NeedMB: answer.Need.CeilMiB(), ExpiresInMS: left.Milliseconds(),
		AdmittableMB: answer.Verdict.Admittable.FloorMiB(), Intake: answer.Verdict.Intake.String(),
	})
}

// takeBack releases, detached from whoever is gone.
func (a *Agent) takeBack(ref host.Ref) {
	ctx, cancel := context.WithTimeout(context.Background(), detachedFor)
	defer cancel()
	_, err := a.Do(ctx, host.Release{ID: ref.ID, Gen: ref.Epoch})
	if err != nil && !errors.Is(err, ErrStopped) {
		a.cfg.Log.Error("a reservation that nobody took lapses by itself", "id", ref.ID, "err", err)
	}
}

func (s *seam) renew(ctx context.Context, text string) {
	claims, ok := s.verifyOwn(text)
	if !ok {
		return
	}
	a := s.agent
	answer, err := a.Do(ctx, host.Renew{
		ID: claims.AdmissionID, Epoch: claims.Epoch, Until: a.clock() + a.cfg.Host.BootWithin, Incarnation: a.life,
	})
	switch {
	case err != nil:
		s.refuse(api.Refuse(api.Unavailable, "%s", err))
	case answer.Denial != "":
		s.refuse(bootRefusal(answer.Denial))
	case answer.Running:
		s.refuse(api.Refuse(api.InvalidRequest, "it runs: a sandbox needs no renewal"))
	default:
		s.promise(claims, answer)
	}
}

func (s *seam) release(ctx context.Context, text string) {
	claims, ok := s.verifyOwn(text)
	if !ok {
		return
	}
	if _, err := s.agent.Do(ctx, host.Release{ID: claims.AdmissionID, Gen: claims.Epoch}); err != nil {
		s.refuse(api.Refuse(api.Unavailable, "%s", err))
		return
	}
	s.send(boot.Reply{Event: boot.EvReleased, ID: claims.AdmissionID, Epoch: claims.Epoch})
}

// verifyOwn takes no replica's ticket: a store knows of that, and must hear of its end.
func (s *seam) verifyOwn(text string) (ticket.Claims, bool) {
	claims, err := s.agent.own.Verify(ticket.Text(text), ticket.Expect{})
	if err != nil {
		s.refuse(api.Refuse(api.TicketRejected, "%s; renew and release here take what reserve here gave", err))
		return claims, false
	}
	return claims, true
}

// show lays the arithmetic open to whoever may boot here. The keys of others are theirs: they
// are not shown at a socket that everybody can open.
func (s *seam) show(ctx context.Context) {
	h, ok := s.shown(ctx)
	if !ok {
		return
	}
	if s.mayReserve() != nil {
		h.Sandboxes = nil
	}
	s.send(boot.Reply{Event: boot.EvShown, Shown: &h})
}

// lessons shows what this host has learned by itself.
func (s *seam) lessons(ctx context.Context) {
	a := s.agent
	if a.cfg.ShowLessons == nil {
		s.refuse(api.Refuse(api.NotFound, "this agent is asked through its replicas: plimsoll classes"))
		return
	}
	var all []host.Lesson
	var room gate.Bytes
	if err := a.Look(ctx, func(h *host.Host) { all, room = h.Lessons(), h.Verdict().MaxAsk }); err != nil {
		s.refuse(api.Refuse(api.Unavailable, "%s", err))
		return
	}
	list := a.cfg.ShowLessons(all, room)
	s.send(boot.Reply{Event: boot.EvClasses, Classes: &list})
}

// shown is this host as it is shown; where it cannot be, the other end is told why.
func (s *seam) shown(ctx context.Context) (api.Host, bool) {
	a := s.agent
	if a.cfg.Show == nil {
		s.refuse(api.Refuse(api.NotFound, "this agent is asked through its replicas: plimsoll host show %s", a.ID()))
		return api.Host{}, false
	}
	v, err := a.View(ctx)
	if err != nil {
		s.refuse(api.Refuse(api.Unavailable, "%s", err))
		return api.Host{}, false
	}
	return a.cfg.Show(v, time.Now()), true
}

package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// attempt is one boot that must be refused.
type attempt struct {
	name   string
	reason ticket.Reason
}

func attempts() []attempt {
	return []attempt{
		{"a boot without a ticket", ticket.Missing},
		{"with a forged ticket", ticket.Forged},
		{"with one that was released", ticket.Released},
	}
}

// tickets tries to boot by the seam's own socket with what admits nothing.
func (d *demo) tickets(ctx context.Context) error {
	var said [2][]string
	var held [2]string
	err := d.both(ctx, func(ctx context.Context, n *node) (err error) {
		i := d.index(n)
		said[i], held[i], err = n.tryAll(ctx, d)
		return err
	})
	if err != nil {
		return err
	}
	for i, a := range attempts() {
		d.screen.row(a.name, said[0][i], said[1][i])
	}
	d.screen.row("reserved or running of it", held[0], held[1])
	d.summary.add("boots refused for want of a ticket", counted(said[0]), counted(said[1]))
	return nil
}

// counted is how many of the attempts were refused.
func counted(said []string) string { return fmt.Sprintf("%d of %d", len(said), len(attempts())) }

// tryAll makes each attempt with what is left of one real admission.
func (n *node) tryAll(ctx context.Context, d *demo) (said []string, held string, err error) {
	if err := n.lower(ctx, d, n.expect.room-1); err != nil {
		return nil, "", err
	}
	a, err := n.admitInTime(ctx, d)
	if err != nil {
		return nil, "", err
	}
	forged := forge(a.Ticket)
	if d.breaks("tickets") { // it is not forged at all
		forged = a.Ticket
	}
	for i, text := range []string{"", forged, a.Ticket} {
		if text == a.Ticket && !d.breaks("tickets") {
			if err := n.release(ctx, []string{a.Key}); err != nil {
				return nil, "", err
			}
		}
		word, err := n.refuses(ctx, attempts()[i], text)
		if err != nil {
			return nil, "", err
		}
		said = append(said, word)
	}
	held, err = n.nothingOf(ctx, a)
	return said, held, err
}

// forge changes one character of a ticket, in its MAC.
func forge(text string) string {
	at := len(text) - 2
	other := byte('A')
	if text[at] == other {
		other = 'B'
	}
	return text[:at] + string(other) + text[at+1:]
}

// refuses tries one boot, and says why it was refused.
func (n *node) refuses(ctx context.Context, a attempt, text string) (string, error) {
	start, err := n.seam.Redeem(ctx, text)
	want := "to be refused, " + a.reason.Error()
	if err == nil {
		start.Close()
		return "", mismatch{a.name, want, "a start"}
	}
	r, ok := api.AsRefusal(err)
	if !ok {
		return "", err
	}
	if r.Code != api.TicketRejected || !strings.HasSuffix(r.Detail, a.reason.String()) {
		return "", mismatch{a.name, want, r.Error()}
	}
	return "refused: " + a.reason.String(), nil
}

// nothingOf makes sure that the attempts left no trace on the host.
func (n *node) nothingOf(ctx context.Context, a *api.Admission) (string, error) {
	h, err := n.view(ctx)
	if err != nil {
		return "", err
	}
	held := h.Reservations
	for _, s := range h.Sandboxes {
		if s.ID == a.ID {
			held++
		}
	}
	return grouped(held), same("what the host holds of the refused boots", 0, held)
}

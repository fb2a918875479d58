package control

import (
	"context"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// RedeemTicket is POST /v1/tickets:redeem: a substrate's boot, once.
func (g *Gateway) RedeemTicket(ctx context.Context, who *config.Consumer, q api.TicketRequest) (api.Redemption, error) {
	t, row, err := g.presented(ctx, who, q)
	if err != nil {
		return api.Redemption{}, g.rejected(err, who, row)
	}
	v, row, err := g.Store.Redeem(ctx, t.wish)
	if g.failed(err, "id", t.wish.ID) {
		return api.Redemption{}, g.refused(api.Refuse(api.Unavailable, "the store did not answer; redeem again with the same instance"), who, t.claims.Class, t.claims.Pool)
	}
	return g.redeemed(who, t, v, row)
}

// VerifyTicket is POST /v1/tickets:verify: what redeeming would come to now.
func (g *Gateway) VerifyTicket(ctx context.Context, who *config.Consumer, q api.TicketRequest) (api.Redemption, error) {
	t, row, err := g.presented(ctx, who, q)
	if err != nil {
		return api.Redemption{}, g.rejected(err, who, row)
	}
	now, err := g.Store.Now(ctx)
	if err != nil {
		g.unread(err)
		return api.Redemption{}, g.refused(api.Refuse(api.Unavailable, "the store could not be read"), who, row.Class, row.Pool)
	}
	return g.redeemed(who, t, row.Redeemable(now, t.wish), row)
}

// presented is a ticket whose claims are proven and are those of its row.
type presented struct {
	claims ticket.Claims
	wish   pool.Redemption
}

// presented judges all of a ticket that no transition of the store has to: whose it is, its
// MAC, and that what it claims is what the row says. Whether it is over, the store decides.
func (g *Gateway) presented(ctx context.Context, who *config.Consumer, q api.TicketRequest) (presented, pool.Row, error) {
	var none pool.Row
	if text := instanceFault(q.Instance); text != "" {
		return presented{}, none, api.Refuse(api.InvalidRequest, "instance: %s", text)
	}
	claims, audience, err := g.proven(who, ticket.Text(q.Ticket))
	if err != nil {
		return presented{}, none, err
	}
	row, found, err := g.Store.ByID(ctx, claims.AdmissionID)
	switch {
	case err != nil:
		g.unread(err)
		return presented{}, none, api.Refuse(api.Unavailable, "the store could not be read")
	case !found:
		return presented{}, none, unknownPlacement(claims)
	case !claimsMatch(claims, row):
		return presented{}, row, reject(ticket.OtherKey, "its claims are not those of admission %s", row.ID)
	}
	return presented{claims, pool.Redemption{
		ID: row.ID, Epoch: claims.Epoch, Audience: audience,
		Expires: pool.Time(claims.Expires.UnixMilli()), Instance: q.Instance,
	}}, row, nil
}

// longestInstance is the contract's.
const longestInstance = 128

func instanceFault(s string) string {
	if !utf8.ValidString(s) || utf8.RuneCountInString(s) > longestInstance {
		return fmt.Sprintf("write at most %d characters", longestInstance)
	}
	for _, c := range s {
		if unicode.IsControl(c) {
			return "it has a control character"
		}
	}
	return ""
}

// proven returns the claims of a ticket that is ours and for one of the caller's audiences.
func (g *Gateway) proven(who *config.Consumer, text ticket.Text) (ticket.Claims, string, error) {
	said, err := ticket.Inspect(text)
	if err != nil {
		return said, "", reject(reasonOf(err), "")
	}
	audience, ok := ticket.SubstrateOf(said.Audience)
	if !ok || !who.Serves(audience) || !g.audienceKnown(audience) {
		return said, "", reject(ticket.OtherHost, "it is for %q, whose tickets consumer %s does not redeem", said.Audience, who.Name)
	}
	keys, err := g.audience(said.Audience)
	if err != nil {
		return said, "", fmt.Errorf("derive the keys of audience %s: %w", audience, err)
	}
	claims, err := keys.Verify(text, ticket.Expect{})
	if err != nil {
		return said, "", reject(reasonOf(err), "")
	}
	return claims, audience, nil
}

// reasonOf is the reason that an error of package ticket is; it fails closed.
func reasonOf(err error) ticket.Reason {
	if r, ok := err.(ticket.Reason); ok {
		return r
	}
	return ticket.Malformed
}

// reject is the refusal of a boot over its ticket.
func reject(why ticket.Reason, format string, args ...any) *api.Refusal {
	return &api.Refusal{Code: api.TicketRejected, Reason: why.String(), Detail: fmt.Sprintf(format, args...)}
}

// unknownPlacement is told of a proven ticket that the store has nothing of: it has lost what
// it had, or forgotten what ended long ago. The key's next attempt settles it.
func unknownPlacement(c ticket.Claims) *api.Refusal {
	return api.Refuse(api.ReservationLapsed, "the store knows no admission %s at epoch %d", c.AdmissionID, c.Epoch)
}

// claimsMatch compares all that a ticket says with its row: whoever holds the audience's key
// could have written anything. The key's next passage may be of another class.
func claimsMatch(c ticket.Claims, r pool.Row) bool {
	if c.AdmissionID != r.ID || c.Consumer != r.Consumer || c.Key != r.Key {
		return false
	}
	return c.Epoch != r.Epoch ||
		c.Pool == r.Pool && c.Class == r.Class && c.Tenant == r.Tenant && c.Memory == gate.FromMiB(r.MemoryMB)
}

// redeemed says the store's verdict.
func (g *Gateway) redeemed(who *config.Consumer, t presented, v pool.RedeemVerdict, row pool.Row) (api.Redemption, error) {
	if v != pool.Redeemed {
		return api.Redemption{}, g.rejected(refusalOfRedeem(t, v, row), who, row)
	}
	return api.Redemption{
		ID: row.ID, Epoch: row.Epoch, Consumer: row.Consumer, Key: row.Key, Pool: row.Pool, Class: row.Class,
		Template: row.Template, Tenant: row.Tenant, Audience: row.Audience, Instance: row.Instance,
		State: api.AdmissionState(row.State), MemoryMB: row.MemoryMB, CPU: float64(row.CPUMilli) / 1000,
		ExpiresAt: t.claims.Expires, LiveForMS: max(row.LiveUntil.Since(g.storeNow()), 0).Milliseconds(),
		HeartbeatMS: g.heartbeatOf(row).Milliseconds(),
	}, nil
}

func refusalOfRedeem(t presented, v pool.RedeemVerdict, row pool.Row) *api.Refusal {
	switch v {
	case pool.RedeemExpired:
		return reject(ticket.Expired, "it expired at %s by the store's clock; a heartbeat brings a fresh one while the admission lives, and it is %s", t.claims.Expires.Format(timeFormat), row.State)
	case pool.RedeemReplayed:
		return reject(ticket.Replayed, "it was redeemed at %s%s", row.RunningAt.Wall().Format(timeFormat), forInstance(row.Instance))
	case pool.RedeemReleased:
		return reject(ticket.Released, "admission %s is %s", row.ID, row.State)
	case pool.RedeemSuperseded:
		return reject(ticket.Superseded, "admission %s is at epoch %d by now, and the ticket at %d", row.ID, row.Epoch, t.claims.Epoch)
	case pool.RedeemUnknown, pool.Redeemed:
	}
	if row.Epoch == t.claims.Epoch {
		return reject(ticket.OtherHost, "admission %s is for another audience", row.ID)
	}
	return unknownPlacement(t.claims)
}

const timeFormat = "2006-01-02T15:04:05.000Z07:00"

func forInstance(name string) string {
	if name == "" {
		return ""
	}
	return " for instance " + name
}

// rejected counts a boot that is refused, by its reason.
func (g *Gateway) rejected(err error, who *config.Consumer, row pool.Row) error {
	if r, ok := api.AsRefusal(err); ok && r.Code == api.TicketRejected {
		g.Metrics.Rejections.WithLabelValues(r.Reason).Inc()
	}
	return g.refused(err, who, row.Class, row.Pool)
}

// audienceKnown says whether a pool of the configuration has the audience.
func (g *Gateway) audienceKnown(name string) bool {
	fleet := g.Fleet()
	return fleet != nil && fleet.HasAudience(name)
}

// AudienceKeys is GET /v1/audiences/{name}/key.
func (g *Gateway) AudienceKeys(who *config.Consumer, name string) (ticket.AudienceKeys, error) {
	if !g.audienceKnown(name) {
		return ticket.AudienceKeys{}, g.Refused(api.Refuse(api.NotFound, "no pool has the audience %q", name), who)
	}
	keys, err := g.audience(ticket.ForSubstrate(name))
	if err != nil {
		return keys, fmt.Errorf("derive the keys of audience %s: %w", name, err)
	}
	g.Log.Info("an audience's keys were handed out", "audience", name, "by", who.Name)
	return keys, nil
}

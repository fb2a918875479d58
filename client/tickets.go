package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// RedeemTicket gives a ticket up for a boot, once; see client/substrate, which also verifies
// it first. The same instance again is the same redemption, so with one it is tried again for
// up to 10 s while no replica answers.
func (c *Client) RedeemTicket(ctx context.Context, q api.TicketRequest) (*api.Redemption, error) {
	const path = "/v1/tickets:redeem"
	if q.Instance == "" {
		return send[api.Redemption](ctx, c, http.MethodPost, path, q)
	}
	out := new(api.Redemption)
	if err := c.persist(ctx, call{method: http.MethodPost, path: path, body: q}, out, unanswered); err != nil {
		return nil, err
	}
	return out, nil
}

// VerifyTicket says whether a ticket would be redeemed now, and changes nothing.
func (c *Client) VerifyTicket(ctx context.Context, q api.TicketRequest) (*api.Redemption, error) {
	return send[api.Redemption](ctx, c, http.MethodPost, "/v1/tickets:verify", q)
}

// AudienceKeys fetches the keys by which a substrate verifies tickets itself. They are secret.
func (c *Client) AudienceKeys(ctx context.Context, audience string) (ticket.AudienceKeys, error) {
	file, err := get[json.RawMessage](ctx, c, "/v1/audiences/"+url.PathEscape(audience)+"/key", nil)
	if err != nil {
		return ticket.AudienceKeys{}, err
	}
	keys, err := ticket.ParseAudienceKeys(*file)
	if err != nil {
		return keys, fmt.Errorf("read the keys of audience %s: %w", audience, err)
	}
	return keys, nil
}

package client

import (
	"context"
	"net/url"

	"github.com/plimsoll-project/plimsoll/api"
)

// Decision explains one answer of the gate, by its decision_id: whose no it was, what would have
// made it a yes, and what happened since. It is there for a day.
func (c *Client) Decision(ctx context.Context, id string) (*api.Decision, error) {
	return get[api.Decision](ctx, c, "/v1/decisions/"+url.PathEscape(id), nil)
}

// Decisions lists what a key was told, newest first.
func (c *Client) Decisions(ctx context.Context, key string) (*api.DecisionList, error) {
	return get[api.DecisionList](ctx, c, "/v1/decisions", url.Values{"key": {key}})
}

package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

// Every call goes where the contract has it, hands back what came, and hands on what was
// refused.
func TestEveryCall(t *testing.T) {
	limit := int64(5)
	only := api.ListAdmissionsParams{State: api.AdmissionStateRunning, Class: "agent", Limit: &limit}
	for want, do := range map[string]func(context.Context, *client.Client) (bool, error){
		"GET /base/v1/admissions/k":            func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.Get(ctx, "k")) },
		"GET /base/v1/admissions/a%2Fb":        func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.Get(ctx, "a/b")) },
		"GET /base/v1/admissions/id/a-1":       func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.GetID(ctx, "a-1")) },
		"POST /base/v1/admissions/k/heartbeat": func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.Heartbeat(ctx, "k")) },
		"DELETE /base/v1/admissions/id/a-1":    func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.ReleaseID(ctx, "a-1")) },
		"GET /base/v1/admissions?class=agent&limit=5&state=running": func(ctx context.Context, c *client.Client) (bool, error) {
			return ok(c.Admissions(ctx, only))
		},
		"GET /base/v1/hosts":   func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.Hosts(ctx)) },
		"GET /base/v1/hosts/h": func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.Host(ctx, "h")) },
		"GET /base/v1/pools":   func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.Pools(ctx)) },
		"GET /base/v1/whoami":  func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.Whoami(ctx)) },
		"GET /base/v1/config":  func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.Config(ctx)) },
		"PUT /base/v1/config": func(ctx context.Context, c *client.Client) (bool, error) {
			return ok(c.PutConfig(ctx, api.ConfigChange{}))
		},
	} {
		virtual(t, func(t *testing.T, ctx context.Context) {
			c, s := talk(t, answer{status: 200, body: map[string]string{"id": "a-1"}}, no(api.Forbidden, 0))
			if found, err := do(ctx, c); err != nil || !found {
				t.Errorf("%s: %v, %v", want, found, err)
			}
			if got := s.seen[0].method + " " + s.seen[0].url; got != want {
				t.Errorf("called %s, want %s", got, want)
			}
			if found, err := do(ctx, c); found || !errors.Is(err, api.Forbidden) {
				t.Errorf("%s, refused: %v, %v", want, found, err)
			}
		})
	}
}

func ok[T any](v *T, err error) (bool, error) { return v != nil, err }

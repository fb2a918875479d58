package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

// Every call goes where the contract has it, hands back what came, and hands on what was
// refused.
func TestEveryCall(t *testing.T) {
	limit := int64(5)
	only := api.ListAdmissionsParams{State: api.AdmissionStateRunning, Class: "agent", Pool: "p", Host: "h", Limit: &limit}
	page := api.ListAdmissionsParams{Order: api.AdmissionOrderID, After: "a-1"}
	for want, do := range map[string]func(context.Context, *client.Client) (bool, error){
		"GET /base/v1/admissions/k":            func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.Get(ctx, "k")) },
		"GET /base/v1/admissions/a%2Fb":        func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.Get(ctx, "a/b")) },
		"GET /base/v1/admissions/id/a-1":       func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.GetID(ctx, "a-1")) },
		"POST /base/v1/admissions/k/heartbeat": func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.Heartbeat(ctx, "k")) },
		"DELETE /base/v1/admissions/id/a-1?epoch=7": func(ctx context.Context, c *client.Client) (bool, error) {
			return ok(c.ReleaseAdmission(ctx, &api.Admission{ID: "a-1", Key: "k", Epoch: 7}))
		},
		"POST /base/v1/admissions/id/a-1/heartbeat": func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.HeartbeatID(ctx, "a-1")) },
		"DELETE /base/v1/admissions/id/a-1":         func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.ReleaseID(ctx, "a-1")) },
		"GET /base/v1/admissions?class=agent&host=h&limit=5&pool=p&state=running": func(ctx context.Context, c *client.Client) (bool, error) {
			return ok(c.Admissions(ctx, only))
		},
		"GET /base/v1/admissions?after=a-1&order=id": func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.Admissions(ctx, page)) },
		"GET /base/v1/hosts":                         func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.Hosts(ctx)) },
		"GET /base/v1/hosts/h":                       func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.Host(ctx, "h")) },
		"POST /base/v1/hosts/a%2Fb/cordon":           func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.CordonHost(ctx, "a/b", "")) },
		"POST /base/v1/hosts/h/uncordon":             func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.UncordonHost(ctx, "h", "")) },
		"POST /base/v1/hosts/h/drain":                func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.DrainHost(ctx, "h", "why")) },
		"POST /base/v1/hosts/h/bury":                 func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.BuryHost(ctx, "h", "why")) },
		"POST /base/v1/join-tokens": func(ctx context.Context, c *client.Client) (bool, error) {
			return ok(c.CreateJoinToken(ctx, "", time.Hour))
		},
		"GET /base/v1/join-tokens":        func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.JoinTokens(ctx)) },
		"DELETE /base/v1/join-tokens/j-1": func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.RevokeJoinToken(ctx, "j-1")) },
		"GET /base/v1/pools":              func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.Pools(ctx)) },
		"GET /base/v1/whoami":             func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.Whoami(ctx)) },
		"GET /base/v1/config":             func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.Config(ctx)) },
		"PUT /base/v1/config": func(ctx context.Context, c *client.Client) (bool, error) {
			return ok(c.PutConfig(ctx, api.ConfigChange{}))
		},
		"GET /base/v1/config?generation=7": func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.ConfigAt(ctx, 7)) },
		"GET /base/v1/configs":             func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.Configs(ctx, 0)) },
		"GET /base/v1/audit?limit=5":       func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.Audit(ctx, 5)) },
		"GET /base/v1/replicas":            func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.Replicas(ctx)) },
		"POST /base/v1/pools/a%2Fb/override": func(ctx context.Context, c *client.Client) (bool, error) {
			return ok(c.OverridePool(ctx, "a/b", 3, time.Hour, "why"))
		},
		"POST /base/v1/pools/p/hold": func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.HoldPool(ctx, "p", 0, "why")) },
		"GET /base/v1/mode":          func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.Mode(ctx)) },
		"POST /base/v1/mode": func(ctx context.Context, c *client.Client) (bool, error) {
			return ok(c.SetMode(ctx, api.ModeRequest{Mode: api.ModeRequestModeShadow, Scope: "all", Reason: "why"}))
		},
		"POST /base/v1/hosts/a%2Fb/bypass": func(ctx context.Context, c *client.Client) (bool, error) {
			return ok(c.BypassHost(ctx, "a/b", time.Hour, "why"))
		},
		"POST /base/v1/pools/p/resume": func(ctx context.Context, c *client.Client) (bool, error) { return ok(c.ResumePool(ctx, "p", "why")) },
		"POST /base/v1/pools/p/running": func(ctx context.Context, c *client.Client) (bool, error) {
			return ok(c.ReportRunning(ctx, "p", api.RunningReport{}))
		},
		"POST /base/v1/tickets:redeem": func(ctx context.Context, c *client.Client) (bool, error) {
			return ok(c.RedeemTicket(ctx, api.TicketRequest{Ticket: "t", Instance: "vm-1"}))
		},
		"POST /base/v1/tickets:verify": func(ctx context.Context, c *client.Client) (bool, error) {
			return ok(c.VerifyTicket(ctx, api.TicketRequest{Ticket: "t"}))
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

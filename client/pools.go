package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

func poolPath(name, what string) string { return "/v1/pools/" + url.PathEscape(name) + "/" + what }

// Mode says what is enforced, and what is only counted.
func (c *Client) Mode(ctx context.Context) (*api.ModeReport, error) {
	return send[api.ModeReport](ctx, c, http.MethodGet, "/v1/mode", nil)
}

// SetMode takes something out of force, or puts it back. One thing alone, while all is in
// shadow, is api.ModeOfAll.
func (c *Client) SetMode(ctx context.Context, q api.ModeRequest) (*api.ModeReport, error) {
	return send[api.ModeReport](ctx, c, http.MethodPost, "/v1/mode", q)
}

// BypassHost lets a host boot without tickets for a while; zero ends that.
func (c *Client) BypassHost(ctx context.Context, id string, lasts time.Duration, reason string) (*api.Bypass, error) {
	q := api.BypassRequest{ForMS: lasts.Milliseconds(), Reason: reason}
	return send[api.Bypass](ctx, c, http.MethodPost, "/v1/hosts/"+url.PathEscape(id)+"/bypass", q)
}

// OverridePool sets a pool's cap for a while. A sum of caps over the ceiling is api.OverCeiling.
func (c *Client) OverridePool(ctx context.Context, name string, slots int64, lasts time.Duration, reason string) (*api.PoolChange, error) {
	q := api.PoolOverrideRequest{Cap: slots, ForMS: lasts.Milliseconds(), Reason: reason}
	return send[api.PoolChange](ctx, c, http.MethodPost, poolPath(name, "override"), q)
}

// HoldPool lets nothing new into a pool: for a while, or until it is resumed for zero.
func (c *Client) HoldPool(ctx context.Context, name string, lasts time.Duration, reason string) (*api.PoolChange, error) {
	q := api.PoolHoldRequest{Reason: reason}
	if lasts > 0 {
		ms := lasts.Milliseconds()
		q.ForMS = &ms
	}
	return send[api.PoolChange](ctx, c, http.MethodPost, poolPath(name, "hold"), q)
}

// ResumePool takes back what an operator set of a pool.
func (c *Client) ResumePool(ctx context.Context, name, reason string) (*api.PoolChange, error) {
	return send[api.PoolChange](ctx, c, http.MethodPost, poolPath(name, "resume"), api.PoolResumeRequest{Reason: reason})
}

// ReportRunning says what runs of a pool without hosts, and so keeps its slots.
func (c *Client) ReportRunning(ctx context.Context, name string, report api.RunningReport) (*api.RunningVerdict, error) {
	if report.Running == nil {
		report.Running = []api.RunningSandbox{} // none is a list too
	}
	return send[api.RunningVerdict](ctx, c, http.MethodPost, poolPath(name, "running"), report)
}

package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/hint"
	"github.com/plimsoll-project/plimsoll/internal/config"
)

// refusalOf is the one ladder from errors to refusals: those that are one say what they
// are, faults of a configuration are the caller's, and everything else is ours to look into.
func refusalOf(err error) *api.Refusal {
	if r, ok := api.AsRefusal(err); ok {
		return r
	}
	var faults config.Faults
	if errors.As(err, &faults) {
		return api.Refuse(api.InvalidConfig, "%d faults", len(faults))
	}
	return &api.Refusal{Code: api.Internal}
}

// faultsIn are the lines of a configuration that are wrong.
func faultsIn(err error) (out []api.Fault) {
	var faults config.Faults
	errors.As(err, &faults)
	for _, f := range faults {
		out = append(out, api.Fault{Line: int64(f.Line), Path: f.Path, Message: f.Message})
	}
	return out
}

func problemOf(r *api.Refusal) api.Problem {
	m := r.Code.Meaning()
	p := api.Problem{
		Type: "urn:plimsoll:problem:" + string(r.Code), Title: m.Title, Status: m.Status, Code: r.Code, Detail: r.Detail,
		Scope: r.WhoseNo(), Retryable: m.Retryable(), Remedy: r.Remedy, DecisionID: r.DecisionID,
		Receipt: r.Receipt, Reason: api.TicketReason(r.Reason),
	}
	if p.Remedy == "" {
		p.Remedy = m.Remedy
	}
	if r.RetryAfter > 0 {
		p.RetryAfterMS = hint.Millis(r.RetryAfter)
	}
	addFigures(&p, r.Figures)
	return p
}

// mostHosts is how many hosts are named for each reason; all of them are counted.
const mostHosts = 32

func addFigures(p *api.Problem, f api.Figures) {
	p.Pool, p.Position, p.TimedOut = f.Pool, f.Position, f.TimedOut
	p.WaitingFor, p.QueuedForMS = api.WaitingFor(f.WaitingFor), f.QueuedFor.Milliseconds()
	if f.Cap != nil || f.PoolBusy != 0 {
		p.PoolBusy, p.Cap = &f.PoolBusy, f.Cap
	}
	p.Share, p.Override, p.ElsewhereFits = f.Share, f.Override, f.ElsewhereFits
	if p.Code == api.TenantOverQuota || p.Code == api.OverCeiling && f.Limit != 0 {
		p.Limit, p.Use = &f.Limit, &f.Use
	}
	if len(f.Hosts) > 0 {
		p.Hosts, p.Tally = map[string][]string{}, map[string]int64{}
		for reason, ids := range f.Hosts {
			p.Hosts[reason], p.Tally[reason] = ids[:min(len(ids), mostHosts)], int64(len(ids))
		}
	}
}

// retryAfter says an appointment in the header's whole seconds.
func retryAfter(ms int64) int64 { return hint.Seconds(time.Duration(ms) * time.Millisecond) }

func writeProblem(w http.ResponseWriter, p api.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	if p.RetryAfterMS > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(retryAfter(p.RetryAfterMS), 10))
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="plimsoll"`)
	}
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p)
}

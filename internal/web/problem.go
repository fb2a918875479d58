package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/hint"
	"github.com/plimsoll-project/plimsoll/internal/config"
)

// problemOf is the one ladder from errors to problem documents: refusals say what they
// are, faults of a configuration say where, and everything else is ours to look into.
func problemOf(err error) api.Problem {
	var faults config.Faults
	if errors.As(err, &faults) {
		p := problemFrom(&api.Refusal{Code: api.InvalidConfig, Detail: strconv.Itoa(len(faults)) + " faults"})
		for _, f := range faults {
			p.Errors = append(p.Errors, api.Fault{Line: int64(f.Line), Path: f.Path, Message: f.Message})
		}
		return p
	}
	r, ok := api.AsRefusal(err)
	if !ok {
		r = &api.Refusal{Code: api.Internal}
	}
	return problemFrom(r)
}

func problemFrom(r *api.Refusal) api.Problem {
	m := r.Code.Meaning()
	p := api.Problem{
		Type: "about:blank", Title: m.Title, Status: m.Status, Code: r.Code, Detail: r.Detail,
		Scope: r.WhoseNo(), Retryable: m.Retryable(), Remedy: r.Remedy, DecisionID: r.DecisionID,
		Receipt: r.Receipt,
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

func addFigures(p *api.Problem, f api.Figures) {
	p.Pool, p.Position, p.TimedOut = f.Pool, f.Position, f.TimedOut
	p.WaitingFor, p.QueuedForMS = api.WaitingFor(f.WaitingFor), f.QueuedFor.Milliseconds()
	if f.Cap != 0 || f.PoolBusy != 0 {
		p.PoolBusy, p.Cap = &f.PoolBusy, &f.Cap
	}
	if p.Code == api.TenantOverQuota {
		p.Limit, p.Use = &f.Limit, &f.Use
	}
	if len(f.Hosts) > 0 {
		p.Hosts, p.Tally = f.Hosts, map[string]int64{}
		for reason, ids := range f.Hosts {
			p.Tally[reason] = int64(len(ids))
		}
	}
}

func writeProblem(w http.ResponseWriter, p api.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	if p.RetryAfterMS > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt((p.RetryAfterMS+999)/1000, 10))
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="plimsoll"`)
	}
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p)
}

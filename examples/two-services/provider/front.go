package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client/substrate"
)

// Order is the body of a PUT.
type Order struct {
	Ticket string `json:"ticket"`
	RunMS  int64  `json:"run_ms"` // how long it runs
}

// No is the body of a refusal.
type No struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

var containerName = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

const longest = time.Hour

func (p *provider) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /account", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, p.count()) })
	mux.HandleFunc("PUT /containers/{name}", p.put)
	mux.HandleFunc("GET /containers/{name}", func(w http.ResponseWriter, r *http.Request) {
		if c, ok := p.look(r.PathValue("name")); ok {
			answer(w, http.StatusOK, c)
			return
		}
		answer(w, http.StatusNotFound, No{"not_found", "no container has this name"})
	})
	mux.HandleFunc("DELETE /containers/{name}", func(w http.ResponseWriter, r *http.Request) {
		p.end(r.PathValue("name"))
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

func (p *provider) put(w http.ResponseWriter, r *http.Request) {
	var o Order
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&o)
	lasts := time.Duration(min(max(o.RunMS, 0), longest.Milliseconds())) * time.Millisecond
	if name := r.PathValue("name"); err != nil || !containerName.MatchString(name) {
		answer(w, http.StatusBadRequest, No{"invalid_request", "send {\"ticket\": …, \"run_ms\": …} to /containers/NAME"})
		return
	}
	c, fresh, err := p.boot(r.Context(), r.PathValue("name"), o.Ticket, lasts)
	var rejected *substrate.Rejected
	switch {
	case err == nil && fresh:
		answer(w, http.StatusCreated, c)
	case err == nil:
		answer(w, http.StatusOK, c)
	case errors.As(err, &rejected):
		answer(w, http.StatusForbidden, No{string(api.TicketRejected), rejected.Error()})
	case errors.Is(err, errAtLimit):
		answer(w, http.StatusTooManyRequests, No{"account_limit", err.Error()})
	default: // the gate did not answer: nothing boots on a guess
		w.Header().Set("Retry-After", strconv.Itoa(1))
		answer(w, http.StatusServiceUnavailable, No{string(api.Unavailable), "the ticket could not be redeemed: " + err.Error()})
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Server", "fake-provider")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

package web

import (
	"net/http"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

// waitingRetry is when callers are told to come back to a replica that has no store yet.
const waitingRetry = 2 * time.Second

// WithoutStore answers for a replica that cannot reach its store yet: it lives, it is not ready,
// and every create is not now.
func WithoutStore() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		text(w, http.StatusOK, "ok, and waiting for the store\n")
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		no := api.Refuse(api.Unavailable, "this replica has not reached its store yet")
		no.RetryAfter = waitingRetry
		writeProblem(w, problemOf(no))
	})
	return mux
}

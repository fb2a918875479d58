package demo

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// wire notes what came over it in answer to creates, below the SDK.
type wire struct {
	next http.RoundTripper

	mu      sync.Mutex // guards answers
	answers []answer
}

// answer is what HTTP itself said.
type answer struct {
	status     int
	retryAfter time.Duration
}

// RoundTrip sends a request on.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(r)
	if err == nil && r.Method == http.MethodPost && r.URL.Path == "/v1/admissions" {
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // zero is what an absent one counts as
		w.mu.Lock()
		w.answers = append(w.answers, answer{resp.StatusCode, time.Duration(seconds) * time.Second})
		w.mu.Unlock()
	}
	return resp, err
}

// take returns the answers since it was last called.
func (w *wire) take() []answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.answers
	w.answers = nil
	return all
}

package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

// A caller waits for at most 30 s, and makes three things of three answers.
func Example() {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"code": "pool_full", "detail": "pool agent holds 20 of 20", "retry_after_ms": 45000}`)
	}))
	defer s.Close()

	c, err := client.New(s.URL, "token")
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err := c.Admit(context.Background(), api.AdmissionRequest{Class: "agent"}, client.Options{Wait: 30 * time.Second})
	switch {
	case err == nil:
		fmt.Println("boot it with the ticket, on host", a.Host)
	case client.NotNow(err):
		fmt.Println("park it as waiting, ask again in", client.RetryAfter(err), errors.Is(err, api.PoolFull))
	default:
		fmt.Println("the request must change:", err)
	}
	// Output: park it as waiting, ask again in 45s true
}

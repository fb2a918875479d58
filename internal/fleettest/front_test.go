package fleettest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/client"
)

// front is what stands before the replicas, as a load balancer does: each call is sent to one
// of them, and to the next if that one takes no connection. It sees every answer.
type front struct {
	t         *testing.T
	addresses []string
	transport http.RoundTripper

	mu       sync.Mutex // guards what follows
	statuses map[string]int
	wrong    map[string]int // answers that must not be
}

func newFront(t *testing.T, replicas []*replica) *front {
	f := &front{t: t, statuses: map[string]int{}, wrong: map[string]int{}}
	for _, r := range replicas {
		f.addresses = append(f.addresses, r.address())
	}
	f.transport = &http.Transport{DialContext: f.dial, DisableKeepAlives: true}
	return f
}

func (f *front) dial(ctx context.Context, network, _ string) (conn net.Conn, err error) {
	for _, i := range rand.Perm(len(f.addresses)) {
		var d net.Dialer
		if conn, err = d.DialContext(ctx, network, f.addresses[i]); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// sent is when a call was sent last, and to which replica: -1 to none.
type sent struct {
	at      time.Time
	replica int
}

type sentKey struct{} // of a context whose calls are noted in its *sent

// RoundTrip implements http.RoundTripper.
func (f *front) RoundTrip(q *http.Request) (*http.Response, error) {
	if s, ok := q.Context().Value(sentKey{}).(*sent); ok {
		s.at, s.replica = time.Now(), -1
		q = q.WithContext(httptrace.WithClientTrace(q.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
			s.replica = slices.Index(f.addresses, i.Conn.RemoteAddr().String())
		}}))
	}
	resp, err := f.transport.RoundTrip(q)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.statuses["none"]++
		return nil, err
	}
	f.statuses[fmt.Sprint(resp.StatusCode)]++
	kind := resp.Header.Get("Content-Type")
	switch {
	case resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "":
		f.wrong["503 without Retry-After"]++
	case resp.StatusCode >= 500 && resp.StatusCode != http.StatusServiceUnavailable, resp.StatusCode == http.StatusTooManyRequests:
		f.wrong[fmt.Sprintf("%d to %s %s", resp.StatusCode, q.Method, q.URL.Path)]++
	case resp.StatusCode >= 400 && kind != "application/problem+json":
		f.wrong[fmt.Sprintf("%d of the type %q", resp.StatusCode, kind)]++
	}
	return resp, nil
}

// client is the SDK, for one consumer.
func (f *front) client(consumer string) *client.Client {
	f.t.Helper()
	c, err := client.New("http://plimsoll.test", tokenOf(consumer), client.WithHTTPClient(&http.Client{Transport: f}))
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// judge holds every answer that was seen against the contract, and returns how many there were.
func (f *front) judge() (answers int) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for what, n := range f.wrong {
		f.t.Errorf("answered %d times: %s", n, what)
	}
	for status, n := range f.statuses {
		if status != "none" {
			answers += n
		}
	}
	f.t.Logf("answers by status: %v", f.statuses)
	return answers
}

const startWithin = 30 * time.Second

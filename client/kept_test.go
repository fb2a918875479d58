package client_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

// A connection that was kept may be closed by a server just as it is used again. Nobody is told
// of it: the same key is asked for once more, over a new connection.
func TestAKeptConnectionThatIsClosed(t *testing.T) {
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 2 {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.Close()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"id": "a-1", "key": "k", "state": "admitted"}`))
	}))
	t.Cleanup(s.Close)
	c, err := client.New(s.URL, "t", client.WithHTTPClient(s.Client()))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := c.Admit(t.Context(), api.AdmissionRequest{Key: "k", Class: "c"}, client.Options{Wait: client.Once}); err != nil {
			t.Fatal(err)
		}
	}
	if n := calls.Load(); n != 3 {
		t.Errorf("%d calls", n)
	}
}

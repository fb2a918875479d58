package link

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"

	"github.com/plimsoll-project/plimsoll/internal/control"
)

// TestCrowd: of hosts at one address each replica gets the one that it means, with that one's
// keys, and nobody else's.
func TestCrowd(t *testing.T) {
	r := newRig(t)
	other := &rig{t: t, kernel: newKernel(t, "h2")}
	keys := other.openKeys(newRing(t, "k1"), "h2")
	keys.host = "h2"
	second := NewServer(ServerOptions{Host: other.kernel, Keys: keys, Version: "test", Log: slog.New(slog.DiscardHandler)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- NewCrowd(r.server, second).Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	for _, id := range []string{"h1", "h2"} {
		c, err := r.dialer.Dial(within(t), control.RegisteredHost{ID: id, Endpoint: l.Addr().String()})
		if err != nil {
			t.Fatal(err)
		}
		if v, err := c.View(within(t)); err != nil || v.Config.ID != id {
			t.Errorf("%s: host %q answers (%v)", id, v.Config.ID, err)
		}
		c.Close()
	}
	if _, err := r.dialer.Dial(within(t), control.RegisteredHost{ID: "h3", Endpoint: l.Addr().String()}); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a host that is not there: %v", err)
	}
}

package up

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/web"
)

// front is what the API's listener serves: at first that the store is waited for.
type front struct {
	mu      sync.Mutex // guards what follows
	handler http.Handler
	stop    func() // answers what is held
	rest    func() // writes what is left to write once all is answered
	closed  bool
}

// open lets the replica answer from now on.
func (f *front) open(h http.Handler, stop, rest func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handler, f.stop, f.rest = h, stop, rest
	if f.closed {
		stop()
	}
}

// close answers every held call, so that callers turn to another address.
func (f *front) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.stop != nil {
		f.stop()
	}
}

// finish returns when what was answered is written.
func (f *front) finish() {
	f.mu.Lock()
	rest := f.rest
	f.mu.Unlock()
	if rest != nil {
		rest()
	}
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	h := f.handler
	f.mu.Unlock()
	if h == nil {
		h = web.WithoutStore()
	}
	h.ServeHTTP(w, r)
}

const stopWithin = 2 * time.Second

// serveAPI answers until ctx ends; then every held long poll is answered before it closes.
func (u *Up) serveAPI(ctx context.Context) error {
	server := &http.Server{
		Handler: &u.front, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(u.Log.Handler(), slog.LevelDebug),
	}
	serve := server.Serve
	if u.identity != nil {
		server.TLSConfig = forCallers(u.identity)
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		u.front.close()
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()
		stopped <- closeAll(server, server.Shutdown(closing))
	}()
	if err := serve(u.api); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the API: %w", err)
	}
	return <-stopped
}

// forCallers is what the API is served with: callers have tokens, and need no certificate.
func forCallers(identity *tls.Config) *tls.Config {
	c := identity.Clone()
	c.ClientAuth, c.ClientCAs = tls.NoClientCert, nil
	return c
}

// closeAll ends what a shutdown waited for in vain: a connection on which nothing was ever
// asked would keep a process from ending that has answered all its callers.
func closeAll(server *http.Server, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	}
	return err
}

package up

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
)

// serveMetrics serves GET /metrics until ctx ends, where the file says so: a replica serves
// them with its API, and an agent has none.
func serveMetrics(ctx context.Context, o *Options, identity *tls.Config, parts *errgroup.Group, from ...prometheus.Collector) error {
	address := o.File.Local.Metrics
	if address == "" {
		return nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen for whoever reads metrics: %w; choose another address with metrics, as in 127.0.0.1:7075, or leave it out", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(from...)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	scheme := "http"
	if identity != nil {
		l, scheme = tls.NewListener(l, forCallers(identity)), "https"
	}
	o.Log.Info("metrics are served", "at", scheme+"://"+l.Addr().String()+"/metrics")
	parts.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve the metrics: %w", err)
		}
		return nil
	})
	parts.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
	return nil
}

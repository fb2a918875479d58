package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/substrate"
	"github.com/plimsoll-project/plimsoll/ticket"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "provider:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("provider", flag.ContinueOnError)
	server := f.String("server", "http://127.0.0.1:7070", "addresses of replicas, with commas between them")
	tokenFile := f.String("token-file", "account.token", "the file of a token with the role substrate")
	keysFile := f.String("keys", "account-keys.json", "the file of plimsoll keyring audience")
	pools := f.String("pools", "browser,lean", "the pools whose running containers are reported")
	limit := f.Int("limit", 10, "how many containers the account runs at once")
	listen := f.String("listen", "127.0.0.1:7080", "where to serve")
	every := f.Duration("report-every", 5*time.Second, "how often to report what runs")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *every <= 0 {
		return errors.New("--report-every must be above zero")
	}
	gate, keys, err := reach(*server, *tokenFile, *keysFile)
	if err != nil {
		return err
	}
	p := newProvider(substrate.New(gate, keys), *limit)
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Printf("provider (%s) serves at http://%s\n", notice, l.Addr())
	go p.report(ctx, gate, strings.Split(*pools, ","), *every)
	s := &http.Server{Handler: p.routes(), ReadHeaderTimeout: 10 * time.Second}
	go func() { <-ctx.Done(); s.Close() }()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func reach(server, tokenFile, keysFile string) (*client.Client, ticket.AudienceKeys, error) {
	var keys ticket.AudienceKeys
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return nil, keys, fmt.Errorf("read the token: %w", err)
	}
	file, err := os.ReadFile(keysFile)
	if err != nil {
		return nil, keys, fmt.Errorf("read the audience's keys: %w", err)
	}
	if keys, err = ticket.ParseAudienceKeys(file); err != nil {
		return nil, keys, fmt.Errorf("read the audience's keys: %w", err)
	}
	gate, err := client.New(server, strings.TrimSpace(string(token)), client.WithUserAgent("fake-provider"))
	return gate, keys, err
}

// report tells what runs, so that a slot lives although its caller is silent: one that crashed, say, and
// comes back. What is not told ends by itself, one slot_ttl later.
func (p *provider) report(ctx context.Context, gate *client.Client, pools []string, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		all := p.running()
		for _, pool := range pools {
			list := append([]api.RunningSandbox{}, all[pool]...)
			if _, err := gate.ReportRunning(ctx, pool, api.RunningReport{Complete: true, Running: list}); err != nil && ctx.Err() == nil {
				fmt.Fprintf(os.Stderr, "provider: what runs of pool %s was not told: %v\n", pool, err)
			}
		}
	}
}

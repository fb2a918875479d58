package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/boot"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "apphost:", err)
		os.Exit(1)
	}
}

// run is the app host, or with the word app the sample app.
func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "app" {
		return sample(ctx)
	}
	f := flag.NewFlagSet("apphost", flag.ContinueOnError)
	up := f.String("up", "/var/lib/plimsoll", "data directory of the plimsoll up to use")
	server := f.String("server", "", "instead: addresses of replicas, with commas between them")
	tokenFile := f.String("token-file", "", "and the file of a token for them")
	socket := f.String("socket", "", "and the socket of this machine's agent")
	apps := f.String("apps", "apps.json", "the file of apps")
	listen := f.String("listen", "127.0.0.1:8080", "where to serve")
	s := Settings{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	f.StringVar(&s.Dir, "dir", "apphost-data", "where states and the apps' folders are kept")
	f.DurationVar(&s.Idle, "idle", time.Minute, "hibernate an app so long after its last request")
	f.DurationVar(&s.Patience, "patience", 2*time.Minute, "give up a place in the line so long after the last request for it")
	f.DurationVar(&s.Hold, "hold", 30*time.Second, "hold a request so long for its app to wake")
	f.DurationVar(&s.PageAfter, "page-after", time.Second, "show a person so soon where the app stands")
	f.DurationVar(&s.StartWithin, "start-within", 10*time.Second, "how long a booted app may take until it listens")
	if err := f.Parse(args); err != nil {
		return err
	}
	if s.Idle <= 0 || s.Patience <= 0 {
		return errors.New("--idle and --patience must be above zero")
	}
	if err := reach(&s, *up, *server, *tokenFile, *socket); err != nil {
		return err
	}
	specs, err := readSpecs(*apps)
	if err != nil {
		return err
	}
	h, err := newAppHost(s, specs)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Printf("apphost serves %d apps: http://%s shows them, http://NAME.localhost:%d is one\n", len(specs), l.Addr(), l.Addr().(*net.TCPAddr).Port)
	return h.Run(ctx, l)
}

// reach finds the gate and the agent: by what was said, else by the note of a plimsoll up.
func reach(s *Settings, up, server, tokenFile, socket string) error {
	n := upNote{server, tokenFile, socket}
	if server == "" || tokenFile == "" || socket == "" {
		found, err := readNote(up)
		if err != nil {
			return err
		}
		n = upNote{cmp.Or(server, found.URL), cmp.Or(tokenFile, found.TokenFile), cmp.Or(socket, found.Socket)}
	}
	token, err := os.ReadFile(n.TokenFile)
	if err != nil {
		return fmt.Errorf("read the token: %w", err)
	}
	s.Agent = boot.Client{Socket: n.Socket}
	s.Gate, err = client.New(n.URL, strings.TrimSpace(string(token)), client.WithUserAgent("apphost"))
	return err
}

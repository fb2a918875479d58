package storm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/discover"
	"github.com/plimsoll-project/plimsoll/internal/up"
	"github.com/plimsoll-project/plimsoll/pool"
)

// place is where the storm is sent to.
type place struct {
	address, token string
	class          func(pool.Mode) string
	stop           func() error
}

// replica is that which runs already, or one of this process.
func (o *RealOptions) replica(ctx context.Context) (*place, error) {
	if o.Address != "" {
		return &place{
			address: o.Address, token: o.Token, class: func(pool.Mode) string { return o.Class }, stop: func() error { return nil },
		}, nil
	}
	dir, err := os.MkdirTemp("", "plimsoll-storm-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the replica: %w", err)
	}
	p, err := o.start(ctx, dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, nil
}

// stormFleet has a pool for each mode, so that none of them learns from another's storm.
const stormFleet = `
data_dir: %q
listen: 127.0.0.1:0
store: sqlite
fleet:
  default_quota: none
  pools:
    - {name: queue, placement: none, cap: %[2]d, max_waiting: %[3]d}
    - {name: refuse, placement: none, cap: %[2]d, max_waiting: %[3]d}
  classes:
    - {name: queue, pool: queue}
    - {name: refuse, pool: refuse}
`

// start brings a replica up, as plimsoll up does, and waits until it is there.
func (o *RealOptions) start(ctx context.Context, dir string) (*place, error) {
	file, err := config.Parse("storm.yaml", fmt.Appendf(nil, stormFleet, dir, o.Cap, max(o.Clients, 10)))
	if err != nil {
		return nil, err
	}
	running, halt := context.WithCancel(context.WithoutCancel(ctx))
	over := make(chan error, 1)
	go func() {
		over <- up.Run(running, up.Options{File: file, Path: "storm.yaml", Version: o.Version, Out: io.Discard, Log: slog.New(slog.DiscardHandler)})
	}()
	stop := func() error {
		halt()
		return errors.Join(<-over, os.RemoveAll(dir))
	}
	for {
		if note, err := discover.Read(dir); err == nil && note.URL != "" {
			token, err := os.ReadFile(note.TokenFile)
			if err != nil {
				return nil, errors.Join(fmt.Errorf("read the replica's token: %w", err), stop())
			}
			class := func(m pool.Mode) string { return string(m) }
			return &place{address: note.URL, token: strings.TrimSpace(string(token)), class: class, stop: stop}, nil
		}
		select {
		case err := <-over:
			halt()
			return nil, cmp.Or(err, errors.New("the replica ended before it was up"))
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), stop())
		case <-time.After(lookEvery):
		}
	}
}

const lookEvery = 20 * time.Millisecond

package up

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/link"
	"github.com/plimsoll-project/plimsoll/internal/web"
)

// assemble makes the replica over the open store.
func (u *Up) assemble(ctx context.Context) error {
	u.metrics = prometheus.NewRegistry()
	u.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	started := time.Now()
	passage := admission.DefaultConfig()
	if u.hasHost() {
		passage.BootWithin = u.File.Local.Host.BootWithin
	}
	var err error
	u.gateway, err = control.New(control.Options{
		Store: u.store, Keys: u.secrets.keys, Passage: passage, Metrics: control.NewMetrics(u.metrics), Log: u.Log,
		Now: func() time.Duration { return time.Since(started) }, Wall: time.Now, Rand: rand.Uint64,
		Local: u.secrets.consumer(), Self: u.replicaID,
	})
	if err != nil {
		return err
	}
	u.metrics.MustRegister(u.gateway.Gauges())
	u.dialer = link.NewDialer(link.DialerOptions{
		Replica: u.replicaID, Version: u.Version, Keys: u.secrets.keys, Allow: u.File.Local.AllowedAgents(), TLS: u.identity,
		Acknowledged: u.presence.again,
	})
	if err := u.keys.use(u.dialer.SetKeys); err != nil { // who verifies comes before who mints
		return err
	}
	if err := u.keys.use(u.gateway.SetKeys); err != nil {
		return err
	}
	if err := u.persist(ctx, "the configuration", u.settleConfig); err != nil {
		return err
	}
	return u.persist(ctx, "the configuration", u.gateway.Load)
}

// settleConfig puts the file's fleet section in force where none is yet: of several replicas
// that start at once one does, and the others load it. Afterwards only plimsoll config apply
// changes it: a restart never does so by accident.
func (u *Up) settleConfig(ctx context.Context) error {
	inForce, err := u.store.Config(ctx)
	if err != nil {
		return err
	}
	fleet, document := u.File.Fleet, u.File.FleetDocument
	switch {
	case inForce.Generation == 0 && fleet == nil:
		return permanent{fmt.Errorf("%s has no fleet section, and the store has none in force; add one, as plimsoll config example shows", u.Path)}
	case inForce.Generation == 0:
		_, first, err := u.store.Apply(ctx, control.Config{Document: document, By: u.replicaID}, fleet.Settings())
		if err == nil && !first {
			return u.settleConfig(ctx)
		}
		return err
	case u.Path != "" && fleet != nil && differs(fleet, inForce):
		u.Log.Warn("the fleet section of the file differs from the generation in force, which stands; see plimsoll config diff, then apply",
			"file", u.Path, "generation", inForce.Generation)
	}
	return nil
}

// differs says whether apply would change anything.
func differs(fleet *config.Fleet, inForce control.Config) bool {
	has, err := config.ParseFleet("the configuration in force", []byte(inForce.Document))
	if err != nil {
		return true // and to load it says why
	}
	fleet.KeepTokens(has)
	return fleet.Document() != inForce.Document
}

// startReplica runs what a replica does besides answering, and then lets it answer.
func (u *Up) startReplica(ctx, late context.Context, parts *errgroup.Group) {
	if u.hasHost() {
		if err := u.readmit(late); err != nil {
			u.Log.Error("whether this machine's host was buried is not known; nothing is placed on it if it was", "err", err)
		}
		parts.Go(func() error { return u.gateway.Attach(late, u.agent, u.agent.Subscribe()) })
	}
	parts.Go(func() error { u.gateway.SweepUntil(late); return nil })
	parts.Go(func() error { u.gateway.PulseUntil(late); return nil })
	parts.Go(func() error { u.gateway.CompareUntil(late); return nil })
	parts.Go(func() error { u.gateway.LearnUntil(late); return nil })
	parts.Go(func() error { u.gateway.Follow(late, u.dialer); return nil })
	parts.Go(func() error { u.attestUntil(ctx); return nil })
	answering, allAnswered := context.WithCancel(late)
	kept := make(chan struct{})
	parts.Go(func() error { defer close(kept); u.gateway.KeepUntil(answering); return nil })
	u.front.open((&web.Server{Gateway: u.gateway, Metrics: u.metrics, Log: u.Log}).Handler(), u.gateway.Stop, func() {
		allAnswered()
		<-kept
	})
}

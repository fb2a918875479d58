package control

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/learned"
)

const (
	learnEvery   = 10 * time.Second
	wordsAtOnce  = 32 // in one transaction, so that the store has its writer back soon
	askLoreWhile = 5 * time.Second
)

// lore is what this replica knows of templates, as the store had it last.
type lore map[learned.ID]learned.Known

// LearnUntil has what hosts see of runs written down, and reads what follows from all of it,
// until ctx ends. Every replica asks every host: what is told twice counts once, and what one of
// them missed another brings.
func (g *Gateway) LearnUntil(ctx context.Context) {
	told := map[learned.Life]int64{} // the sequence up to which this replica has written a life
	tick := time.NewTicker(learnEvery)
	defer tick.Stop()
	for {
		if err := g.learn(ctx, told); err != nil && ctx.Err() == nil {
			g.Log.Warn("what was learned of runs was not brought up to date; reserves stay as they are", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// learn is one round.
func (g *Gateway) learn(ctx context.Context, told map[learned.Life]int64) error {
	words := g.askLore(ctx, told)
	rules := g.rules()
	for first := true; len(words) > 0 || first && learned.Due(g.storeNow(), g.templates()); first = false {
		n := min(wordsAtOnce, len(words))
		if err := g.Store.Learn(ctx, rules, words[:n]); err != nil {
			return err
		}
		for i := range words[:n] {
			life := learned.Life{Host: words[i].Host, Incarnation: words[i].Incarnation}
			told[life] = max(told[life], words[i].Sequence)
		}
		words = words[n:]
	}
	return g.readLore(ctx)
}

// readLore reads what follows from what all hosts saw.
func (g *Gateway) readLore(ctx context.Context) error {
	all, err := g.Store.Learned(ctx)
	if err != nil {
		return err
	}
	now := lore{}
	for _, k := range all {
		now[k.ID()] = k
	}
	if was := g.lore.Swap(&now); was != nil {
		g.tellBroken(*was, now)
	}
	return nil
}

// tellBroken says of which templates runs peaked higher than was predicted, once.
func (g *Gateway) tellBroken(was, now lore) {
	for id, k := range now {
		before, known := was[id]
		if !known || k.BrokeAt == before.BrokeAt {
			continue
		}
		g.Metrics.TemplatesBroken.WithLabelValues(id.Class).Inc()
		g.Log.Error("runs peak higher than was predicted of their template: its sandboxes are reserved for by the rule of their class again, until enough runs ended anew",
			"class", id.Class, "template", id.Template, "was_reserved", before.Estimate.Reserve, "is_reserved", k.Estimate.Reserve,
			"predicted", before.Estimate.Predicted, "runs", k.Runs)
	}
}

// templates are what was read last.
func (g *Gateway) templates() []learned.Known {
	if l := g.lore.Load(); l != nil {
		return slices.Collect(maps.Values(*l))
	}
	return nil
}

// collectTemplates counts them by class, as they were read last.
func (g *Gateway) collectTemplates(out chan<- prometheus.Metric) {
	fleet, templates := g.Fleet(), g.templates()
	if fleet == nil {
		return
	}
	for i := range fleet.Classes {
		of := map[api.ReserveState]int{}
		for j := range templates {
			if k := &templates[j]; k.Class == fleet.Classes[i].Name {
				of[reserveState(&fleet.Classes[i], &k.Estimate)]++
			}
		}
		for state, n := range of {
			out <- prometheus.MustNewConstMetric(descTemplates, prometheus.GaugeValue, float64(n), fleet.Classes[i].Name, string(state))
		}
	}
}

// rules are those of the classes whose sandboxes are on hosts.
func (g *Gateway) rules() learned.Rules {
	rules, fleet := learned.Rules{}, g.Fleet()
	if fleet == nil {
		return rules
	}
	for i := range fleet.Classes {
		if c := &fleet.Classes[i]; !fleet.WithoutHosts(c) {
			rules[c.Name] = c.Rule()
		}
	}
	return rules
}

// askLore asks every host that is connected for what it saw since it was asked last, and drops
// from told the lives that are over.
func (g *Gateway) askLore(ctx context.Context, told map[learned.Life]int64) []learned.Word {
	ctx, cancel := context.WithTimeout(ctx, askLoreWhile)
	defer cancel()
	var mu sync.Mutex // guards words
	var words []learned.Word
	var asking errgroup.Group
	asking.SetLimit(tellAtOnce)
	links := g.links()
	first := 0
	if len(links) > 0 {
		first = int(g.Rand() % uint64(len(links))) // so that hosts which do not answer hold up others by turns
	}
	for _, link := range append(links[first:], links[:first]...) {
		g.mu.Lock()
		life := learned.Life{Host: link.ID(), Incarnation: g.hosts[link.ID()].verdict.Incarnation}
		g.mu.Unlock()
		after := told[life]
		asking.Go(func() error {
			got := loreOf(ctx, link, life, after)
			mu.Lock()
			defer mu.Unlock()
			words = append(words, got...)
			return nil
		})
	}
	_ = asking.Wait() // none fails
	maps.DeleteFunc(told, func(l learned.Life, _ int64) bool {
		return slices.ContainsFunc(words, func(w learned.Word) bool { return w.Host == l.Host && w.Incarnation != l.Incarnation })
	})
	slices.SortFunc(words, learned.Word.Compare)
	return words
}

// mostLore bounds how often a host is asked in one round.
const mostLore = 16

// loreOf asks one host. One that does not answer is asked in the next round.
func loreOf(ctx context.Context, link Link, life learned.Life, after int64) (words []learned.Word) {
	for range mostLore {
		l, err := link.Lore(ctx, after)
		if err != nil || l.Incarnation != life.Incarnation {
			return words
		}
		for i := range l.Seen {
			words = append(words, learned.Word{Host: life.Host, Incarnation: life.Incarnation, Seen: l.Seen[i]})
			after = max(after, l.Seen[i].Sequence)
		}
		if !l.More || len(l.Seen) == 0 {
			return words
		}
	}
	return words
}

// teach puts what was learned of an ask's template into its rule, where the class lets it. Of a
// size that none of its runs had nothing was learned.
func (g *Gateway) teach(c *config.Class, a *gate.Ask) {
	if c.Reserve != config.Learned || a.Stateful {
		return
	}
	l := g.lore.Load()
	if l == nil {
		return
	}
	if k, ok := (*l)[learned.ID{Class: a.Class, Template: a.Template}]; ok && k.Estimate.Learned && a.Memory <= k.Size {
		a.Rule.Learned = min(k.Estimate.Reserve, a.Memory)
	}
}

// UsualAsk is what a request of a class wants that says nothing itself, with the reserve in force.
func (g *Gateway) UsualAsk(ctx context.Context, c *config.Class) (gate.Ask, error) {
	ask, _, err := c.Ask(nil, nil, "", nil)
	if err != nil {
		return gate.Ask{}, err
	}
	if g.lore.Load() == nil { // this replica has only begun
		if err := g.readLore(ctx); err != nil {
			g.Log.Warn("what was learned of runs is not known yet: the rule of the class is taken", "class", c.Name, "err", err)
		}
	}
	g.teach(c, &ask)
	return ask, nil
}

package control

import (
	"context"
	"strings"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/internal/config"
)

// ConfigAt is the configuration that was in force under a generation.
func (g *Gateway) ConfigAt(ctx context.Context, who *config.Consumer, generation int64) (api.ConfigDocument, error) {
	c, ok, err := g.Store.ConfigAt(ctx, generation)
	switch {
	case err != nil:
		return api.ConfigDocument{}, g.unreadable(err, who)
	case !ok:
		return api.ConfigDocument{}, g.Refused(api.Refuse(api.NotFound, "generation %d was never in force; GET /v1/configs lists those that were", generation), who)
	}
	return showConfig(c), nil
}

// Configs lists the generations, newest first.
func (g *Gateway) Configs(ctx context.Context, who *config.Consumer, limit int) (api.ConfigList, error) {
	configs, err := g.Store.Configs(ctx, limit)
	if err != nil {
		return api.ConfigList{}, g.unreadable(err, who)
	}
	out := api.ConfigList{Configs: make([]api.ConfigGeneration, 0, len(configs))}
	for _, c := range configs {
		out.Configs = append(out.Configs, api.ConfigGeneration{Generation: c.Generation, AppliedAt: c.AppliedAt.Wall(), AppliedBy: c.By})
	}
	return out, nil
}

// Deeds lists what operators did, newest first.
func (g *Gateway) Deeds(ctx context.Context, who *config.Consumer, limit int) (api.DeedList, error) {
	deeds, err := g.Store.Audit(ctx, limit)
	if err != nil {
		return api.DeedList{}, g.unreadable(err, who)
	}
	out := api.DeedList{Deeds: make([]api.Deed, 0, len(deeds))}
	for _, d := range deeds {
		out.Deeds = append(out.Deeds, api.Deed{At: d.At.Wall(), By: d.By, What: d.What, Reason: d.Reason})
	}
	return out, nil
}

// ListReplicas lists the replicas that lately said that they are up, by id.
func (g *Gateway) ListReplicas(ctx context.Context, who *config.Consumer) (api.ReplicaList, error) {
	replicas, err := g.Store.Replicas(ctx)
	if err != nil {
		return api.ReplicaList{}, g.unreadable(err, who)
	}
	now, err := g.Store.Now(ctx)
	if err != nil {
		return api.ReplicaList{}, g.unreadable(err, who)
	}
	out := api.ReplicaList{Replicas: make([]api.Replica, 0, len(replicas))}
	for _, r := range replicas {
		keys := []string{}
		if r.Keys != "" {
			keys = strings.Split(r.Keys, ",")
		}
		out.Replicas = append(out.Replicas, api.Replica{
			ID: r.ID, Address: r.Address, Version: r.Version, KeyIDs: keys,
			HeardAt: r.HeardAt.Wall(), HeardMSAgo: max(now.Since(r.HeardAt), 0).Milliseconds(),
		})
	}
	return out, nil
}

func (g *Gateway) unreadable(err error, who *config.Consumer) error {
	g.unread(err)
	return g.Refused(api.Refuse(api.Unavailable, "the store could not be read"), who)
}

package control

import (
	"cmp"
	"context"
	"slices"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/pool"
)

// List returns the caller's own admissions, or everybody's for an operator: the newest first.
func (g *Gateway) List(ctx context.Context, who *config.Consumer, f Filter) (api.AdmissionList, error) {
	limit := f.Limit
	f.Limit = 0 // the store lists by id: the newest are not among its first
	return g.list(ctx, who, f, limit, func(a, b pool.Row) int {
		return cmp.Or(cmp.Compare(createdAt(b), createdAt(a)), cmp.Compare(a.ID, b.ID))
	})
}

// Page returns the same by id, those after f.After: page by page all of them, while each page
// reads no more of the store than it shows.
func (g *Gateway) Page(ctx context.Context, who *config.Consumer, f Filter) (api.AdmissionList, error) {
	limit := f.Limit
	f.Limit++ // one more, that says whether there are more
	return g.list(ctx, who, f, limit, func(a, b pool.Row) int { return cmp.Compare(a.ID, b.ID) })
}

// list returns the first of those that a filter lets through, in an order.
func (g *Gateway) list(ctx context.Context, who *config.Consumer, f Filter, limit int, order func(a, b pool.Row) int) (api.AdmissionList, error) {
	if !who.Has(config.RoleOperator) {
		f.Consumer = who.Name
	}
	at := g.storeNow()
	rows, err := g.Store.List(ctx, f)
	if err != nil {
		g.unread(err)
		return api.AdmissionList{}, api.Refuse(api.Unavailable, "the store could not be read")
	}
	rows = append(rows, g.own.list(f)...)
	rows = append(rows, slices.DeleteFunc(g.elsewhere(ctx), func(r pool.Row) bool { return !f.matches(&r) })...)
	slices.SortFunc(rows, order)
	shown := rows[:min(limit, len(rows))]
	out := api.AdmissionList{Admissions: make([]api.Admission, 0, len(shown)), Truncated: len(shown) < len(rows), At: wireTime(at)}
	for _, r := range shown {
		out.Admissions = append(out.Admissions, g.show(r))
	}
	return out, nil
}

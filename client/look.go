package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/plimsoll-project/plimsoll/api"
)

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (*T, error) {
	out := new(T)
	if _, err := c.do(ctx, call{method: http.MethodGet, path: path, query: query}, out); err != nil {
		return nil, err
	}
	return out, nil
}

func send[T any](ctx context.Context, c *Client, method, path string, body any) (*T, error) {
	out := new(T)
	if _, err := c.do(ctx, call{method: method, path: path, body: body}, out); err != nil {
		return nil, err
	}
	return out, nil
}

func byKey(key string) string { return "/v1/admissions/" + url.PathEscape(key) }

func byID(id string) string { return "/v1/admissions/id/" + url.PathEscape(id) }

// Get looks at one of the caller's own admissions, and changes nothing.
func (c *Client) Get(ctx context.Context, key string) (*api.Admission, error) {
	return get[api.Admission](ctx, c, byKey(key), nil)
}

// GetID looks at an admission by the server's name for it.
func (c *Client) GetID(ctx context.Context, id string) (*api.Admission, error) {
	return get[api.Admission](ctx, c, byID(id), nil)
}

// Admissions lists admissions, newest first: the caller's own, or an operator's everybody's.
func (c *Client) Admissions(ctx context.Context, only api.ListAdmissionsParams) (*api.AdmissionList, error) {
	query := url.Values{}
	if only.State != "" {
		query.Set("state", string(only.State))
	}
	for name, value := range map[string]string{"class": only.Class, "pool": only.Pool, "host": only.Host} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if only.Order != "" {
		query.Set("order", string(only.Order))
	}
	if only.After != "" {
		query.Set("after", only.After)
	}
	if only.Limit != nil {
		query.Set("limit", strconv.FormatInt(*only.Limit, 10))
	}
	return get[api.AdmissionList](ctx, c, "/v1/admissions", query)
}

// Classes lists the classes with what was learned of their templates.
func (c *Client) Classes(ctx context.Context) (*api.ClassList, error) {
	return get[api.ClassList](ctx, c, "/v1/classes", nil)
}

// CompareModes lays the hosts that are in one mode beside those that are in the other.
func (c *Client) CompareModes(ctx context.Context) (*api.ModeComparison, error) {
	return get[api.ModeComparison](ctx, c, "/v1/modes", nil)
}

// Hosts lists the hosts with what each may still promise.
func (c *Client) Hosts(ctx context.Context) (*api.HostList, error) {
	return get[api.HostList](ctx, c, "/v1/hosts", nil)
}

// Host shows one host's arithmetic and what it holds.
func (c *Client) Host(ctx context.Context, id string) (*api.Host, error) {
	return get[api.Host](ctx, c, "/v1/hosts/"+url.PathEscape(id), nil)
}

// Admittable reads what each host can still promise, for a scheduler of your own; with a class,
// how many of that fit as well. It is a view, and so a bit in the past: the host's agent has
// the last word, at its boot seam or through an admission.
func (c *Client) Admittable(ctx context.Context, class string) (*api.AdmittableList, error) {
	var query url.Values
	if class != "" {
		query = url.Values{"class": {class}}
	}
	return get[api.AdmittableList](ctx, c, "/v1/admittable", query)
}

// Observe tells what another scheduler decided, and later what came of it, to be compared with
// what Plimsoll would have said. To tell the same again counts nothing twice.
func (c *Client) Observe(ctx context.Context, seen ...api.Observation) (*api.ObservationsTaken, error) {
	return send[api.ObservationsTaken](ctx, c, http.MethodPost, "/v1/observations", api.ObservationBatch{Observations: seen})
}

// Comparison reads what came of that, told to whichever replica.
func (c *Client) Comparison(ctx context.Context) (*api.Comparison, error) {
	return get[api.Comparison](ctx, c, "/v1/observations", nil)
}

// ResetComparison forgets what was told so far, and begins anew.
func (c *Client) ResetComparison(ctx context.Context) (*api.Comparison, error) {
	return send[api.Comparison](ctx, c, http.MethodDelete, "/v1/observations", nil)
}

// Pools lists the pools with their caps and who holds their slots.
func (c *Client) Pools(ctx context.Context) (*api.PoolList, error) {
	return get[api.PoolList](ctx, c, "/v1/pools", nil)
}

// Whoami says who the server takes the caller for.
func (c *Client) Whoami(ctx context.Context) (*api.Identity, error) {
	return get[api.Identity](ctx, c, "/v1/whoami", nil)
}

// Config reads the configuration that is in force.
func (c *Client) Config(ctx context.Context) (*api.ConfigDocument, error) {
	return get[api.ConfigDocument](ctx, c, "/v1/config", nil)
}

// ConfigAt reads the configuration of a generation that was in force once.
func (c *Client) ConfigAt(ctx context.Context, generation int64) (*api.ConfigDocument, error) {
	query := url.Values{"generation": {strconv.FormatInt(generation, 10)}}
	return get[api.ConfigDocument](ctx, c, "/v1/config", query)
}

// Configs lists the generations of the configuration, newest first; at most limit of them, or
// as many as the server likes for zero.
func (c *Client) Configs(ctx context.Context, limit int) (*api.ConfigList, error) {
	return get[api.ConfigList](ctx, c, "/v1/configs", atMost(limit))
}

// Audit lists what operators did, newest first; limit is as in Configs.
func (c *Client) Audit(ctx context.Context, limit int) (*api.DeedList, error) {
	return get[api.DeedList](ctx, c, "/v1/audit", atMost(limit))
}

// Replicas lists the processes that serve this API.
func (c *Client) Replicas(ctx context.Context) (*api.ReplicaList, error) {
	return get[api.ReplicaList](ctx, c, "/v1/replicas", nil)
}

// Reconcile compares the store, the hosts and the clock, and mends what disagrees.
func (c *Client) Reconcile(ctx context.Context, q api.ReconcileRequest) (*api.Reconciliation, error) {
	return send[api.Reconciliation](ctx, c, http.MethodPost, "/v1/reconcile", q)
}

func atMost(limit int) url.Values {
	if limit == 0 {
		return nil
	}
	return url.Values{"limit": {strconv.Itoa(limit)}}
}

// PutConfig replaces the configuration if the one that the change was made from is still in
// force; else the error is api.GenerationConflict. Each line of an api.InvalidConfig's detail
// is one fault.
func (c *Client) PutConfig(ctx context.Context, change api.ConfigChange) (*api.ConfigDocument, error) {
	return send[api.ConfigDocument](ctx, c, http.MethodPut, "/v1/config", change)
}

// Rollback puts the document of a former generation in force again, under a new one. It is
// compare-and-set as well: a change that comes in between is an api.GenerationConflict.
func (c *Client) Rollback(ctx context.Context, to int64) (*api.ConfigDocument, error) {
	former, err := c.ConfigAt(ctx, to)
	if err != nil {
		return nil, err
	}
	inForce, err := c.Config(ctx)
	if err != nil {
		return nil, err
	}
	return c.PutConfig(ctx, api.ConfigChange{Generation: inForce.Generation, Document: former.Document})
}

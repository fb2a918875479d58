package web

import (
	"context"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// handlers are the generated interface over the gateway: who may, then what.
type handlers struct{ gateway *control.Gateway }

func stillWaiting(w *api.Waiting) StillWaitingJSONResponse {
	return StillWaitingJSONResponse{
		Body:    *w,
		Headers: StillWaitingResponseHeaders{RetryAfter: retryAfter(w.RetryAfterMS)},
	}
}

func (h handlers) AttemptAdmission(ctx context.Context, q AttemptAdmissionRequestObject) (AttemptAdmissionResponseObject, error) {
	who := caller(ctx)
	if ms := q.Params.WaitMS; ms < 0 || ms > control.LongestPoll.Milliseconds() {
		return nil, api.Refuse(api.InvalidRequest, "wait_ms: %d is not between 0 and %d", ms, control.LongestPoll.Milliseconds())
	}
	out, err := h.gateway.Attempt(ctx, who, q.Key, time.Duration(q.Params.WaitMS)*time.Millisecond)
	switch {
	case err != nil:
		return nil, err
	case out.Waiting != nil:
		return AttemptAdmission202JSONResponse{stillWaiting(out.Waiting)}, nil
	}
	return AttemptAdmission200JSONResponse(*out.Admission), nil
}

func (h handlers) HeartbeatAdmission(ctx context.Context, q HeartbeatAdmissionRequestObject) (HeartbeatAdmissionResponseObject, error) {
	who := caller(ctx)
	out, err := h.gateway.Heartbeat(ctx, who, q.Key)
	switch {
	case err != nil:
		return nil, err
	case out.Waiting != nil:
		return HeartbeatAdmission202JSONResponse{stillWaiting(out.Waiting)}, nil
	}
	return HeartbeatAdmission200JSONResponse(*out.Admission), nil
}

func (h handlers) HeartbeatAdmissionByID(ctx context.Context, q HeartbeatAdmissionByIDRequestObject) (HeartbeatAdmissionByIDResponseObject, error) {
	out, err := h.gateway.HeartbeatByID(ctx, caller(ctx), q.ID)
	switch {
	case err != nil:
		return nil, err
	case out.Waiting != nil:
		return HeartbeatAdmissionByID202JSONResponse{stillWaiting(out.Waiting)}, nil
	}
	return HeartbeatAdmissionByID200JSONResponse(*out.Admission), nil
}

func (h handlers) GetAdmission(ctx context.Context, q GetAdmissionRequestObject) (GetAdmissionResponseObject, error) {
	who := caller(ctx)
	a, err := h.gateway.Get(ctx, who, q.Key)
	return GetAdmission200JSONResponse(a), err
}

func (h handlers) GetAdmissionByID(ctx context.Context, q GetAdmissionByIDRequestObject) (GetAdmissionByIDResponseObject, error) {
	who := caller(ctx)
	a, err := h.gateway.GetByID(ctx, who, q.ID)
	return GetAdmissionByID200JSONResponse(a), err
}

func (h handlers) ReleaseAdmission(ctx context.Context, q ReleaseAdmissionRequestObject) (ReleaseAdmissionResponseObject, error) {
	who := caller(ctx)
	out, err := h.gateway.Release(ctx, who, q.Key, q.Params.Epoch)
	switch {
	case err != nil:
		return nil, err
	case out.Releasing:
		return ReleaseAdmission202JSONResponse(*out.Admission), nil
	}
	return ReleaseAdmission200JSONResponse(*out.Admission), nil
}

func (h handlers) ReleaseAdmissionByID(ctx context.Context, q ReleaseAdmissionByIDRequestObject) (ReleaseAdmissionByIDResponseObject, error) {
	who := caller(ctx)
	out, err := h.gateway.ReleaseByID(ctx, who, q.ID, q.Params.Epoch)
	switch {
	case err != nil:
		return nil, err
	case out.Releasing:
		return ReleaseAdmissionByID202JSONResponse(*out.Admission), nil
	}
	return ReleaseAdmissionByID200JSONResponse(*out.Admission), nil
}

const (
	listed     = 100
	mostListed = 1000
)

// limitOf is how many entries of a list are wanted.
func limitOf(n *int64) (int, error) {
	switch {
	case n == nil:
		return listed, nil
	case *n < 1 || *n > mostListed:
		return 0, api.Refuse(api.InvalidRequest, "limit: %d is not between 1 and %d", *n, mostListed)
	}
	return int(*n), nil
}

func (h handlers) ListAdmissions(ctx context.Context, q ListAdmissionsRequestObject) (ListAdmissionsResponseObject, error) {
	who := caller(ctx)
	n, err := limitOf(q.Params.Limit)
	if err != nil {
		return nil, err
	}
	f := control.Filter{Class: q.Params.Class, Pool: q.Params.Pool, Host: q.Params.Host, Limit: n}
	if s := q.Params.State; s != "" {
		if !s.Valid() {
			return nil, api.Refuse(api.InvalidRequest, "state: %q is not a state of an admission", s)
		}
		f.States = []pool.State{pool.State(s)}
	}
	list, err := h.inOrder(ctx, who, f, q.Params)
	return ListAdmissions200JSONResponse(list), err
}

// inOrder lists admissions in the order that is asked for.
func (h handlers) inOrder(ctx context.Context, who *config.Consumer, f control.Filter, p api.ListAdmissionsParams) (api.AdmissionList, error) {
	switch {
	case p.Order == api.AdmissionOrderID:
		f.After = p.After
		return h.gateway.Page(ctx, who, f)
	case p.Order != "" && p.Order != api.AdmissionOrderNewest:
		return api.AdmissionList{}, api.Refuse(api.InvalidRequest, "order: %q is neither newest nor id", p.Order)
	case p.After != "":
		return api.AdmissionList{}, api.Refuse(api.InvalidRequest, "after: it goes with order=id alone")
	}
	return h.gateway.List(ctx, who, f)
}

func (h handlers) ListHosts(ctx context.Context, _ ListHostsRequestObject) (ListHostsResponseObject, error) {
	list, err := h.gateway.Hosts(ctx)
	return ListHosts200JSONResponse(list), err
}

func (h handlers) GetHost(ctx context.Context, q GetHostRequestObject) (GetHostResponseObject, error) {
	host, err := h.gateway.Host(ctx, q.ID)
	return GetHost200JSONResponse(host), err
}

func (h handlers) PutConfig(ctx context.Context, q PutConfigRequestObject) (PutConfigResponseObject, error) {
	who := caller(ctx)
	c, err := h.gateway.Apply(ctx, who.Name, *q.Body)
	return PutConfig200JSONResponse(c), err
}

func (h handlers) Whoami(ctx context.Context, _ WhoamiRequestObject) (WhoamiResponseObject, error) {
	who := caller(ctx)
	id := Whoami200JSONResponse{Consumer: who.Name, Tenants: who.Tenants, Audiences: who.Audiences}
	for _, role := range who.Roles {
		id.Roles = append(id.Roles, api.Role(role))
	}
	return id, nil
}

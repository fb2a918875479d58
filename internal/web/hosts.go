package web

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/registry"
)

// Who is a host, and what operators say of one.

const noStore = "no-store"

func (h handlers) JoinHost(ctx context.Context, q JoinHostRequestObject) (JoinHostResponseObject, error) {
	joined, err := h.gateway.JoinHost(ctx, *q.Body)
	return JoinHost201JSONResponse{Body: joined, Headers: JoinHost201ResponseHeaders{CacheControl: noStore}}, err
}

func (h handlers) RegisterHost(ctx context.Context, q RegisterHostRequestObject) (RegisterHostResponseObject, error) {
	e, err := h.gateway.RegisterHost(ctx, q.ID, credential(ctx), *q.Body)
	if err != nil {
		return nil, err
	}
	out := api.HostRegistered{Incarnation: e.Host.Incarnation, State: api.HostState(e.Host.State), Replicas: append([]string{}, e.Replicas...)}
	file, err := e.Keys.EncodeFile()
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(file, &out.Keys); err != nil {
		return nil, fmt.Errorf("the keys file of host %s is none: %w", q.ID, err)
	}
	return RegisterHost200JSONResponse{Body: out, Headers: RegisterHost200ResponseHeaders{CacheControl: noStore}}, nil
}

func (h handlers) CordonHost(ctx context.Context, q CordonHostRequestObject) (CordonHostResponseObject, error) {
	c, err := h.gateway.ChangeHost(ctx, caller(ctx), q.ID, registry.Cordon, q.Body.Reason)
	return CordonHost200JSONResponse(c), err
}

func (h handlers) UncordonHost(ctx context.Context, q UncordonHostRequestObject) (UncordonHostResponseObject, error) {
	c, err := h.gateway.ChangeHost(ctx, caller(ctx), q.ID, registry.Uncordon, q.Body.Reason)
	return UncordonHost200JSONResponse(c), err
}

func (h handlers) DrainHost(ctx context.Context, q DrainHostRequestObject) (DrainHostResponseObject, error) {
	c, err := h.gateway.ChangeHost(ctx, caller(ctx), q.ID, registry.Drain, q.Body.Reason)
	return DrainHost200JSONResponse(c), err
}

func (h handlers) BuryHost(ctx context.Context, q BuryHostRequestObject) (BuryHostResponseObject, error) {
	c, err := h.gateway.ChangeHost(ctx, caller(ctx), q.ID, registry.Bury, q.Body.Reason)
	return BuryHost200JSONResponse(c), err
}

func (h handlers) ListJoinTokens(ctx context.Context, _ ListJoinTokensRequestObject) (ListJoinTokensResponseObject, error) {
	list, err := h.gateway.JoinTokens(ctx, caller(ctx))
	return ListJoinTokens200JSONResponse(list), err
}

func (h handlers) CreateJoinToken(ctx context.Context, q CreateJoinTokenRequestObject) (CreateJoinTokenResponseObject, error) {
	made, err := h.gateway.IssueJoin(ctx, caller(ctx), *q.Body)
	return CreateJoinToken201JSONResponse{Body: made, Headers: CreateJoinToken201ResponseHeaders{CacheControl: noStore}}, err
}

func (h handlers) RevokeJoinToken(ctx context.Context, q RevokeJoinTokenRequestObject) (RevokeJoinTokenResponseObject, error) {
	t, err := h.gateway.RevokeJoin(ctx, caller(ctx), q.ID)
	return RevokeJoinToken200JSONResponse(t), err
}

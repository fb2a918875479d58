package web

import (
	"context"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/internal/config"
)

// What operators see and set.

func (h handlers) ListPools(ctx context.Context, _ ListPoolsRequestObject) (ListPoolsResponseObject, error) {
	who := caller(ctx)
	pools, err := h.gateway.Pools(ctx, who)
	return ListPools200JSONResponse(pools), err
}

func (h handlers) ListClasses(ctx context.Context, _ ListClassesRequestObject) (ListClassesResponseObject, error) {
	classes, err := h.gateway.Classes(ctx, caller(ctx))
	return ListClasses200JSONResponse(classes), err
}

func (h handlers) OverridePool(ctx context.Context, q OverridePoolRequestObject) (OverridePoolResponseObject, error) {
	who := caller(ctx)
	change, err := h.gateway.OverridePool(ctx, who, q.Pool, *q.Body)
	return OverridePool200JSONResponse(change), err
}

func (h handlers) HoldPool(ctx context.Context, q HoldPoolRequestObject) (HoldPoolResponseObject, error) {
	who := caller(ctx)
	change, err := h.gateway.HoldPool(ctx, who, q.Pool, *q.Body)
	return HoldPool200JSONResponse(change), err
}

func (h handlers) ResumePool(ctx context.Context, q ResumePoolRequestObject) (ResumePoolResponseObject, error) {
	who := caller(ctx)
	change, err := h.gateway.ResumePool(ctx, who, q.Pool, *q.Body)
	return ResumePool200JSONResponse(change), err
}

func (h handlers) GetMode(ctx context.Context, _ GetModeRequestObject) (GetModeResponseObject, error) {
	report, err := h.gateway.Mode(ctx, caller(ctx))
	return GetMode200JSONResponse(report), err
}

func (h handlers) CompareModes(ctx context.Context, _ CompareModesRequestObject) (CompareModesResponseObject, error) {
	c, err := h.gateway.CompareModes(ctx)
	return CompareModes200JSONResponse(c), err
}

func (h handlers) SetMode(ctx context.Context, q SetModeRequestObject) (SetModeResponseObject, error) {
	report, err := h.gateway.SetMode(ctx, caller(ctx), *q.Body)
	return SetMode200JSONResponse(report), err
}

func (h handlers) BypassHost(ctx context.Context, q BypassHostRequestObject) (BypassHostResponseObject, error) {
	b, err := h.gateway.BypassHost(ctx, caller(ctx), q.ID, *q.Body)
	return BypassHost200JSONResponse(b), err
}

func (h handlers) GetConfig(ctx context.Context, q GetConfigRequestObject) (GetConfigResponseObject, error) {
	var c api.ConfigDocument
	var err error
	if n := q.Params.Generation; n == nil {
		c, err = h.gateway.Config(ctx)
	} else if *n < 1 {
		err = api.Refuse(api.InvalidRequest, "generation: %d is below 1, the first", *n)
	} else {
		c, err = h.gateway.ConfigAt(ctx, caller(ctx), *n)
	}
	return GetConfig200JSONResponse(c), err
}

func (h handlers) ListConfigs(ctx context.Context, q ListConfigsRequestObject) (ListConfigsResponseObject, error) {
	who, limit, err := mayList(ctx, q.Params.Limit)
	if err != nil {
		return nil, err
	}
	list, err := h.gateway.Configs(ctx, who, limit)
	return ListConfigs200JSONResponse(list), err
}

func (h handlers) ListDeeds(ctx context.Context, q ListDeedsRequestObject) (ListDeedsResponseObject, error) {
	who, limit, err := mayList(ctx, q.Params.Limit)
	if err != nil {
		return nil, err
	}
	list, err := h.gateway.Deeds(ctx, who, limit)
	return ListDeeds200JSONResponse(list), err
}

func mayList(ctx context.Context, limit *int64) (*config.Consumer, int, error) {
	n, err := limitOf(limit)
	return caller(ctx), n, err
}

func (h handlers) ListReplicas(ctx context.Context, _ ListReplicasRequestObject) (ListReplicasResponseObject, error) {
	who := caller(ctx)
	list, err := h.gateway.ListReplicas(ctx, who)
	return ListReplicas200JSONResponse(list), err
}

func (h handlers) Reconcile(ctx context.Context, q ReconcileRequestObject) (ReconcileResponseObject, error) {
	who := caller(ctx)
	found, err := h.gateway.Reconcile(ctx, who, *q.Body)
	return Reconcile200JSONResponse(found), err
}

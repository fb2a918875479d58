package web

import (
	"context"

	"github.com/plimsoll-project/plimsoll/api"
)

func (h handlers) GetDecision(ctx context.Context, q GetDecisionRequestObject) (GetDecisionResponseObject, error) {
	d, err := h.gateway.Decision(ctx, caller(ctx), q.ID)
	return GetDecision200JSONResponse(d), err
}

func (h handlers) ListDecisions(ctx context.Context, q ListDecisionsRequestObject) (ListDecisionsResponseObject, error) {
	who, limit, err := mayList(ctx, q.Params.Limit)
	if err != nil {
		return nil, err
	}
	if q.Params.Key == "" {
		return nil, api.Refuse(api.InvalidRequest, "key: name the one that is meant")
	}
	list, err := h.gateway.Decisions(ctx, who, q.Params.Key, limit)
	return ListDecisions200JSONResponse(list), err
}

func (h handlers) WhatIf(ctx context.Context, q WhatIfRequestObject) (WhatIfResponseObject, error) {
	out, err := h.gateway.WhatIf(ctx, caller(ctx), *q.Body)
	return WhatIf200JSONResponse(out), err
}

package web

import (
	"context"
)

// What schedulers of others read here, and tell.

func (h handlers) ListAdmittable(_ context.Context, q ListAdmittableRequestObject) (ListAdmittableResponseObject, error) {
	list, err := h.gateway.Admittable(q.Params.Class)
	return ListAdmittable200JSONResponse{Body: list, Headers: ListAdmittable200ResponseHeaders{CacheControl: noStore}}, err
}

func (h handlers) Observe(ctx context.Context, q ObserveRequestObject) (ObserveResponseObject, error) {
	taken, err := h.gateway.Observe(ctx, caller(ctx), *q.Body)
	return Observe200JSONResponse(taken), err
}

func (h handlers) ReportObservations(ctx context.Context, _ ReportObservationsRequestObject) (ReportObservationsResponseObject, error) {
	c, err := h.gateway.Comparison(ctx, caller(ctx))
	return ReportObservations200JSONResponse(c), err
}

func (h handlers) ResetObservations(ctx context.Context, _ ResetObservationsRequestObject) (ResetObservationsResponseObject, error) {
	c, err := h.gateway.ResetComparison(ctx, caller(ctx))
	return ResetObservations200JSONResponse(c), err
}

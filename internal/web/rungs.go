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
	taken, err := h.gateway.Observe(caller(ctx), *q.Body)
	return Observe200JSONResponse(taken), err
}

func (h handlers) ReportObservations(context.Context, ReportObservationsRequestObject) (ReportObservationsResponseObject, error) {
	return ReportObservations200JSONResponse(h.gateway.Comparison()), nil
}

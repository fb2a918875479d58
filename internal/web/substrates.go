package web

import (
	"context"
	"encoding/json"
	"fmt"
)

// What substrates call: whoever boots what a pool without hosts admits.

func (h handlers) RedeemTicket(ctx context.Context, q RedeemTicketRequestObject) (RedeemTicketResponseObject, error) {
	who := caller(ctx)
	r, err := h.gateway.RedeemTicket(ctx, who, *q.Body)
	return RedeemTicket200JSONResponse(r), err
}

func (h handlers) VerifyTicket(ctx context.Context, q VerifyTicketRequestObject) (VerifyTicketResponseObject, error) {
	who := caller(ctx)
	r, err := h.gateway.VerifyTicket(ctx, who, *q.Body)
	return VerifyTicket200JSONResponse(r), err
}

func (h handlers) ReportRunning(ctx context.Context, q ReportRunningRequestObject) (ReportRunningResponseObject, error) {
	who := caller(ctx)
	v, err := h.gateway.Running(ctx, who, q.Pool, *q.Body)
	return ReportRunning200JSONResponse(v), err
}

func (h handlers) GetAudienceKey(ctx context.Context, q GetAudienceKeyRequestObject) (GetAudienceKeyResponseObject, error) {
	who := caller(ctx)
	keys, err := h.gateway.AudienceKeys(who, q.Name)
	if err != nil {
		return nil, err
	}
	file, err := keys.EncodeFile()
	if err != nil {
		return nil, err
	}
	out := GetAudienceKey200JSONResponse{Headers: GetAudienceKey200ResponseHeaders{CacheControl: "no-store"}}
	if err := json.Unmarshal(file, &out.Body); err != nil {
		return nil, fmt.Errorf("the keys file of audience %s is none: %w", q.Name, err)
	}
	return out, nil
}

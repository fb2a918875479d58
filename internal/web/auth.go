package web

import (
	"context"
	"net/http"
	"strings"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/internal/config"
)

type (
	callerKey     struct{}
	credentialKey struct{}
)

// caller is who the credential says it is; never what a field says. Behind a route that takes
// consumers there is one.
func caller(ctx context.Context) *config.Consumer {
	c, _ := ctx.Value(callerKey{}).(*config.Consumer)
	return c
}

// credential is the SHA-256 of what a host sent as its own.
func credential(ctx context.Context) [32]byte {
	c, _ := ctx.Value(credentialKey{}).([32]byte)
	return c
}

// bearer is the token that was sent.
func bearer(r *http.Request) (string, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", api.Refuse(api.Unauthenticated, "no bearer token was sent")
	}
	return token, nil
}

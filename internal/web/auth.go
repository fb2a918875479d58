package web

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/internal/config"
)

type callerKey struct{}

// caller is who the credential says it is; never what a field says.
func caller(ctx context.Context) *config.Consumer {
	c, _ := ctx.Value(callerKey{}).(*config.Consumer)
	return c
}

// authenticated finds the consumer of the bearer token, by its hash.
func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || token == "" {
			s.fail(w, r, api.Refuse(api.Unauthenticated, "no bearer token was sent"))
			return
		}
		who, ok := s.Gateway.Authenticate(sha256.Sum256([]byte(token)))
		if !ok {
			s.fail(w, r, api.Refuse(api.Unauthenticated, "the bearer token is no configured consumer's"))
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
	})
}

// must refuses a caller without the role.
func must(ctx context.Context, role config.Role) (*config.Consumer, error) {
	who := caller(ctx)
	if who == nil {
		return nil, api.Refuse(api.Unauthenticated, "no bearer token was sent")
	}
	if !who.Has(role) {
		return nil, api.Refuse(api.Forbidden, "consumer %s lacks the role %s", who.Name, role)
	}
	return who, nil
}

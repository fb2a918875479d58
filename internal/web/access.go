package web

import (
	"context"
	"crypto/sha256"
	"net/http"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/internal/config"
)

// access is who may call a route: everybody who has a consumer's token, for no role.
type access struct {
	role config.Role // the least that its caller must have
	open bool        // no token: what it needs is in its body
	host bool        // a host, by its own credential, which is good for nothing else
}

// accesses is the one table of who may call what. A route that is not in it is answered to nobody.
var accesses = map[string]access{
	"POST /v1/admissions":                   {role: config.RoleConsumer},
	"GET /v1/admissions":                    {role: config.RoleConsumer},
	"GET /v1/admissions/{key}":              {role: config.RoleConsumer},
	"DELETE /v1/admissions/{key}":           {role: config.RoleConsumer},
	"POST /v1/admissions/{key}/attempt":     {role: config.RoleConsumer},
	"POST /v1/admissions/{key}/heartbeat":   {role: config.RoleConsumer},
	"GET /v1/admissions/id/{id}":            {role: config.RoleConsumer},
	"DELETE /v1/admissions/id/{id}":         {role: config.RoleConsumer},
	"GET /v1/pools":                         {role: config.RoleConsumer},
	"GET /v1/admittable":                    {role: config.RoleConsumer},
	"POST /v1/observations":                 {role: config.RoleConsumer},
	"GET /v1/whoami":                        {},
	"GET /v1/decisions":                     {},
	"GET /v1/decisions/{id}":                {},
	"POST /v1/admissions:batch":             {role: config.RoleConsumer},
	"POST /v1/admissions/id/{id}/heartbeat": {role: config.RoleConsumer},

	"POST /v1/pools/{pool}/running": {role: config.RoleSubstrate},
	"POST /v1/tickets:redeem":       {role: config.RoleSubstrate},
	"POST /v1/tickets:verify":       {role: config.RoleSubstrate},

	"GET /v1/hosts":                  {role: config.RoleOperator},
	"GET /v1/hosts/{id}":             {role: config.RoleOperator},
	"POST /v1/hosts/{id}/cordon":     {role: config.RoleOperator},
	"POST /v1/hosts/{id}/uncordon":   {role: config.RoleOperator},
	"POST /v1/hosts/{id}/drain":      {role: config.RoleOperator},
	"POST /v1/hosts/{id}/bury":       {role: config.RoleOperator},
	"GET /v1/classes":                {role: config.RoleOperator},
	"GET /v1/modes":                  {role: config.RoleOperator},
	"POST /v1/whatif":                {role: config.RoleOperator},
	"POST /v1/pools/{pool}/override": {role: config.RoleOperator},
	"POST /v1/pools/{pool}/hold":     {role: config.RoleOperator},
	"POST /v1/pools/{pool}/resume":   {role: config.RoleOperator},
	"GET /v1/mode":                   {role: config.RoleOperator},
	"POST /v1/mode":                  {role: config.RoleOperator},
	"POST /v1/hosts/{id}/bypass":     {role: config.RoleOperator},
	"GET /v1/observations":           {role: config.RoleOperator},
	"DELETE /v1/observations":        {role: config.RoleOperator},
	"GET /v1/config":                 {role: config.RoleOperator},
	"GET /v1/configs":                {role: config.RoleOperator},
	"GET /v1/audit":                  {role: config.RoleOperator},
	"GET /v1/replicas":               {role: config.RoleOperator},
	"POST /v1/reconcile":             {role: config.RoleOperator},

	"PUT /v1/config":               {role: config.RoleAdmin},
	"GET /v1/audiences/{name}/key": {role: config.RoleAdmin},
	"GET /v1/join-tokens":          {role: config.RoleAdmin},
	"POST /v1/join-tokens":         {role: config.RoleAdmin},
	"DELETE /v1/join-tokens/{id}":  {role: config.RoleAdmin},
	"POST /v1/hosts:join":          {open: true},
	"POST /v1/hosts/{id}/register": {host: true},
}

// allowed lets through who may call a route, before anything else of the request is read.
func (s *Server) allowed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := accesses[r.Pattern]
		ctx, err := r.Context(), error(nil)
		switch {
		case !ok:
			err = api.Refuse(api.Forbidden, "nobody was said to be allowed this")
		case a.open:
		case a.host:
			ctx, err = withCredential(r)
		default:
			ctx, err = s.withCaller(r, a.role)
		}
		if err != nil {
			s.fail(w, r.WithContext(ctx), err)
			return
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// withCaller finds the consumer of the bearer token, and proves its role. The caller is in the
// context of a refusal as well, so that it is counted as the caller's.
func (s *Server) withCaller(r *http.Request, role config.Role) (context.Context, error) {
	token, err := bearer(r)
	if err != nil {
		return r.Context(), err
	}
	who, ok := s.Gateway.Authenticate(sha256.Sum256([]byte(token)))
	if !ok {
		return r.Context(), api.Refuse(api.Unauthenticated, "the bearer token is no configured consumer's")
	}
	ctx := context.WithValue(r.Context(), callerKey{}, who)
	if role != "" && !who.Has(role) {
		return ctx, api.Refuse(api.Forbidden, "consumer %s lacks the role %s", who.Name, role)
	}
	return ctx, nil
}

// withCredential passes a host's credential on by its hash alone; whose it is, the store knows.
func withCredential(r *http.Request) (context.Context, error) {
	token, err := bearer(r)
	if err != nil {
		return r.Context(), err
	}
	return context.WithValue(r.Context(), credentialKey{}, sha256.Sum256([]byte(token))), nil
}

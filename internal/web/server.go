// Package web is the replica's HTTP surface: the route table, authentication, and the one
// ladder from errors to statuses. It decides nothing.
package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/internal/control"
)

// What a request's body may hold; a configuration is the largest but for reports of what runs.
const (
	maxBody   = 1 << 20
	maxReport = 4 << 20
)

// Server answers over HTTP for one gateway.
type Server struct {
	Gateway *control.Gateway
	Metrics prometheus.Gatherer
	Log     *slog.Logger
}

// Handler returns the whole surface.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	strict := NewStrictHandlerWithOptions(handlers{s.Gateway}, nil, StrictHTTPServerOptions{
		RequestErrorHandlerFunc:  s.badRequest,
		ResponseErrorHandlerFunc: s.fail,
	})
	HandlerWithOptions(strict, StdHTTPServerOptions{
		BaseRouter:       mux,
		Middlewares:      []MiddlewareFunc{s.strictBody, s.allowed},
		ErrorHandlerFunc: s.badRequest,
	})
	mux.Handle("POST /v1/admissions", s.allowed(http.HandlerFunc(s.admit)))
	mux.Handle("POST /v1/admissions:batch", s.allowed(http.HandlerFunc(s.admitBatch)))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("GET /openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		w.Write([]byte(api.OpenAPI()))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("/", s.nowhere(mux))
	return s.recovered(mux)
}

// ready tells a load balancer whether to send callers here; the reason is for people.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	if err := s.Gateway.Ready(r.Context()); err != nil {
		s.fail(w, r, err)
		return
	}
	text(w, http.StatusOK, "ready\n")
}

func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	w.Write([]byte(body))
}

// nowhere answers for paths that do not exist, and for methods that a path does not know.
func (s *Server) nowhere(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
			other := r.Clone(r.Context())
			other.Method = method
			if _, pattern := mux.Handler(other); pattern != "/" {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) == 0 {
			s.fail(w, r, api.Refuse(api.NotFound, "there is no %q", r.URL.Path))
			return
		}
		list := strings.Join(allowed, ", ")
		w.Header().Set("Allow", list)
		s.fail(w, r, api.Refuse(api.MethodNotAllowed, "%q takes %s", r.URL.Path, list))
	}
}

// recovered keeps a broken invariant of ours from taking the replica down with it.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					panic(p)
				}
				s.Log.Error("panic while answering", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
				s.fail(w, r, errors.New("panic"))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// fail writes any error as a problem document.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		return // nobody is there to read it
	}
	writeProblem(w, s.problem(r, err))
}

// problem says any error as a document, and counts it once.
func (s *Server) problem(r *http.Request, err error) api.Problem {
	refusal := s.Gateway.Refused(refusalOf(err), caller(r.Context()))
	if refusal.Code == api.Internal {
		s.Log.Error("internal error", "method", r.Method, "path", r.URL.Path, "decision", refusal.DecisionID, "err", err)
	}
	p := problemOf(refusal)
	p.Errors = faultsIn(err)
	return p
}

// badRequest is what the generated code says of a request it could not read.
func (s *Server) badRequest(w http.ResponseWriter, r *http.Request, err error) {
	if p, ok := errors.AsType[*InvalidParamFormatError](err); ok {
		err = api.Refuse(api.InvalidRequest, "%s: it is not written as this parameter is; see /openapi.yaml", p.ParamName)
	}
	if _, ok := api.AsRefusal(err); !ok {
		err = api.Refuse(api.InvalidRequest, "%s", err)
	}
	s.fail(w, r, err)
}

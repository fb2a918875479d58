package standin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

// maxReport is more than any heartbeat needs.
const maxReport = 64 << 10

// Server takes reports over HTTP from whoever has the token.
type Server struct {
	Hosts *Hosts
	IDs   []string
	Token [32]byte // SHA-256 of it
	// Taken is called with a host that has a new report, so that it counts at once.
	Taken func(ctx context.Context, h *Host)
	Now   func() time.Time
}

// Handler is POST and GET /v1/reports.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/reports", s.guarded(s.post))
	mux.HandleFunc("GET /v1/reports", s.guarded(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, "application/json", s.Hosts.Summary(s.Now(), s.IDs))
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	return mux
}

func (s *Server) guarded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		sum := sha256.Sum256([]byte(token))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(sum[:], s.Token[:]) != 1 {
			refuse(w, api.Refuse(api.Unauthenticated, "the bearer token is not that of stand_in.token_file"))
			return
		}
		next(w, r)
	}
}

func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReport))
	if err != nil {
		refuse(w, api.Refuse(api.BodyTooLarge, "a report is at most %d bytes", maxReport))
		return
	}
	h, err := s.Hosts.Take(s.Now(), body)
	var no *Refused
	switch {
	case errors.As(err, &no) && no.Why == Unknown:
		refuse(w, api.Refuse(api.NotFound, "%s", no))
	case err != nil:
		refuse(w, api.Refuse(api.InvalidRequest, "%s", err))
	default:
		s.Taken(r.Context(), h)
		w.WriteHeader(http.StatusNoContent)
	}
}

func refuse(w http.ResponseWriter, r *api.Refusal) {
	m := r.Code.Meaning()
	answer(w, m.Status, "application/problem+json", map[string]any{
		"type": "urn:plimsoll:problem:" + string(r.Code), "title": m.Title, "status": m.Status,
		"code": r.Code, "detail": r.Detail, "remedy": m.Remedy, "retryable": m.Retryable(),
	})
}

func answer(w http.ResponseWriter, status int, kind string, body any) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

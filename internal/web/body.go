package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"

	"github.com/plimsoll-project/plimsoll/api"
)

// strictBody reads the whole body, bounded, and refuses what the contract does not know: a
// misspelt field must not fall back to its default.
func (s *Server) strictBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost && r.Method != http.MethodPut {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit(r)))
		if err != nil {
			s.fail(w, r, unreadable(err))
			return
		}
		if into := bodyOf(r); into != nil {
			if err := decodeStrictly(body, into); err != nil {
				s.fail(w, r, err)
				return
			}
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

func unreadable(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return api.Refuse(api.BodyTooLarge, "the body is larger than %d bytes", tooLarge.Limit)
	}
	return api.Refuse(api.InvalidRequest, "the body could not be read: %s", err)
}

// bodyOf says which document a route takes; nil for none.
func bodyOf(r *http.Request) any {
	switch r.Pattern {
	case "PUT /v1/config":
		return &api.ConfigChange{}
	case reportPattern:
		return &api.RunningReport{}
	case "POST /v1/pools/{pool}/override":
		return &api.PoolOverrideRequest{}
	case "POST /v1/pools/{pool}/hold":
		return &api.PoolHoldRequest{}
	case "POST /v1/pools/{pool}/resume":
		return &api.PoolResumeRequest{}
	case "POST /v1/observations":
		return &api.ObservationBatch{}
	case "POST /v1/hosts:join":
		return &api.HostJoinRequest{}
	case "POST /v1/hosts/{id}/register":
		return &api.HostRegistration{}
	case "POST /v1/hosts/{id}/cordon", "POST /v1/hosts/{id}/uncordon", "POST /v1/hosts/{id}/drain", "POST /v1/hosts/{id}/bury":
		return &api.HostDeedRequest{}
	case "POST /v1/join-tokens":
		return &api.JoinTokenRequest{}
	case "POST /v1/tickets:redeem", "POST /v1/tickets:verify":
		return &api.TicketRequest{}
	}
	return nil
}

const reportPattern = "POST /v1/pools/{pool}/running"

// bodyLimit bounds a request's body; a list of 10,000 that run is the largest.
func bodyLimit(r *http.Request) int64 {
	if r.Pattern == reportPattern {
		return maxReport
	}
	return maxBody
}

// demanded are the fields whose zero values would mean something.
func demanded(into any) []string {
	switch into.(type) {
	case *api.ConfigChange:
		return []string{"generation", "document"}
	case *api.RunningReport:
		return []string{"running"}
	case *api.PoolOverrideRequest:
		return []string{"cap", "for_ms"}
	}
	return nil
}

func decodeStrictly(body []byte, into any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return api.Refuse(api.InvalidRequest, "the body is empty; send a JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return api.Refuse(api.InvalidRequest, "the body is not what this resource takes: %s", jsonFault(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return api.Refuse(api.InvalidRequest, "the body goes on after its JSON object")
	}
	return demand(body, demanded(into)...)
}

// demand refuses a body without these fields.
func demand(body []byte, fields ...string) error {
	if len(fields) == 0 {
		return nil
	}
	var given map[string]any
	if err := json.Unmarshal(body, &given); err != nil {
		return api.Refuse(api.InvalidRequest, "the body is not a JSON object: %s", err)
	}
	for _, name := range fields {
		if given[name] == nil {
			return api.Refuse(api.InvalidRequest, "field %s is missing", name)
		}
	}
	return nil
}

// jsonFault says which field, in the words of the wire.
func jsonFault(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return "field " + cmp.Or(wrong.Field, "(the whole)") + ": got " + wrong.Value + ", want " + kindOf(wrong.Type)
	}
	return err.Error()
}

func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

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
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
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
	case "POST /v1/admissions":
		return &api.AdmissionRequest{}
	case "PUT /v1/config":
		return &api.ConfigChange{}
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
	if _, ok := into.(*api.ConfigChange); ok {
		return demand(body, "generation", "document")
	}
	return nil
}

// demand refuses a body without these fields, where their zero values would mean something.
func demand(body []byte, fields ...string) error {
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
	}
	return "an object"
}

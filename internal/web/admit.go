package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/jsontext"
)

// This file answers the two routes that are asked the most, by hand.

// admit is POST /v1/admissions.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) {
	var q api.AdmissionRequest
	err := readBody(w, r, func(body []byte) error { return decodeStrictly(body, &q) })
	if err != nil {
		s.fail(w, r, err)
		return
	}
	out, err := s.Gateway.Admit(r.Context(), caller(r.Context()), q)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	answer := resultOf(out)
	switch {
	case answer.Waiting != nil:
		w.Header().Set("Retry-After", strconv.FormatInt(retryAfter(answer.Waiting.RetryAfterMS), 10))
		writeJSON(w, answer.Status, answer.Waiting)
	case out.New:
		w.Header().Set("Location", "/v1/admissions/"+answer.Admission.Key)
		fallthrough
	default:
		writeJSON(w, answer.Status, answer.Admission)
	}
}

// resultOf is an answer that is no refusal, with its status.
func resultOf(out control.Outcome) api.BatchResult {
	switch {
	case out.Waiting != nil:
		return api.BatchResult{Status: http.StatusAccepted, Waiting: out.Waiting}
	case out.New:
		return api.BatchResult{Status: http.StatusCreated, Admission: out.Admission}
	}
	return api.BatchResult{Status: http.StatusOK, Admission: out.Admission}
}

// mostInBatch is the contract's.
const mostInBatch = 256

// admitBatch is POST /v1/admissions:batch.
func (s *Server) admitBatch(w http.ResponseWriter, r *http.Request) {
	var items []control.Item
	err := readBody(w, r, func(body []byte) (err error) {
		items, err = itemsOf(body)
		return err
	})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	outcomes := s.Gateway.AdmitBatch(r.Context(), caller(r.Context()), items)
	if r.Context().Err() != nil {
		return // nobody is there to read it
	}
	answer := api.BatchAnswer{Results: make([]api.BatchResult, len(outcomes))}
	for i, o := range outcomes {
		if o.Err == nil {
			answer.Results[i] = resultOf(o.Outcome)
			continue
		}
		p := s.problem(r, o.Err)
		answer.Results[i] = api.BatchResult{Status: int64(p.Status), Problem: &p}
	}
	writeJSON(w, http.StatusOK, &answer)
}

// itemsOf reads a batch. What is wrong with one ask is that one's answer.
func itemsOf(body []byte) ([]control.Item, error) {
	if items, ok := plainItems(body); ok {
		return items, nil
	}
	return anyItems(body)
}

// anyItems reads whatever may be in a batch.
func anyItems(body []byte) ([]control.Item, error) {
	var batch struct {
		Admissions []json.RawMessage `json:"admissions"`
	}
	if err := decodeStrictly(body, &batch); err != nil {
		return nil, err
	}
	if n := len(batch.Admissions); n < 1 || n > mostInBatch {
		return nil, api.Refuse(api.InvalidRequest, "admissions: %d of them; send 1 to %d", n, mostInBatch)
	}
	items := make([]control.Item, len(batch.Admissions))
	for i, raw := range batch.Admissions {
		items[i].Err = decodeStrictly(raw, &items[i].Request)
	}
	return items, nil
}

// plainItems reads a batch in one go if there is nothing wrong with it, as is the case with
// most. Of any other it says nothing.
func plainItems(body []byte) ([]control.Item, bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	for _, want := range []json.Token{json.Delim('{'), "admissions", json.Delim('[')} {
		if got, err := d.Token(); err != nil || got != want {
			return nil, false
		}
	}
	items := make([]control.Item, 0, min(mostInBatch, bytes.Count(body, []byte{'}'})))
	for d.More() {
		if len(items) == mostInBatch {
			return nil, false
		}
		items = append(items, control.Item{})
		if d.Decode(&items[len(items)-1].Request) != nil {
			return nil, false
		}
	}
	for _, want := range []json.Token{json.Delim(']'), json.Delim('}')} {
		if got, err := d.Token(); err != nil || got != want {
			return nil, false
		}
	}
	_, err := d.Token()
	return items, errors.Is(err, io.EOF) && len(items) > 0
}

// readBody hands a whole body, bounded, to whoever reads it.
func readBody(w http.ResponseWriter, r *http.Request, read func([]byte) error) error {
	var body bytes.Buffer
	if n := r.ContentLength; n > 0 && n <= maxBody {
		body.Grow(int(n) + bytes.MinRead)
	}
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		return unreadable(err)
	}
	return read(body.Bytes())
}

// pages lends out what answers are written in, before their length is said.
var pages = sync.Pool{New: func() any { return new([]byte) }}

// writeJSON writes what is answered the most without reflection, and all else with it.
func writeJSON(w http.ResponseWriter, status int64, document any) {
	page := pages.Get().(*[]byte)
	defer pages.Put(page)
	text := (*page)[:0]
	switch d := document.(type) {
	case *api.Admission:
		text = appendAdmission(text, d)
	case *api.BatchAnswer:
		text = appendBatch(text, d)
	default:
		text = jsontext.Any(text, d)
	}
	text = append(text, '\n')
	*page = text
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(int(status))
	w.Write(text) // whoever does not read it asks again
}

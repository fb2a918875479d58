package client_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/plimsoll-project/plimsoll/api"
)

// TestBatch: every ask has its own answer, also one of a code that this version does not know.
func TestBatch(t *testing.T) {
	c, s := talk(t, answer{status: 200, body: api.BatchAnswer{Results: []api.BatchResult{
		{Status: 201, Admission: &api.Admission{ID: "a-1", Key: "a"}},
		{Status: 503, Problem: &api.Problem{Code: api.NoCapacity, Status: 503, RetryAfterMS: 1500}},
		{Status: 202, Waiting: &api.Waiting{Key: "c"}},
		{Status: 503, Problem: &api.Problem{Code: "newer_code", Status: 503}},
		{Status: 200},
	}}}, answer{status: 200, body: api.BatchAnswer{}})
	asks := []api.AdmissionRequest{{Key: "a"}, {Key: "b"}, {Key: "c"}, {}, {Key: "e"}}
	out, err := c.AdmitBatch(t.Context(), asks)
	if err != nil || len(out) != 5 {
		t.Fatalf("%+v %v", out, err)
	}
	var refusal *api.Refusal
	switch {
	case out[0].Admission.ID != "a-1" || out[0].Err != nil:
		t.Errorf("%+v", out[0])
	case !errors.As(out[1].Err, &refusal) || refusal.Code != api.NoCapacity || refusal.RetryAfter.Milliseconds() != 1500:
		t.Errorf("%+v", out[1])
	case out[2].Waiting == nil || out[2].Key != "c":
		t.Errorf("%+v", out[2])
	case !errors.Is(out[3].Err, api.Unavailable) || out[3].Key == "" || asks[3].Key != "":
		t.Errorf("%+v", out[3])
	case out[4].Err == nil:
		t.Error("an answer that says nothing is taken for one")
	}
	if s.seen[0].method != http.MethodPost || s.seen[0].url != "/base/v1/admissions:batch" {
		t.Errorf("%+v", s.seen[0])
	}
	if _, err := c.AdmitBatch(t.Context(), asks); err == nil {
		t.Error("five asks, no answer, and no error")
	}
}

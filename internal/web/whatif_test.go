package web_test

import (
	"testing"

	"github.com/plimsoll-project/plimsoll/api"
)

// TestWhatIf: what is answered is what the contract says, with a stop and without one, and nothing
// is held afterwards.
func TestWhatIf(t *testing.T) {
	r := newRig(t, options{})
	var out api.WhatIf
	r.call("olga", "POST", "/v1/whatif", `{"class":"small","count":60,"consumer":"alice"}`).into(&out)
	if out.Fits != 30 || len(out.Hosts) != 1 || out.Next == nil || out.Next.Code != api.NoCapacity || len(out.Next.Changes) == 0 {
		t.Errorf("%+v %+v", out, out.Next)
	}
	few, err := r.sdk("olga").WhatIf(t.Context(), api.WhatIfRequest{Class: "solo", Count: 1, Consumer: "bob"})
	if err != nil || few.Fits != 1 || few.Next != nil {
		t.Errorf("%+v %v", few, err)
	}
	for body, code := range map[string]api.Code{
		`{"class":"small","count":0}`:                   api.InvalidRequest,
		`{"class":"tiny","count":1}`:                    api.UnknownClass,
		`{"class":"solo","count":1,"memory_mb":1}`:      api.TooLarge,
		`{"class":"small","count":1,"consumer":"nobo"}`: api.InvalidRequest,
	} {
		r.refused(code, "olga", "POST", "/v1/whatif", body)
	}
	r.refused(api.Forbidden, "alice", "POST", "/v1/whatif", `{"class":"small","count":1}`)
	rows, err := r.store.List(t.Context(), filter)
	if r.must(err); len(rows) != 0 {
		t.Errorf("a question left %+v", rows)
	}
}

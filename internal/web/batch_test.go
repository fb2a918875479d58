package web_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-project/plimsoll/api"
)

func (r *rig) batch(asks ...string) []api.BatchResult {
	r.t.Helper()
	// What the contract says of one ask is held against that one's answer, and not the whole.
	a, _ := r.exchange("alice", "POST", "/v1/admissions:batch", `{"admissions":[`+strings.Join(asks, ",")+`]}`)
	var out api.BatchAnswer
	if err := json.Unmarshal(a.Body, &out); err != nil || a.Status != 200 || len(out.Results) != len(asks) {
		r.t.Fatalf("%d %s", a.Status, a.Body)
	}
	return out.Results
}

// TestBatch (T70, T81): each ask has its own answer in the order of the asks; a malformed one
// spoils no other, and nothing that was refused is answered as a yes.
func TestBatch(t *testing.T) {
	r := newRig(t, options{})
	long := fmt.Sprintf(`{"key":"k8","class":"small","receipt":%q}`, strings.Repeat("x", 2000))
	got := r.batch(
		post("k0", "small"),
		`{"key":"k1","class":"small","memry_mb":1}`,
		post("k2", "nowhere"),
		post("k3", "solo"),
		post("k4", "solo"),
		post("k5", "solo", queued),
		post("k0", "small"), // the same
		post("k0", "large"), // the same key with other contents
		`"k7"`, `null`, `{"key":5}`, long,
		`{"key":"k9","class":"small","mode":"sometimes"}`,
	)
	var said []string
	for i, x := range got {
		switch {
		case x.Problem != nil:
			said = append(said, string(x.Problem.Code))
			if int64(x.Problem.Status) != x.Status || x.Problem.DecisionID == "" {
				t.Errorf("%d: %+v", i, x.Problem)
			}
			if x.Status == 503 && x.Problem.RetryAfterMS <= 0 {
				t.Errorf("%d goes without an appointment", i)
			}
		case x.Waiting != nil:
			said = append(said, "waiting")
		case x.Admission.Ticket == "":
			t.Errorf("%d: a yes without a ticket", i)
		default:
			said = append(said, fmt.Sprint(x.Status))
		}
	}
	// k3, k4 and k5 are under way together: one of k3 and k4 has the only slot, or k5 has.
	pool := said[3:6]
	slices.Sort(pool)
	want := "201 invalid_request unknown_class | 200 key_conflict invalid_request invalid_request invalid_request invalid_request invalid_request"
	if s := strings.Join(said[:3], " ") + " | " + strings.Join(said[6:], " "); s != want {
		t.Errorf("told %s\nwant %s", s, want)
	}
	if s := strings.Join(pool, " "); s != "201 pool_full waiting" && s != "201 pool_full pool_full" {
		t.Errorf("of a pool of one: %s", s)
	}
	if got[0].Admission.ID != got[6].Admission.ID {
		t.Error("one key, two admissions")
	}
	again := r.batch(post("k0", "small"))
	if again[0].Status != 200 || again[0].Admission.ID != got[0].Admission.ID {
		t.Errorf("%+v", again[0])
	}
}

// TestBatchAsAWhole: what is no batch is refused as a whole.
func TestBatchAsAWhole(t *testing.T) {
	r := newRig(t, options{})
	var many []string
	for i := range 257 {
		many = append(many, post(fmt.Sprint("k", i), "small"))
	}
	for _, body := range []string{``, `{}`, `[]`, `{"admissions":[]}`, `{"admissions":7}`, `{"asks":[]}`, `{"admissions":[` + strings.Join(many, ",") + `]}`} {
		r.refused(api.InvalidRequest, "alice", "POST", "/v1/admissions:batch", body)
	}
	r.refused(api.Unauthenticated, "", "POST", "/v1/admissions:batch", `{"admissions":[]}`)
	r.refused(api.BodyTooLarge, "alice", "POST", "/v1/admissions:batch", `{"admissions":["`+strings.Repeat("x", 1<<20)+`"]}`)
	got := r.batch(many[:256]...)
	if i := slices.IndexFunc(got, func(x api.BatchResult) bool { return x.Status != 201 && x.Status != 503 }); i >= 0 {
		t.Errorf("%+v", got[i])
	}
}

// TestHeartbeatByID keeps an admission by the server's name for it.
func TestHeartbeatByID(t *testing.T) {
	r := newRig(t, options{})
	a := r.create(201, post("k", "small")).admission()
	got := r.call("alice", "POST", "/v1/admissions/id/"+a.ID+"/heartbeat", "")
	if got.Status != 200 || got.admission().Ticket == "" || got.admission().ID != a.ID {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	r.refused(api.NotFound, "bob", "POST", "/v1/admissions/id/"+a.ID+"/heartbeat", "")
}

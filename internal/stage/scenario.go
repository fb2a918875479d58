package stage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/sdk/vectors"
)

// Scenario is one of scenarios.json. What is in Do and Options a runner does; the rest is the
// stage's.
type Scenario struct {
	Name    string  `json:"name"`
	Why     string  `json:"why"`
	Setup   Setup   `json:"setup"`
	Faults  []Fault `json:"faults"`
	Events  []Event `json:"events"`
	Do      string  `json:"do"`
	Options Options `json:"options"`
	Expect  Expect  `json:"expect"`
}

// Setup is what there is when a scenario begins.
type Setup struct {
	Cap         int64  `json:"cap"`
	Held        int    `json:"held"`         // slots that somebody else holds
	HintMS      int64  `json:"hint_ms"`      // each appointment is told as this; 0: as the replica tells it
	HeartbeatMS int64  `json:"heartbeat_ms"` // each admission is told this; 0: as the replica tells it
	Host        string `json:"host"`         // answers say that this host holds it, and not a pool without hosts
	Queued      string `json:"queued"`       // a key of the caller's that waits in the queue already
	Taken       string `json:"taken"`        // a key of the caller's that is admitted already, with other contents
	Ticket      string `json:"ticket"`       // valid, forged, replayed or released: what begin hands out
}

// Fault is something that goes wrong at an address.
type Fault struct {
	At      string            `json:"at"`      // create, attempt, heartbeat, release, get, redeem or any
	Nth     int               `json:"nth"`     // the first of these that it hits; 0: the first
	Count   int               `json:"count"`   // how many it hits; 0: one, -1: all
	Address *int              `json:"address"` // at which it happens; nil: at both
	ForMS   int64             `json:"for_ms"`  // from the beginning, for how long; 0: without end
	Do      string            `json:"do"`      // status, reset, lose, slow, garbage, truncate, down
	MS      int64             `json:"ms"`      // of slow
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"` // a document, or text
}

func (f *Fault) reply() reply {
	a := reply{status: f.Status, header: http.Header{}, body: f.Body}
	var text string
	if json.Unmarshal(f.Body, &text) == nil {
		a.body = []byte(text)
		a.header.Set("Content-Type", "text/html")
	} else if f.Body != nil {
		a.header.Set("Content-Type", "application/problem+json")
	}
	for name, value := range f.Headers {
		if in, ok := strings.CutPrefix(value, "in "); ok { // a date, by the time of the answer
			if d, err := time.ParseDuration(strings.ReplaceAll(in, " ", "")); err == nil {
				value = time.Now().Add(d).UTC().Format(http.TimeFormat)
			}
		}
		a.header.Set(name, value)
	}
	return a
}

// Event is something that happens meanwhile: when so many requests have come, or so many were
// answered, or so many milliseconds have passed since the first one came.
type Event struct {
	AfterRequests int    `json:"after_requests"`
	AfterAnswers  int    `json:"after_answers"`
	AfterMS       int64  `json:"after_ms"`
	Free          int    `json:"free"` // slots that somebody else gives back
	Ran           bool   `json:"ran"`  // what the caller holds was booted, before it ended
	End           bool   `json:"end"`  // an operator ends what the caller holds
	At            string `json:"at"`   // which requests count; empty: any
}

// in is after how long it happens, once it is due.
func (e Event) in() time.Duration { return time.Duration(e.AfterMS) * time.Millisecond }

// Options are what a runner sets of its SDK, or asks for.
type Options struct {
	Mode          string `json:"mode,omitempty"` // refuse, queue
	PatienceMS    int64  `json:"patience_ms"`    // 0: ask once
	BaseMS        int64  `json:"base_ms,omitempty"`
	CapMS         int64  `json:"cap_ms,omitempty"`
	TimeoutMS     int64  `json:"timeout_ms,omitempty"` // of an answer, beyond what is held
	Watch         bool   `json:"watch,omitempty"`
	Addresses     int    `json:"addresses,omitempty"` // how many of the two; 0: one
	CancelAfterMS int64  `json:"cancel_after_ms,omitempty"`
	HoldMS        int64  `json:"hold_ms,omitempty"`
	GiveUpPlace   bool   `json:"give_up_place,omitempty"`
	KeepPlace     bool   `json:"keep_place,omitempty"`
	Callers       int    `json:"callers,omitempty"`
	Body          string `json:"body,omitempty"` // return, throw, cancel
	Key           string `json:"key,omitempty"`
	Class         string `json:"class,omitempty"` // empty: the stage's
	Tenant        string `json:"tenant,omitempty"`
	Instance      string `json:"instance,omitempty"`
}

// Expect is what must be so. What is left out is not judged.
type Expect struct {
	Outcome       string            `json:"outcome"`
	Code          string            `json:"code"`
	Reason        string            `json:"reason"`
	Text          string            `json:"text"`     // is in the error's text
	Requests      map[string][2]int `json:"requests"` // at -> least and most of all callers together
	Held          *int              `json:"held"`     // slots that the caller holds afterwards
	Waiting       *int              `json:"waiting"`  // places that it has afterwards
	Retries       [2]int            `json:"retries"`  // least and most that each caller was told of
	ElapsedMS     [2]int64          `json:"elapsed_ms"`
	Positions     *bool             `json:"positions"`      // whether it was told of places
	SinceFirst    *bool             `json:"since_first"`    // whether it was told of a time since its first refusal
	BodyRan       *bool             `json:"body_ran"`       // what was to be run with the admission
	Counted       bool              `json:"counted"`        // the gate counts a first refusal that came to a success
	Spread        bool              `json:"spread"`         // second tries of many callers share no moment
	BothAddresses bool              `json:"both_addresses"` // were asked
	Exact         bool              `json:"exact"`          // the release names this admission: its id, and its epoch
	RetriesPerS   int               `json:"retries_per_s"`  // into an outage, after ten at first
}

// Scenarios reads scenarios.json.
func Scenarios() ([]Scenario, error) {
	var file struct {
		Cases []Scenario `json:"cases"`
	}
	d := json.NewDecoder(bytes.NewReader(append([]byte(nil), vectors.Scenarios()...)))
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("read the scenarios: %w", err)
	}
	return file.Cases, nil
}

func find(name string) (Scenario, error) {
	all, err := Scenarios()
	if err != nil {
		return Scenario{}, err
	}
	for _, s := range all {
		if s.Name == name {
			return s, nil
		}
	}
	return Scenario{}, fmt.Errorf("there is no scenario %q", name)
}

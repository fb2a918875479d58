package stage

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// request is one that an SDK made.
type request struct {
	began    time.Duration // since the scenario began
	ended    time.Duration // when it was answered; 0: it was not
	address  int
	at       string // create, attempt, heartbeat, release, get, redeem, other
	key      string // or id
	exact    bool   // by id and epoch
	receipt  string // that it carried
	fault    Fault
	status   int
	code     string
	hint     time.Duration // that it was answered with
	pollMS   int64
	receives string // the receipt that it was answered with
}

// scene is a scenario while it is played.
type scene struct {
	stage   *Stage
	of      Scenario
	began   time.Time
	ctx     context.Context
	end     context.CancelFunc
	held    []string // keys of somebody else's slots
	counted int      // what the gate counted before

	mu     sync.Mutex // guards log, seen, due and ticket
	log    []*request
	ticket string         // the newest that was handed out
	seen   map[string]int // at -> how many, per fault's filter
	due    []Event        // not yet
	after  sync.WaitGroup // events that happen
}

// take notes a request, and says what goes wrong with it.
func (s *scene) take(address int, r *http.Request, body []byte) *request {
	q := &request{began: time.Since(s.began), address: address}
	q.at, q.key = kindOf(r)
	q.exact = strings.HasPrefix(r.URL.Path, "/v1/admissions/id/") && r.URL.Query().Has("epoch")
	if q.at == "create" {
		var asked struct{ Key, Receipt string }
		_ = json.Unmarshal(body, &asked) // the replica says so, if it is none
		q.key, q.receipt = asked.Key, asked.Receipt
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, q)
	for i, f := range s.of.Faults {
		if s.hits(i, f, q) {
			q.fault = f
			break
		}
	}
	s.fire(q.at, func(e *Event) *int { return &e.AfterRequests })
	return q
}

// hits says whether a fault befalls a request.
func (s *scene) hits(i int, f Fault, q *request) bool {
	if f.Do == "down" || f.At != "any" && f.At != q.at || f.Address != nil && *f.Address != q.address {
		return false
	}
	id := strconv.Itoa(i)
	s.seen[id]++
	first := max(f.Nth, 1)
	last := first + max(f.Count, 1) - 1
	if n := s.seen[id]; n < first || f.Count >= 0 && n > last {
		return false
	}
	return f.ForMS == 0 || q.began < time.Duration(f.ForMS)*time.Millisecond
}

// fire counts one of what an event waits for, and lets happen what is due by that.
func (s *scene) fire(at string, count func(*Event) *int) {
	kept := s.due[:0]
	for _, e := range s.due {
		if n := count(&e); *n > 0 && (e.At == "" || e.At == at) {
			if *n--; *n == 0 {
				s.happen(e)
				continue
			}
		}
		kept = append(kept, e)
	}
	s.due = kept
}

// happen lets an event happen after its while.
func (s *scene) happen(e Event) {
	s.after.Go(func() {
		select {
		case <-time.After(e.in()):
			s.stage.do(s, e)
		case <-s.ctx.Done():
		}
	})
}

// answered notes what a request was told.
func (s *scene) answered(q *request, a reply) {
	var said struct {
		Code    string `json:"code"`
		RetryMS int64  `json:"retry_after_ms"`
		PollMS  int64  `json:"poll_after_ms"`
		Receipt string `json:"receipt"`
		Ticket  string `json:"ticket"`
	}
	_ = json.Unmarshal(a.body, &said) // what is no document says nothing
	s.mu.Lock()
	defer s.mu.Unlock()
	q.ended, q.status, q.code = time.Since(s.began), a.status, said.Code
	if said.Ticket != "" {
		s.ticket = said.Ticket
	}
	q.pollMS, q.receives = said.PollMS, said.Receipt
	q.hint = time.Duration(said.RetryMS) * time.Millisecond
	if after, err := strconv.Atoi(a.header.Get("Retry-After")); err == nil && q.hint == 0 {
		q.hint = time.Duration(after) * time.Second
	} else if at, err := http.ParseTime(a.header.Get("Retry-After")); err == nil && q.hint == 0 {
		q.hint = max(time.Until(at), 0)
	}
	s.fire(q.at, func(e *Event) *int { return &e.AfterAnswers })
}

// bend tells appointments and heartbeats as the setup says.
func (s *scene) bend(a *reply) {
	set := s.of.Setup
	if set.HintMS == 0 && set.HeartbeatMS == 0 && set.Host == "" {
		return
	}
	var said map[string]json.RawMessage
	if json.Unmarshal(a.body, &said) != nil {
		return
	}
	for _, f := range []struct {
		name string
		ms   int64
	}{{"retry_after_ms", set.HintMS}, {"poll_after_ms", set.HintMS}, {"heartbeat_ms", set.HeartbeatMS}} {
		if _, ok := said[f.name]; ok && f.ms > 0 {
			said[f.name] = json.RawMessage(strconv.FormatInt(f.ms, 10))
		}
	}
	if _, ok := said["epoch"]; ok && set.Host != "" { // an admission
		delete(said, "audience")
		said["host"] = json.RawMessage(strconv.Quote(set.Host))
	}
	if set.HintMS > 0 && a.header.Get("Retry-After") != "" {
		a.header.Set("Retry-After", strconv.FormatInt((set.HintMS+999)/1000, 10))
	}
	if text, err := json.Marshal(said); err == nil {
		a.body = append(bytes.TrimSpace(text), '\n')
	}
}

// requests is the log so far.
func (s *scene) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]request, len(s.log))
	for i, q := range s.log {
		all[i] = *q
	}
	return all
}

// kindOf names a request, and what it is about.
func kindOf(r *http.Request) (at, key string) {
	path := strings.TrimPrefix(r.URL.Path, "/v1/admissions/")
	path = strings.TrimPrefix(path, "id/")
	key, verb, _ := strings.Cut(path, "/")
	switch {
	case r.URL.Path == "/v1/admissions" && r.Method == http.MethodPost:
		return "create", ""
	case r.URL.Path == "/v1/tickets:redeem":
		return "redeem", ""
	case path == r.URL.Path:
		return "other", ""
	case verb == "attempt" || verb == "heartbeat":
		return verb, key
	case r.Method == http.MethodDelete:
		return "release", key
	}
	return "get", key
}

package stage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// sloppy is an SDK that does something wrong.
type sloppy struct {
	t     *testing.T
	note  Note
	begun Begun
}

// ask makes one request as the caller; an answer that was lost has status 0.
func (s *sloppy) ask(method, path, body string) (status int, said map[string]any) {
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.note.Addresses[0]+path, strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return 0, nil
	}
	r.Header.Set("Authorization", "Bearer "+s.note.Tokens["caller"])
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	_ = json.NewDecoder(resp.Body).Decode(&said) // a page says nothing
	return resp.StatusCode, said
}

func (s *sloppy) create(key, receipt string) (status int, said map[string]any) {
	return s.ask("POST", "/v1/admissions", fmt.Sprintf(`{"key":%q,"class":"browser","receipt":%q}`, key, receipt))
}

// again creates until there is a yes, with a pause that is whatever.
func (s *sloppy) again(key string, pause time.Duration, carry bool) Result {
	receipt, began := "", time.Now()
	for n := 1; n < 100; n++ {
		status, said := s.create(key, receipt)
		if status == http.StatusCreated || status == http.StatusOK {
			return Result{Outcome: "admitted", Attempts: n, ElapsedMS: float64(time.Since(began).Milliseconds())}
		}
		if text, ok := said["receipt"].(string); ok && carry {
			receipt = text
		}
		time.Sleep(pause)
	}
	return Result{Outcome: "not_now"}
}

func (s *sloppy) all(n int, do func(i int) Result) Seen {
	out := Seen{Results: make([]Result, n)}
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() { out.Results[i] = do(i) })
	}
	callers.Wait()
	return out
}

func one(r Result) Seen { return Seen{Result: r} }

// A judge that finds no fault proves nothing. Each of these SDKs has one, and is told.
func TestTheStageFindsFaults(t *testing.T) {
	var all sync.WaitGroup
	room := make(chan struct{}, 4)
	for _, tc := range []struct {
		scenario, fault string
		plays           func(*sloppy) Seen
	}{
		{"an appointment is kept, with jitter above it", "carries receipt \"\"", func(s *sloppy) Seen {
			return one(s.again("k", 310*time.Millisecond, false))
		}},
		{"a lost answer is no second sandbox", "2 keys of 1 callers", func(s *sloppy) Seen {
			s.create("k-1", "")
			return one(s.again("k-2", 0, false))
		}},
		{"a 429 is no capacity", "2 × create", func(s *sloppy) Seen { return one(s.again("k", 0, false)) }},
		{"a 429 is no capacity", "outcome \"not_now\"", func(s *sloppy) Seen {
			s.create("k", "")
			return one(Result{Outcome: "not_now"})
		}},
		{"cancelled in the queue, the place is given back", "1 places afterwards", func(s *sloppy) Seen {
			s.ask("POST", "/v1/admissions", `{"key":"k","class":"browser","mode":"queue"}`)
			return one(Result{Outcome: "canceled", Positions: []int64{1}})
		}},
		{"ten cancelled, and none starts", "10 places", func(s *sloppy) Seen {
			return s.all(10, func(i int) Result {
				s.ask("POST", "/v1/admissions", fmt.Sprintf(`{"key":"k-%d","class":"browser","mode":"queue"}`, i))
				return Result{Outcome: "canceled"}
			})
		}},
		{"held and released", "a release by its key", func(s *sloppy) Seen {
			s.create("k", "")
			s.ask("DELETE", "/v1/admissions/k", "")
			return one(Result{Outcome: "admitted", BodyRan: true, Attempts: 1})
		}},
		{"an exception releases", "holds 1 slots", func(s *sloppy) Seen { return one(s.again("k", 0, false)) }},
		{"a lease that an operator ends", "took 9000 ms", func(s *sloppy) Seen {
			return one(Result{Outcome: "lost", BodyRan: true, ElapsedMS: 9000})
		}},
		{"a forged ticket", "1 × redeem", func(s *sloppy) Seen {
			s.ask("POST", "/v1/tickets:redeem", fmt.Sprintf(`{"ticket":%q}`, s.begun.Ticket))
			return one(Result{Outcome: "admitted", BodyRan: true})
		}},
		{"a forged ticket", "the body ran: true", func(*sloppy) Seen { return one(Result{Outcome: "never", BodyRan: true}) }},
		{"an unknown class", "tells a secret", func(s *sloppy) Seen {
			return one(Result{Outcome: "never", ErrorText: "Bearer " + s.note.Tokens["caller"]})
		}},
	} {
		all.Go(func() { // most of it is waiting
			room <- struct{}{}
			defer func() { <-room }()
			t.Run(tc.scenario+": "+tc.fault, func(t *testing.T) {
				s := &sloppy{t: t, note: staged(t)}
				post(t, s.note, "/begin", Beginning{tc.scenario}, &s.begun)
				seen := tc.plays(s)
				seen.Name = tc.scenario
				var v Verdict
				post(t, s.note, "/check", seen, &v)
				if found := fmt.Sprint(v.Faults); v.OK || !strings.Contains(found, tc.fault) {
					t.Errorf("found %.600s", found)
				}
			})
		})
	}
	all.Wait()
}

// staged is the stage of a test.
func staged(t *testing.T) Note {
	t.Helper()
	s, err := Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.Note()
}

func post(t *testing.T, note Note, path string, in, out any) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(note.Control+path, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		t.Fatal(err)
	}
}

// By a log alone, without a clock: what is judged by time.
func TestTheJudgeOfTime(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	// told is a first try that was refused, with an appointment 300 ms after its answer at 5 ms.
	told := func(key string) request {
		return request{at: "create", key: key, began: ms(0), ended: ms(5), status: 503, code: "no_capacity", hint: ms(300)}
	}
	second := func(key string, at time.Duration) request {
		return request{at: "create", key: key, began: at, ended: at + ms(5), status: 201}
	}
	crowd := func(when func(i int) time.Duration) (log []request) {
		for i := range 60 {
			log = append(log, told(fmt.Sprint(i)))
		}
		for i := range 60 {
			log = append(log, second(fmt.Sprint(i), ms(305)+when(i)))
		}
		return log
	}
	// cut is a try that nobody answered; the gate is back after the last of them.
	cut := func(key string, at time.Duration) request {
		return request{at: "create", key: key, began: at, fault: Fault{Do: "reset"}}
	}
	outage := func(retries int) (log []request) {
		for i := range 60 {
			log = append(log, cut(fmt.Sprint(i), ms(i)))
		}
		for i := range retries {
			log = append(log, cut(fmt.Sprint(i), ms(100+i)))
		}
		return log
	}
	many := Expect{Spread: true}
	for name, tc := range map[string]struct {
		want Expect
		log  []request
		says string // empty: all is well
	}{
		"at its appointment":        {Expect{}, []request{told("k"), second("k", ms(305))}, ""},
		"before it":                 {Expect{}, []request{told("k"), second("k", ms(295))}, "create after 290ms of an appointment in 300ms"},
		"another's appointment":     {Expect{}, []request{told("k"), second("l", ms(10))}, ""},
		"all over the window":       {many, crowd(func(i int) time.Duration { return ms(i * 800 / 60) }), ""},
		"all at the same moment":    {many, crowd(func(i int) time.Duration { return ms(i % 3) }), "60 of 60 callers waited alike"},
		"ten into an outage":        {Expect{RetriesPerS: 1}, outage(10), ""},
		"all of them into it again": {Expect{RetriesPerS: 1}, outage(60), "60 retries were sent into an outage"},
		"no outage at all":          {Expect{RetriesPerS: 1}, crowd(func(int) time.Duration { return 0 }), "0 retries were sent"},
	} {
		j := &judge{scene: &scene{of: Scenario{Options: Options{BaseMS: 800}}}, want: tc.want, log: tc.log}
		j.tries()
		j.many()
		if found := strings.Join(j.faults, "\n"); tc.says == "" && found != "" || !strings.Contains(found, tc.says) {
			t.Errorf("%s: found %q, want %q", name, found, tc.says)
		}
	}
}

// Each scenario says why, and expects something.
func TestScenariosSayWhy(t *testing.T) {
	all, err := Scenarios()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, s := range all {
		if s.Name == "" || names[s.Name] || s.Why == "" || s.Expect.Outcome == "" || s.Do == "" {
			t.Errorf("%q says too little, or twice: %+v", s.Name, s)
		}
		names[s.Name] = true
	}
	for _, do := range []string{"status", "reset", "lose", "slow", "garbage", "truncate"} {
		for _, at := range []string{"create", "attempt", "heartbeat", "release"} {
			played := slices.ContainsFunc(all, func(s Scenario) bool {
				return slices.ContainsFunc(s.Faults, func(f Fault) bool { return f.Do == do && (f.At == at || f.At == "any") })
			})
			if !played && !(do == "garbage" && at != "create" && at != "attempt") {
				t.Errorf("no scenario plays %s at %s", do, at)
			}
		}
	}
}

package stage

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

// Seen is what a runner saw. Of several callers each has a result.
type Seen struct {
	Name string `json:"name"`
	Result
	Results []Result `json:"results"`
}

// Result is what one caller saw.
type Result struct {
	Outcome    string  `json:"outcome"`
	Code       string  `json:"code"`
	Reason     string  `json:"reason"`
	ElapsedMS  float64 `json:"elapsed_ms"`
	Positions  []int64 `json:"positions"`
	Retries    []Retry `json:"retries"`
	Attempts   int     `json:"attempts"`
	SinceFirst *int64  `json:"since_first_refusal_ms"`
	Key        string  `json:"key"`
	BodyRan    bool    `json:"body_ran"`
	ErrorText  string  `json:"error_text"`
}

// Retry is one that the hook was told of.
type Retry struct {
	Code string  `json:"code"`
	InMS float64 `json:"in_ms"`
}

// Verdict is what the stage makes of it.
type Verdict struct {
	OK     bool     `json:"ok"`
	Faults []string `json:"faults,omitempty"`
}

// judge collects what is wrong.
type judge struct {
	stage  *Stage
	scene  *scene
	want   Expect
	log    []request
	faults []string
}

func (j *judge) faultf(format string, args ...any) {
	j.faults = append(j.faults, fmt.Sprintf(format, args...))
}

// check judges what a runner saw of the scenario that is played.
func (s *Stage) check(ctx context.Context, seen Seen) (Verdict, error) {
	of := s.playing()
	if of == nil || of.of.Name != seen.Name {
		return Verdict{}, fmt.Errorf("scenario %q was not begun", seen.Name)
	}
	results := seen.Results
	if results == nil {
		results = []Result{seen.Result}
	}
	j := &judge{stage: s, scene: of, want: of.of.Expect}
	if n := max(of.of.Options.Callers, 1); len(results) != n {
		j.faultf("%d results of %d callers", len(results), n)
	}
	for i := range results {
		j.result(&results[i])
	}
	if err := j.settled(ctx); err != nil {
		return Verdict{}, err
	}
	j.log = of.requests()
	j.counts()
	j.tries()
	j.many()
	if err := j.gate(ctx); err != nil {
		return Verdict{}, err
	}
	return Verdict{OK: len(j.faults) == 0, Faults: j.faults}, nil
}

// result judges what one caller saw.
func (j *judge) result(r *Result) {
	want := j.want
	for name, pair := range map[string][2]string{
		"outcome": {want.Outcome, r.Outcome}, "code": {want.Code, r.Code}, "reason": {want.Reason, r.Reason},
	} {
		if pair[0] != "" && pair[0] != pair[1] {
			j.faultf("%s %q, want %q (%s)", name, pair[1], pair[0], r.ErrorText)
		}
	}
	if !strings.Contains(r.ErrorText, want.Text) {
		j.faultf("the error says %q, and nothing of %q", r.ErrorText, want.Text)
	}
	if strings.Contains(r.ErrorText, "stage-token-of") || strings.Contains(r.ErrorText, "plm1.") {
		j.faultf("the error tells a secret: %q", r.ErrorText)
	}
	if n := len(r.Retries); want.Retries != [2]int{} && (n < want.Retries[0] || n > want.Retries[1]) {
		j.faultf("told of %d retries, want %d to %d", n, want.Retries[0], want.Retries[1])
	}
	if e := want.ElapsedMS; e != [2]int64{} && (r.ElapsedMS < float64(e[0]) || r.ElapsedMS > float64(e[1])) {
		j.faultf("took %.0f ms, want %d to %d", r.ElapsedMS, e[0], e[1])
	}
	for name, is := range map[string]struct {
		want *bool
		got  bool
	}{
		"told of places": {want.Positions, len(r.Positions) > 0}, "told of a time since the first refusal": {want.SinceFirst, r.SinceFirst != nil},
		"the body ran": {want.BodyRan, r.BodyRan},
	} {
		if is.want != nil && *is.want != is.got {
			j.faultf("%s: %v, want %v", name, is.got, *is.want)
		}
	}
	j.hooks(r)
}

// hooks judges what the hooks were told: of retries no sooner than the server's appointments (tries
// proves by the log that they were kept), and of a time that is not longer than all of it.
func (j *judge) hooks(r *Result) {
	if r.SinceFirst != nil && (*r.SinceFirst < 0 || float64(*r.SinceFirst) > r.ElapsedMS+50) {
		j.faultf("%d ms since the first refusal, in %.0f ms", *r.SinceFirst, r.ElapsedMS)
	}
	if j.scene.of.Do != "redeem" && r.Outcome == "admitted" && r.Attempts < 1 {
		j.faultf("admitted after %d attempts", r.Attempts)
	}
}

// tries judges what was asked under each key: never before an appointment, always with the newest
// receipt.
func (j *judge) tries() {
	last, receipts := map[string]request{}, map[string]string{}
	for _, q := range j.log {
		if q.at != "create" && q.at != "attempt" {
			continue
		}
		former, receipt := last[q.key], receipts[q.key]
		// An address that has nothing to say is passed over for the next, without a pause.
		elsewhere := former.code == string(api.Unavailable) && q.address != former.address
		if former.status >= 500 && !elsewhere && q.began < former.ended+former.hint-slack {
			j.faultf("%s after %s of an appointment in %s (%s)", q.at, q.began-former.ended, former.hint, former.code)
		}
		if q.at == "create" && q.receipt != receipt {
			j.faultf("a create carries receipt %q, and the newest refusal's was %q", q.receipt, receipt)
		}
		if q.receives != "" && q.status >= 500 {
			receipts[q.key] = q.receives
		}
		last[q.key] = q
	}
}

// slack is for what clocks round off.
const slack = 2 * time.Millisecond

// counts judges how often what was asked.
func (j *judge) counts() {
	n, keys, addresses := map[string]int{}, map[string]bool{}, map[int]bool{}
	for _, q := range j.log {
		n[q.at]++
		addresses[q.address] = true
		if q.at == "create" {
			keys[q.key] = true
		}
	}
	for at, want := range j.want.Requests {
		if n[at] < want[0] || n[at] > want[1] {
			j.faultf("%d × %s, want %d to %d: %s", n[at], at, want[0], want[1], j.told())
		}
	}
	if callers := max(j.scene.of.Options.Callers, 1); n["create"] > 0 && len(keys) != callers {
		j.faultf("%d keys of %d callers", len(keys), callers)
	}
	if j.want.BothAddresses && len(addresses) < 2 {
		j.faultf("one address alone was asked")
	}
	for _, q := range j.log {
		if j.want.Exact && q.at == "release" && !q.exact {
			j.faultf("a release by its key would end a later admission too: by id, with ?epoch=")
		}
	}
}

// told is the log, for people.
func (j *judge) told() string {
	var lines []string
	for _, q := range j.log {
		lines = append(lines, fmt.Sprintf("%s %s@%d %d %s%s", q.began.Round(time.Millisecond), q.at, q.address, q.status, q.code, q.fault.Do))
	}
	if len(lines) > 12 {
		lines = append(lines[:12], "…")
	}
	return strings.Join(lines, ", ")
}

// many judges what many callers do at once.
func (j *judge) many() {
	if j.want.Spread {
		j.spread()
	}
	if j.want.RetriesPerS > 0 {
		j.outage()
	}
}

// spread judges what many callers that were told the same wait beyond their appointment: of the
// window for that, no eighth may have a third of them.
func (j *judge) spread() {
	window := time.Duration(j.scene.of.Options.BaseMS) * time.Millisecond
	first, slots, all := map[string]request{}, map[time.Duration]int{}, 0
	for _, q := range j.log {
		former, again := first[q.key]
		if q.at != "create" || again && former.at == "" {
			continue
		}
		if !again {
			first[q.key] = q
			continue
		}
		slots[8*(q.began-former.ended-former.hint)/window]++
		first[q.key] = request{}
		all++
	}
	for slot, n := range slots {
		if n > all/3 {
			j.faultf("%d of %d callers waited alike, in eighth %d of their window", n, all, slot+1)
		}
	}
}

// outage judges how many retries were sent while nobody answered.
func (j *judge) outage() {
	tried, retries, last := map[string]bool{}, 0, time.Duration(0)
	for _, q := range j.log {
		if q.fault.Do == "" {
			break // the first that is answered ends it
		}
		if tried[q.key] {
			retries++
			last = q.began
		}
		tried[q.key] = true
	}
	if most := 10 + j.want.RetriesPerS*int(last/time.Second+1); retries > most || retries < 1 {
		j.faultf("%d retries were sent into an outage of %s, want 1 to %d", retries, last, most)
	}
}

// settled waits until what the caller holds is what it should, and proves that it stays so.
func (j *judge) settled(ctx context.Context) error {
	if j.want.Held == nil && j.want.Waiting == nil {
		return nil
	}
	for _, e := range j.scene.of.Events { // what happens by the clock must have happened
		if len(j.log) > 0 {
			time.Sleep(time.Until(j.scene.began.Add(j.log[0].began + e.in())))
		}
	}
	deadline := time.Now().Add(3 * time.Second)
	for {
		held, waiting, err := j.stands(ctx)
		if err != nil {
			return err
		}
		right := is(j.want.Held, held) && is(j.want.Waiting, waiting)
		if right {
			break
		}
		if time.Now().After(deadline) {
			j.faultf("the caller holds %d slots and %d places afterwards, want %s and %s", held, waiting, say(j.want.Held), say(j.want.Waiting))
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	before := len(j.creates())
	time.Sleep(60 * time.Millisecond)
	held, waiting, err := j.stands(ctx)
	if now := len(j.creates()); now != before || !is(j.want.Held, held) || !is(j.want.Waiting, waiting) {
		j.faultf("the caller goes on: %d requests after it was done, %d slots and %d places", now-before, held, waiting)
	}
	return err
}

// creates are the requests that ask for something.
func (j *judge) creates() []request {
	return slices.DeleteFunc(j.scene.requests(), func(q request) bool { return q.at != "create" && q.at != "attempt" })
}

func (j *judge) stands(ctx context.Context) (held, waiting int, err error) {
	list, err := j.stage.standing(ctx, "caller")
	for _, a := range list {
		if a.State == api.AdmissionStateWaitingCapacity {
			waiting++
		} else {
			held++
		}
	}
	return held, waiting, err
}

func is(want *int, got int) bool { return want == nil || *want == got }

func say(n *int) string {
	if n == nil {
		return "any"
	}
	return strconv.Itoa(*n)
}

// gate judges what the gate itself counted.
func (j *judge) gate(ctx context.Context) error {
	if !j.want.Counted {
		return nil
	}
	now, err := j.stage.counted(ctx)
	if err == nil && now <= j.scene.counted {
		j.faultf("the gate knows of no time from first refusal to success: no receipt came back")
	}
	return err
}

// readCount sums a metric's series.
func readCount(q *http.Request, name string) (n int, err error) {
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		series, value, _ := strings.Cut(lines.Text(), " ")
		if series == name || strings.HasPrefix(series, name+"{") {
			count, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, fmt.Errorf("read %s: %w", series, err)
			}
			n += int(count)
		}
	}
	return n, lines.Err()
}

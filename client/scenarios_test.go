package client_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/backoff"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/substrate"
	"github.com/plimsoll-project/plimsoll/internal/stage"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// The scenarios that every SDK plays, over real sockets against a real replica.
func TestScenarios(t *testing.T) {
	all, err := stage.Scenarios()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Errorf("there are only %d", len(all))
	}
	var players sync.WaitGroup
	for i := range stages { // most of it is waiting
		players.Go(func() {
			s, err := stage.Start(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			for j := i; j < len(all); j += stages {
				t.Run(all[j].Name, func(t *testing.T) { (&player{t: t, note: s.Note(), of: all[j]}).play() })
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	players.Wait()
}

const stages = 4

// player does what a scenario says, and says what it saw.
type player struct {
	t    *testing.T
	note stage.Note
	of   stage.Scenario
}

// post speaks to the stage as every SDK's runner does.
func (p *player) post(path string, in, out any) {
	p.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := http.Post(p.note.Control+path, "application/json", bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		p.t.Fatalf("%s: %d %s %v", path, resp.StatusCode, text, err)
	}
	if err := json.Unmarshal(text, out); err != nil {
		p.t.Fatal(err)
	}
}

func (p *player) play() {
	var begun stage.Begun
	p.post("/begin", stage.Beginning{Name: p.of.Name}, &begun)
	c := p.client(p.note.Tokens["caller"])
	seen := stage.Seen{Name: p.of.Name}
	if n := p.of.Options.Callers; n > 1 {
		seen.Results = make([]stage.Result, n)
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() { seen.Results[i] = p.act(c, begun) })
		}
		all.Wait()
	} else {
		seen.Result = p.act(c, begun)
	}
	var verdict stage.Verdict
	p.post("/check", seen, &verdict)
	for _, fault := range verdict.Faults {
		p.t.Error(fault)
	}
	if !verdict.OK && len(verdict.Faults) == 0 {
		p.t.Error("not ok, without a fault")
	}
	if err := c.Close(); err != nil {
		p.t.Error(err)
	}
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func (p *player) client(token string) *client.Client {
	o := p.of.Options
	transport := &http.Transport{MaxIdleConnsPerHost: 200}
	p.t.Cleanup(transport.CloseIdleConnections)
	options := []client.Option{
		client.WithHTTPClient(&http.Client{Transport: transport}),
		client.WithBackoff(backoff.Policy{Base: ms(o.BaseMS), Cap: ms(o.CapMS)}),
	}
	if o.TimeoutMS > 0 {
		options = append(options, client.WithTimeout(ms(o.TimeoutMS)))
	}
	c, err := client.New(strings.Join(p.note.Addresses[:max(o.Addresses, 1)], ","), token, options...)
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

// act is one caller.
func (p *player) act(c *client.Client, begun stage.Begun) (r stage.Result) {
	o := p.of.Options
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	if o.CancelAfterMS > 0 {
		time.AfterFunc(ms(o.CancelAfterMS), cancel)
	}
	q := api.AdmissionRequest{
		Key: o.Key, Class: cmp.Or(o.Class, p.note.Class), Tenant: o.Tenant, Mode: api.WaitMode(o.Mode),
	}
	r.Key = q.Key
	began := time.Now()
	var err error
	switch p.of.Do {
	case "admit":
		_, err = c.Admit(ctx, q, p.options(&r))
	case "resume":
		_, err = c.Resume(ctx, q.Key, p.options(&r))
	case "release":
		if _, err = c.Release(ctx, q.Key); err == nil {
			r.Outcome = "released"
		}
	case "hold":
		err = c.Hold(ctx, q, p.options(&r), func(ctx context.Context, _ *client.Lease) error {
			r.BodyRan = true
			return p.body(ctx, cancel)
		})
	case "redeem":
		err = p.redeem(ctx, begun.Ticket)
		r.BodyRan = err == nil
	default:
		p.t.Fatalf("there is nothing like %q to do", p.of.Do)
	}
	r.ElapsedMS = float64(time.Since(began).Microseconds()) / 1000
	said(&r, err)
	return r
}

// options hear what there is to hear.
func (p *player) options(r *stage.Result) client.Options {
	o := p.of.Options
	out := client.Options{
		Wait: client.Within(ms(o.PatienceMS)), KeepPlace: o.KeepPlace, GiveUpPlace: o.GiveUpPlace,
		Retry: func(err error, in time.Duration) {
			code := ""
			if no, ok := api.AsRefusal(err); ok {
				code = string(no.Code)
			}
			r.Retries = append(r.Retries, stage.Retry{Code: code, InMS: float64(in.Microseconds()) / 1000})
		},
		Admitted: func(s client.Success) {
			r.Key = s.Admission.Key
			r.Attempts = s.Attempts
			if s.Refused {
				since := s.SinceRefused.Milliseconds()
				r.SinceFirst = &since
			}
		},
	}
	if o.Watch {
		out.Progress = func(w api.Waiting) { r.Positions = append(r.Positions, w.Position) }
	}
	return out
}

var errBody = errors.New("the body failed")

// body is what is run while something is held.
func (p *player) body(ctx context.Context, cancel func()) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(ms(p.of.Options.HoldMS)):
	}
	switch p.of.Options.Body {
	case "throw":
		return errBody
	case "cancel":
		cancel()
		return ctx.Err()
	}
	return nil
}

// redeem is a provider that boots nothing without a yes.
func (p *player) redeem(ctx context.Context, text string) error {
	keys, err := ticket.ParseAudienceKeys(p.note.AudienceKeys)
	if err != nil {
		return err
	}
	_, err = substrate.New(p.client(p.note.Tokens["substrate"]), keys).Redeem(ctx, text, p.of.Options.Instance)
	return err
}

// said fills in how it ended.
func said(r *stage.Result, err error) {
	r.Outcome = cmp.Or(r.Outcome, outcomeOf(err))
	if err == nil {
		return
	}
	r.ErrorText = err.Error()
	if no, ok := api.AsRefusal(err); ok {
		r.Code, r.Reason = string(no.Code), no.Reason
	} else if errors.Is(err, api.WaitingCapacity) {
		r.Code = string(api.WaitingCapacity)
	}
}

func outcomeOf(err error) string {
	switch {
	case err == nil, errors.Is(err, errBody):
		return "admitted"
	case errors.As(err, new(*client.Lost)):
		return "lost"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.As(err, new(*client.StillWaiting)):
		return "still_waiting"
	case errors.As(err, new(*client.Unreachable)):
		return "unreachable"
	case errors.Is(err, api.QueueTimeout):
		return "queue_timeout"
	case client.NotNow(err):
		return "not_now"
	case client.NotAllowed(err):
		return "not_allowed"
	case client.Never(err) && !errors.Is(err, api.Internal):
		return "never"
	}
	return "internal"
}

package stage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

// Beginning names the scenario that a runner is about to play.
type Beginning struct {
	Name string `json:"name"`
}

// Begun is what it needs beyond the scenario.
type Begun struct {
	Ticket string `json:"ticket,omitempty"` // to be redeemed
}

// begin clears the stage and sets it for a scenario.
func (s *Stage) begin(ctx context.Context, q Beginning) (out Begun, err error) {
	of, err := find(q.Name)
	if err != nil {
		return out, err
	}
	s.leave()
	for _, f := range s.fronts {
		if f.isShut() {
			if err := f.open(); err != nil {
				return out, err
			}
		}
	}
	if err := s.clear(ctx); err != nil {
		return out, err
	}
	next := &scene{stage: s, of: of, seen: map[string]int{}}
	next.ctx, next.end = context.WithCancel(context.Background())
	if out, err = s.set(ctx, next); err != nil {
		return out, err
	}
	if next.counted, err = s.counted(ctx); err != nil {
		return out, err
	}
	next.began = time.Now()
	s.mu.Lock()
	s.scene = next
	s.mu.Unlock()
	s.start(next)
	return out, nil
}

// clear ends whatever anybody holds or waits for.
func (s *Stage) clear(ctx context.Context) error {
	for _, who := range []string{"caller", "other"} {
		list, err := s.standing(ctx, who)
		if err != nil {
			return err
		}
		ending, ctx := errgroup.WithContext(ctx)
		ending.SetLimit(16)
		for _, a := range list {
			ending.Go(func() error { return s.release(ctx, who, a.ID) })
		}
		if err := ending.Wait(); err != nil {
			return fmt.Errorf("clear the stage: %w", err)
		}
	}
	return nil
}

func (s *Stage) release(ctx context.Context, who, id string) error {
	_, err := s.clients[who].ReleaseID(ctx, id)
	if errors.Is(err, api.NotFound) {
		return nil
	}
	return err
}

// standing are the admissions of somebody that hold a slot or a place.
func (s *Stage) standing(ctx context.Context, who string) (all []api.Admission, err error) {
	for _, state := range []api.AdmissionState{api.AdmissionStateWaitingCapacity, api.AdmissionStatePlacing, api.AdmissionStateAdmitted, api.AdmissionStateRunning, api.AdmissionStateReleasing} {
		limit := int64(1000)
		list, err := s.clients[who].Admissions(ctx, api.ListAdmissionsParams{State: state, Limit: &limit})
		if err != nil {
			return nil, err
		}
		all = append(all, list.Admissions...)
	}
	return all, nil
}

// set makes what a scenario begins with.
func (s *Stage) set(ctx context.Context, next *scene) (out Begun, err error) {
	setup := next.of.Setup
	if _, err := s.clients["operator"].OverridePool(ctx, poolName, max(setup.Cap, 1), time.Hour, "a scenario"); err != nil {
		return out, err
	}
	for i := range setup.Held {
		key := "held-" + strconv.Itoa(i)
		if _, err := s.clients["other"].Admit(ctx, api.AdmissionRequest{Key: key, Class: className}, client.Options{Wait: client.Once}); err != nil {
			return out, fmt.Errorf("hold slots: %w", err)
		}
		next.held = append(next.held, key)
	}
	if setup.Taken != "" {
		small := int64(256)
		q := api.AdmissionRequest{Key: setup.Taken, Class: className, MemoryMB: &small}
		if _, err := s.clients["caller"].Admit(ctx, q, client.Options{Wait: client.Once}); err != nil {
			return out, err
		}
	}
	if setup.Queued != "" {
		q := api.AdmissionRequest{Key: setup.Queued, Class: className, Mode: api.WaitModeQueue}
		if _, err := s.clients["caller"].Admit(ctx, q, client.Options{Wait: client.Once}); err != nil && !errors.Is(err, api.WaitingCapacity) {
			return out, err
		}
	}
	out.Ticket, err = s.ticketFor(ctx, setup.Ticket)
	return out, err
}

// ticketFor makes a ticket of a kind.
func (s *Stage) ticketFor(ctx context.Context, kind string) (string, error) {
	if kind == "" {
		return "", nil
	}
	a, err := s.clients["caller"].Admit(ctx, api.AdmissionRequest{Class: className}, client.Options{Wait: client.Once})
	if err != nil {
		return "", err
	}
	text := a.Ticket
	switch kind {
	case "forged":
		middle := len(text) - 20 // within its MAC
		flipped := byte('A')
		if text[middle] == flipped {
			flipped = 'B'
		}
		text = text[:middle] + string(flipped) + text[middle+1:]
	case "replayed":
		_, err = s.clients["substrate"].RedeemTicket(ctx, api.TicketRequest{Ticket: text, Instance: "somebody-elses"})
	case "released":
		err = s.release(ctx, "caller", a.ID)
	}
	return text, err
}

// start lets happen what happens by time.
func (s *Stage) start(next *scene) {
	next.mu.Lock()
	defer next.mu.Unlock()
	for _, e := range next.of.Events {
		if e.AfterRequests == 0 && e.AfterAnswers == 0 {
			e.AfterRequests = 1 // time runs from the first one on: a runner on a busy machine may be late
		}
		next.due = append(next.due, e)
	}
	for _, f := range next.of.Faults {
		if f.Do == "down" {
			s.takeDown(next, f)
		}
	}
	next.after.Go(func() { s.keepHeld(next) })
}

// takeDown shuts an address, and opens it again when the fault ends.
func (s *Stage) takeDown(of *scene, f Fault) {
	for _, front := range s.fronts {
		if f.Address != nil && *f.Address != front.at {
			continue
		}
		front.shut()
		if f.ForMS == 0 {
			continue
		}
		of.after.Go(func() {
			select {
			case <-time.After(time.Duration(f.ForMS) * time.Millisecond):
				_ = front.open() // begin opens it, if that failed
			case <-of.ctx.Done():
			}
		})
	}
}

// keepHeld keeps somebody else's slots alive.
func (s *Stage) keepHeld(of *scene) {
	for {
		select {
		case <-time.After(1500 * time.Millisecond):
		case <-of.ctx.Done():
			return
		}
		of.mu.Lock()
		keys := append([]string(nil), of.held...)
		of.mu.Unlock()
		for _, key := range keys {
			_, _ = s.clients["other"].Heartbeat(of.ctx, key) // one that was freed meanwhile is none
		}
	}
}

// do lets an event happen.
func (s *Stage) do(of *scene, e Event) {
	of.mu.Lock()
	n := min(e.Free, len(of.held))
	freed := of.held[:n]
	of.held = of.held[n:]
	text := of.ticket
	of.mu.Unlock()
	for _, key := range freed {
		_, _ = s.clients["other"].Release(of.ctx, key) // the judge sees what came of it
	}
	if !e.End {
		return
	}
	if e.Ran {
		_, _ = s.clients["substrate"].RedeemTicket(of.ctx, api.TicketRequest{Ticket: text, Instance: "a-sandbox"})
	}
	list, err := s.standing(of.ctx, "caller")
	if err != nil {
		return
	}
	for _, a := range list {
		_ = s.release(of.ctx, "operator", a.ID)
	}
}

// counted is how many first refusals came to a success, by the gate's own count.
func (s *Stage) counted(ctx context.Context) (int, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, s.replica.url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	return readCount(q, "plimsoll_first_refusal_to_success_seconds_count")
}

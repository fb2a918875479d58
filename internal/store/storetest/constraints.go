package storetest

import (
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/pool"
)

// Constraints has the schema refuse each row that pool.Row.Check refuses, however it got
// there. exec runs a statement beside the store.
func Constraints(t *testing.T, o Opened, exec func(statement string) error) {
	s := o.Open(t)
	Configure(t, s, OnePool(5, 5))
	c, err := s.Claim(t.Context(), newClaim(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.Settle(t.Context(), c.Row.ID, c.Row.Gen, "h1", time.Minute); err != nil || !ok {
		t.Fatal(ok, err)
	}
	const cloud = "host = '', audience = 'cloud', "
	for _, set := range []string{
		"host = ''",
		"audience = 'cloud', live_until = 1",
		"state = 'placing'",
		"epoch = 0",
		"gen = 0",
		cloud + "live_until = 0",
		cloud + "live_until = 1, epoch = 0",
		cloud + "live_until = 1, state = 'releasing'",
		cloud + "live_until = 1, state = 'released', ended_at = 1",
		"host = '', state = 'released', ended_at = 0",
		"host = '', state = 'released', ended_at = 1, place = 1",
		"host = '', state = 'placing', gen = 0, epoch = 0",
		"host = '', state = 'waiting_capacity', mode = 'queue', waiting_for = 'slot'",
		"host = '', state = 'waiting_capacity', mode = 'queue', place = 1",
		"host = '', state = 'waiting_capacity', place = 1, waiting_for = 'slot'",
		"state = 'running', running_at = 0",
		"state = 'sideways'",
	} {
		if exec("UPDATE admissions SET "+set) == nil {
			t.Errorf("%s: was stored", set)
		}
	}
	if err := exec("UPDATE admissions SET " + cloud + "live_until = 1"); err != nil {
		t.Error(err)
	}
	if r, ok, err := s.ByID(t.Context(), c.Row.ID); err != nil || !ok || r.State != pool.Admitted || r.Check() != nil {
		t.Errorf("%+v %v %v", r, ok, err)
	}
}

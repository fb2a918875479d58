package registry

import (
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/pool"
)

// Every deed in every state (T60: draining never turns back).
func TestStates(t *testing.T) {
	want := map[State][4]State{ // after cordon, uncordon, drain, bury; "" for illegal
		Active:   {Cordoned, Active, Draining, Buried},
		Cordoned: {Cordoned, Active, Draining, Buried},
		Draining: {"", "", Draining, Buried},
		Buried:   {"", "", "", Buried},
	}
	for s, after := range want {
		for i, d := range []Deed{Cordon, Uncordon, Drain, Bury} {
			if to, ok := s.After(d); ok != (after[i] != "") || ok && to != after[i] {
				t.Errorf("%s after %s: %s, %v", s, d, to, ok)
			}
		}
	}
	for s, text := range map[State]string{
		Active: "cordon, drain, bury", Cordoned: "uncordon, drain, bury", Draining: "bury", Buried: "nothing but to join anew",
	} {
		if s.Legal() != text {
			t.Errorf("%s: %s", s, s.Legal())
		}
	}
}

// To the millisecond, a host that was heard is not buried; nor one that nobody could have heard.
func TestBuryNobodyAlive(t *testing.T) {
	const silent = 30 * time.Second
	c := &Change{Host: "a", Deed: Bury, Silent: silent}
	at := func(ms int64) pool.Time { return pool.Time(100_000 + ms) }
	for _, test := range []struct {
		state             State
		held, now, listen int64
		want              Verdict
	}{
		{Active, 0, 29_999, -1000, Alive},
		{Active, 5, 30_000, -1000, Changed},
		{Cordoned, 0, 0, -1000, Alive},
		{Draining, 0, 0, -1000, Changed},
		{Draining, 1, 0, -1000, Alive},
		{Active, 1, 60_000, 31_000, Alive}, // nobody could hear before
		{Active, 1, 61_000, 31_000, Changed},
		{Buried, 0, 0, -1000, Same},
	} {
		h := &Host{ID: "a", State: test.state, HeardAt: at(0)}
		if v := Judge(c, h, test.held, at(test.now), at(test.listen)); v != test.want {
			t.Errorf("%+v: %s", test, v)
		}
	}
	if v := Judge(c, nil, 0, 0, 0); v != Unknown {
		t.Error(v)
	}
}

func TestJudgeJoin(t *testing.T) {
	free := &Token{ID: "t", ExpiresAt: 100}
	bound := &Token{ID: "t", ExpiresAt: 100, Host: "a"}
	active, buried, draining := &Host{ID: "a", State: Active}, &Host{ID: "a", State: Buried}, &Host{ID: "a", State: Draining}
	for i, test := range []struct {
		t    *Token
		h    *Host
		now  pool.Time
		want Entry
	}{
		{nil, nil, 0, NoToken},
		{free, nil, 99, Entered},
		{free, nil, 100, TokenOver},
		{free, active, 0, KnownHost},
		{free, buried, 0, Entered},
		{bound, active, 0, Entered},
		{&Token{ExpiresAt: 100, Host: "b"}, nil, 0, OtherHost},
		{&Token{ExpiresAt: 100, UsedAt: 5, UsedBy: "a"}, nil, 200, TokenUsed},
	} {
		if e := JudgeJoin(&Join{Host: "a"}, test.t, test.h, test.now); e != test.want {
			t.Errorf("%d: %s, want %s", i, e, test.want)
		}
	}
	// Nobody slips out of a drain by joining again; whoever was buried begins anew.
	if in := (&Join{Host: "a"}).Enter(bound, draining, 7, 9); in.State != Draining || in.Incarnation != 7 || bound.UsedBy != "a" {
		t.Errorf("%+v %+v", in, bound)
	}
	if in := (&Join{Host: "a"}).Enter(free, buried, 8, 9); in.State != Active {
		t.Errorf("%+v", in)
	}
}

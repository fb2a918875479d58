package observe_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/observe"
)

// What is only observed is learned from, too: after 30 runs of one size the report says what
// learned reserves would hold, beside the two modes, and the next observer goes on with it.
func TestObservedRunsAreLearnedFrom(t *testing.T) {
	held := map[string]int64{}
	for i := range 31 {
		held[fmt.Sprintf("vm%02d", i)] = 200
	}
	m := machine(t, held, nil)
	rules := observe.Rules{Parent: "/machine", Reserve: gate.DefaultReserveRule()}
	o := observe.New("h", m, rules)
	r, err := o.Look(time.Unix(1, 0))
	if err != nil || len(r.Learned) != 1 || r.Learned[0].Ended != 0 || len(r.Modes) != 2 {
		t.Fatalf("%+v %v", r.Learned, err)
	}
	for i := range 29 {
		os.RemoveAll(m.Memory().Dir(fmt.Sprintf("/machine/vm%02d", i)))
	}
	r, err = o.Look(time.Unix(2, 0))
	if err != nil || r.Learned[0].Ended != 29 || r.Learned[0].MeanMB != 200 || len(r.Modes) != 2 {
		t.Fatalf("after 29 runs: %+v %v", r.Learned, err)
	}
	dir := t.TempDir()
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	former, err := observe.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	o = observe.New("h", m, rules)
	o.Resume(&former)
	if r, err = o.Look(time.Unix(3, 0)); err != nil || r.Learned[0].Ended != 29 {
		t.Fatalf("the next observer: %+v %v", r.Learned, err)
	}
	os.RemoveAll(m.Memory().Dir("/machine/vm29"))
	if r, err = o.Look(time.Unix(4, 0)); err != nil || len(r.Modes) != 3 || r.Learned[0].ReserveMB != 200 {
		t.Fatalf("after 30 runs: %+v %+v %v", r.Learned, r.Modes, err)
	}
	if l := r.Modes[2]; l.Mode != "learned" || l.HeldMB != 200 || l.FitsMore <= 4*r.Modes[0].FitsMore {
		t.Errorf("%+v beside %+v", l, r.Modes[0])
	}
}

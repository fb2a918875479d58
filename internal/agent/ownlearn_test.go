package agent_test

import (
	"testing"

	"github.com/plimsoll-project/plimsoll/client/boot"
)

// A host alone learns for itself: after 30 runs of a template the next one that it admits is
// charged what those showed, unless its ask states a rule, also after a restart.
func TestAHostAloneLearns(t *testing.T) {
	r := startRig(t, alone)
	job := boot.Ask{MemoryMB: 512, Class: "job"}
	if got := r.reserveOwn(job); got.NeedMB != 512 {
		t.Fatalf("before anything ran it needs %d MiB", got.NeedMB)
	}
	for i := range 30 {
		got := r.reserveOwn(job)
		s := r.redeem(got.Ticket)
		c := startChild(t, "sleep", "1000")
		if err := s.Track(t.Context(), c.pid()); err != nil {
			t.Fatal(err)
		}
		r.eventually("it to be measured", func() bool {
			b, _ := r.sandbox(got.ID)
			return b.Peak > 0
		})
		c.Process.Kill()
		<-c.over
		if err := s.Done(t.Context(), "over"); err != nil {
			t.Error(err)
		}
		if i == 14 {
			r.restart()
		}
	}
	r.restart()
	got := r.reserveOwn(job)
	if got.NeedMB < 1 || got.NeedMB > 64 {
		t.Errorf("after 30 runs of sleep it needs %d MiB", got.NeedMB)
	}
	quarter := 0.25
	job.Reserve = &boot.ReserveRule{Fraction: &quarter}
	if got := r.reserveOwn(job); got.NeedMB != 512 {
		t.Errorf("with a rule of its own it needs %d MiB", got.NeedMB)
	}
	larger := r.reserveOwn(boot.Ask{MemoryMB: 1024, Class: "job"})
	if larger.NeedMB != 512 {
		t.Errorf("one of a size that never ran needs %d MiB", larger.NeedMB)
	}
}

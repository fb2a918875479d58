package agent_test

import (
	"testing"

	"github.com/plimsoll-project/plimsoll/api"
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
			r.lesson(api.TemplateStanding{State: api.ReserveStatePrior, Runs: 15, ReserveMB: 512})
		}
	}
	r.restart()
	got := r.reserveOwn(job)
	if got.NeedMB < 1 || got.NeedMB > 64 {
		t.Errorf("after 30 runs of sleep it needs %d MiB", got.NeedMB)
	}
	r.lesson(api.TemplateStanding{State: api.ReserveStateLearned, Runs: 30, ReserveMB: got.NeedMB})
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

// lesson is what the host says at its socket to have learned of the one class that it admits.
func (r *rig) lesson(want api.TemplateStanding) {
	r.t.Helper()
	list, err := r.boot.Classes(r.t.Context())
	if err != nil || len(list.Classes) != 1 || len(list.Classes[0].Templates) != 1 || list.Hosts != 1 {
		r.t.Fatalf("%+v %v", list, err)
	}
	got := list.Classes[0].Templates[0]
	if list.Classes[0].Name != "job" || got.State != want.State || got.Runs != want.Runs || got.ReserveMB != want.ReserveMB || got.ConfiguredMB != 512 {
		r.t.Errorf("it says %+v, want %+v", got, want)
	}
	if got.WouldAdmit.Rule < got.WouldAdmit.Committed {
		r.t.Errorf("%+v", got.WouldAdmit)
	}
}

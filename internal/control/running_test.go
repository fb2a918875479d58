package control_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/pool"
)

// outOfGate is the gauge; -1 when it is not there.
func (r *rig) outOfGate() int {
	r.t.Helper()
	families, err := r.metrics.Gather()
	r.must(err)
	for _, f := range families {
		if f.GetName() == "plimsoll_out_of_gate" {
			return int(f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	return -1
}

// TestLongReports: as many slots as a report may name, in several transactions, and only so
// much of it in the answer.
func TestLongReports(t *testing.T) {
	const many, made = 1200, 1001
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.stop()
		r.apply(strings.Replace(cloudDocument, "name: cloud, cap: 1", "name: cloud, cap: none", 1))
		var q api.RunningReport
		for i := range many {
			c, err := r.store.Claim(t.Context(), pool.Claim{ID: fmt.Sprint("adm-", i), Consumer: "alice", Key: fmt.Sprint("k", i), Pool: "cloud", Mode: pool.Refuse})
			r.must(err)
			q.Running = append(q.Running, api.RunningSandbox{ID: c.Row.ID})
		}
		for i := range made {
			q.Running = append(q.Running, api.RunningSandbox{ID: fmt.Sprint("made-up-", i)})
		}
		_, err := r.g.Running(t.Context(), root, "cloud", api.RunningReport{Running: make([]api.RunningSandbox, 10_001)})
		if refusal, ok := api.AsRefusal(err); !ok || refusal.Code != api.InvalidRequest || !strings.Contains(refusal.Detail, "10000") {
			t.Error(err)
		}
		v, err := r.g.Running(t.Context(), root, "cloud", q)
		r.must(err)
		if v.Renewed != many || v.OutOfGateCount != made || len(v.OutOfGate) != 1000 {
			t.Errorf("renewed %d, out of gate %d, named %d", v.Renewed, v.OutOfGateCount, len(v.OutOfGate))
		}
		v, err = r.g.Running(t.Context(), root, "cloud", api.RunningReport{Complete: true})
		r.must(err)
		if v.MissingCount != many || len(v.Missing) != 1000 || v.Missing[0].ID == "" {
			t.Errorf("missing %d, named %d", v.MissingCount, len(v.Missing))
		}
	})
}

// TestAReportIsNoFactForEver: once nobody has said for the life of a slot what runs, nothing
// is said of it (T52).
func TestAReportIsNoFactForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.stop()
		r.apply(cloudDocument)
		if n := r.outOfGate(); n != -1 {
			t.Errorf("before any report: %d", n)
		}
		_, err := r.g.Running(t.Context(), root, "cloud", api.RunningReport{Running: []api.RunningSandbox{{ID: "adm-none"}}})
		r.must(err)
		for _, c := range []struct {
			in   time.Duration
			want int
		}{{0, 1}, {pool.DefaultSlotTTL - time.Second, 1}, {time.Second, -1}} {
			time.Sleep(c.in)
			if n := r.outOfGate(); n != c.want {
				t.Errorf("after %v: %d, want %d", c.in, n, c.want)
			}
		}
	})
}

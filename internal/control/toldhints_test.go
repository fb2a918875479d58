package control_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/pool"
)

// hintErrors returns count and sum of plimsoll_retry_after_error_ratio by "mode turn".
func hintErrors(t testing.TB, m *prometheus.Registry) map[string][2]float64 {
	t.Helper()
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][2]float64{}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			if h := one.GetHistogram(); f.GetName() == "plimsoll_retry_after_error_ratio" {
				labels := one.GetLabel() // by name: mode, pool, turn
				out[labels[0].GetValue()+" "+labels[2].GetValue()] = [2]float64{float64(h.GetSampleCount()), h.GetSampleSum()}
			}
		}
	}
	return out
}

// Who was refused is judged by what it was told first, over all its attempts and at whichever
// replica: the last it was told, it came for, and that is always about right.
func TestHintOfWhoWasRefusedIsJudged(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.admit("k0", "solo")
		receipt, first := "", time.Duration(0)
		for range 3 {
			_, err := r.post("k1", "solo", func(q *api.AdmissionRequest) { q.Receipt = receipt })
			refusal, _ := api.AsRefusal(err)
			receipt = refusal.Receipt
			if first == 0 {
				first = refusal.RetryAfter.Truncate(time.Millisecond)
			}
			time.Sleep(4 * time.Second)
		}
		r.release("k0")
		r.admit("k1", "solo", func(q *api.AdmissionRequest) { q.Receipt = receipt })
		want := float64(12*time.Second-first) / float64(first)
		got := hintErrors(t, r.metrics)["refuse later"]
		if got[0] != 1 || math.Abs(got[1]-want) > 0.01 {
			t.Errorf("told %v, took 12 s: %v, want one of %v", first, hintErrors(t, r.metrics), want)
		}
	})
}

// A place in the line is judged by the first turn that was told with it, sooner or later.
func TestHintOfAPlaceIsJudged(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		for i, took := range []time.Duration{100 * time.Millisecond, 9 * time.Second} {
			holder, key := fmt.Sprint("holder", i), fmt.Sprint("waiter", i)
			r.admit(holder, "solo")
			out, err := r.post(key, "solo", func(q *api.AdmissionRequest) { q.Mode = api.WaitModeQueue })
			r.must(err)
			told := time.Duration(out.Waiting.RetryAfterMS) * time.Millisecond
			poll := r.poll(r.t.Context(), key, 30*time.Second)
			time.Sleep(took)
			r.release(holder)
			r.answered(poll, "yes")
			r.release(key)
			turn := "queue sooner"
			if took > told {
				turn = "queue later"
			}
			got, want := hintErrors(t, r.metrics)[turn], math.Abs(float64(took-told))/float64(told)
			if got[0] != 1 || math.Abs(got[1]-want) > 0.01 {
				t.Errorf("told %v, took %v: %v, want one %s of %v", told, took, hintErrors(t, r.metrics), turn, want)
			}
		}
		r.wantHeld(0, 0, 0)
	})
}

// Who was told nothing has nothing to be judged by, and is judged once if it was.
func TestNoHintIsNotJudged(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.admit("k0", "solo")
		r.admit("k1", "small", func(q *api.AdmissionRequest) { q.Receipt = "garbage" })
		r.wait("k2", "solo", pool.ForSlot)
		r.release("k0")
		r.answered(r.poll(r.t.Context(), "k2", time.Second), "yes")
		r.answered(r.poll(r.t.Context(), "k2", time.Second), "yes")
		all := 0.0
		for _, one := range hintErrors(t, r.metrics) {
			all += one[0]
		}
		if all != 1 {
			t.Errorf("%v judged: %v", all, hintErrors(t, r.metrics))
		}
	})
}

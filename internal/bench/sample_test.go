package bench

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

// TestSample: every sandbox is measured in each way that this machine has, an agent is looked at,
// and nothing is left behind.
func TestSample(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r, err := Sample(ctx, SampleOptions{Sandboxes: 12, Samples: 3, Watched: 5, For: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for i, by := range []string{"cgroup", "process", "smaps_rollup"} {
		w := r.Ways[i]
		if w.By != by || w.Missing == "" && w.CPUP50MS <= 0 || w.Missing != "" && by == "process" {
			t.Errorf("%+v", w)
		}
	}
	if r.Ways[1].LimitsUS <= 0 || os.Geteuid() == 0 && r.Ways[0].Missing != "" && r.Layout != "no cgroups" {
		t.Errorf("%+v", r.Ways)
	}
	if a := r.Agent; a == nil || a.Sandboxes != 5 || a.ResidentMB <= 1 || a.PeakMB < a.ResidentMB {
		t.Errorf("%+v", a)
	}
	var out bytes.Buffer
	if err := r.Print(&out); err != nil || !strings.Contains(out.String(), "MiB resident") {
		t.Errorf("%s (%v)", &out, err)
	}
}

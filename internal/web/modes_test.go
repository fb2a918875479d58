package web_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

const inShadow, inForce = api.ModeRequestModeShadow, api.ModeRequestModeEnforce

// TestModes: a pool, or all, is taken out of force and put back: what would have been refused
// is granted, told and counted, and afterwards the cap holds again.
func TestModes(t *testing.T) {
	r := newCloud(t)
	olga := r.sdk("olga")
	r.admit("eve", "k1", "one")
	r.refused(api.PoolFull, "eve", "POST", "/v1/admissions", `{"key":"k2","class":"one"}`)
	report, err := olga.SetMode(t.Context(), api.ModeRequest{Mode: inShadow, Scope: "pool", Name: "solo", Reason: "a fair"})
	r.must(err)
	i := slices.IndexFunc(report.Pools, func(m api.ModeOf) bool { return m.Name == "solo" })
	if p := report.Pools[i]; p.Enforcement != api.EnforcementShadow || p.Configured != api.EnforcementEnforce || len(report.Orders) != 1 {
		t.Errorf("%+v", report)
	}
	a := r.admit("eve", "k2", "one")
	if a.Enforcement != api.EnforcementShadow || !slices.Equal(a.WouldRefuse, []string{"pool_full"}) {
		t.Errorf("%+v", a)
	}
	if again := r.admit("eve", "k2", "one"); again.WouldRefuse != nil || again.Enforcement != api.EnforcementShadow {
		t.Errorf("asked again: %+v", again)
	}
	if p := r.pool("chat", "solo"); p.Busy != 2 || p.Cap != 1 || p.Enforcement != api.EnforcementShadow || p.WouldRefuse["pool_full"] != 1 {
		t.Errorf("%+v", p)
	}
	if out := string(r.call("", "GET", "/metrics", "").Body); !strings.Contains(out, `plimsoll_would_refuse_total{class="one",consumer="eve",pool="solo",reason="pool_full"} 1`) {
		t.Error("not counted:", out)
	}
	_, err = olga.SetMode(t.Context(), api.ModeRequest{Mode: inShadow, Scope: "all", Reason: "worse"})
	r.must(err)
	r.modeOfAll()
	report, err = olga.SetMode(t.Context(), api.ModeRequest{Mode: inForce, Scope: "all", Reason: "it is over"})
	r.must(err)
	if len(report.Orders) != 0 || slices.ContainsFunc(report.Pools, func(m api.ModeOf) bool { return m.Enforcement != api.EnforcementEnforce }) {
		t.Errorf("%+v", report)
	}
	r.refused(api.PoolFull, "eve", "POST", "/v1/admissions", `{"key":"k3","class":"one"}`)
	deeds, err := olga.Audit(t.Context(), 3)
	r.must(err)
	var told []string
	for _, d := range deeds.Deeds {
		told = append(told, d.By+": "+d.What+" ("+d.Reason+")")
	}
	if want := []string{"olga: mode enforce --all (it is over)", "olga: mode shadow --all (worse)", "olga: mode shadow --pool solo (a fair)"}; !slices.Equal(told, want) {
		t.Errorf("%q", told)
	}
	for _, bad := range []string{`"scope":"pod"`, `"scope":"all","name":"x"`} {
		r.refused(api.InvalidRequest, "olga", "POST", "/v1/mode", `{"mode":"shadow","reason":"r",`+bad+`}`)
	}
	r.refused(api.InvalidRequest, "olga", "POST", "/v1/mode", `{"mode":"observe","scope":"all","reason":"r"}`)
	r.refused(api.NotFound, "olga", "POST", "/v1/mode", `{"mode":"shadow","scope":"host","name":"h9","reason":"r"}`)
	r.refused(api.NotFound, "olga", "POST", "/v1/mode", `{"mode":"shadow","scope":"pool","name":"p9","reason":"r"}`)
}

// modeOfAll is refused: one thing alone, while all is in shadow.
func (r *rig) modeOfAll() {
	r.t.Helper()
	r.refused(api.ModeOfAll, "olga", "POST", "/v1/mode", `{"mode":"enforce","scope":"pool","name":"solo","reason":"r"}`)
}

// TestModesOfHosts: a host in shadow takes what does not fit, and says so; put back, it
// promises nothing until it is below its line. A bypass is the host's own.
func TestModesOfHosts(t *testing.T) {
	r := newRig(t, options{})
	olga := r.sdk("olga")
	_, err := olga.SetMode(t.Context(), api.ModeRequest{Mode: inShadow, Scope: "all", Reason: "an incident"})
	r.must(err)
	h, err := olga.Host(t.Context(), "h1")
	r.must(err)
	if h.Enforcement != api.EnforcementShadow {
		t.Errorf("%+v", h)
	}
	b, err := olga.BypassHost(t.Context(), "h1", time.Minute, "the store burns")
	r.must(err)
	if !b.Active || b.By != "olga" || b.ForMS <= 0 || b.ForMS > time.Minute.Milliseconds() {
		t.Errorf("%+v", b)
	}
	if b, err = olga.BypassHost(t.Context(), "h1", 0, "it is out"); err != nil || b.Active {
		t.Errorf("%+v %v", b, err)
	}
	r.refused(api.NotFound, "olga", "POST", "/v1/hosts/nowhere/bypass", `{"for_ms":1000,"reason":"r"}`)
	r.refused(api.InvalidRequest, "olga", "POST", "/v1/hosts/h1/bypass", `{"for_ms":86400001,"reason":"r"}`)
	_, err = olga.SetMode(t.Context(), api.ModeRequest{Mode: inForce, Scope: "all", Reason: "it is over"})
	r.must(err)
	if h, err = olga.Host(t.Context(), "h1"); err != nil || h.Enforcement != api.EnforcementEnforce {
		t.Errorf("%+v %v", h, err)
	}
}

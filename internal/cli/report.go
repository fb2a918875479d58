package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// report shows an error and returns the exit status.
func (a *app) report(err error) int {
	var status exited
	if err == nil {
		return 0
	}
	if errors.As(err, &status) {
		return int(status)
	}
	v := judge(err)
	if a.json() {
		writeVerdictJSON(a.stderr, v)
	} else {
		writeVerdict(a.stderr, v)
	}
	return v.status
}

// writeVerdict writes what is the matter on one line, and what to do on another. A document
// with several faults takes a line for each.
func writeVerdict(w io.Writer, v verdict) {
	parts := []string{"plimsoll"}
	for _, part := range []string{v.word, string(v.code), v.detail} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	fmt.Fprintln(w, strings.ReplaceAll(plain(strings.Join(parts, ": ")), "\n", "\n  "))
	if v.try != "" {
		fmt.Fprintln(w, "try: "+strings.ReplaceAll(plain(v.try), "\n", " "))
	}
}

func writeVerdictJSON(w io.Writer, v verdict) {
	out := map[string]any{"exit_status": v.status, "detail": v.detail}
	set := func(name, value string) {
		if value != "" {
			out[name] = value
		}
	}
	set("verdict", v.word)
	set("code", string(v.code))
	set("try", v.try)
	if d := v.denied; d != nil {
		out["need_mb"], out["admittable_mb"] = d.NeedMB, d.AdmittableMB
		set("intake", d.Intake)
	}
	if r := v.refusal; r != nil {
		out["scope"], out["figures"] = r.WhoseNo(), r.Figures
		set("decision_id", r.DecisionID)
		if r.RetryAfter > 0 {
			out["retry_after_ms"] = r.RetryAfter.Milliseconds()
		}
	}
	writeJSON(w, out)
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

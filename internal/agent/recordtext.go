package agent

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// This file writes a record as encoding/json would, byte for byte, for much less:
// the agent writes one for each promise. What is rare in a record is left to encoding/json.

// appendRecord adds a record's JSON to a text.
func appendRecord(b []byte, r *host.Record) []byte {
	w := writer{append(b, `{"kind":`...)}
	w.text(string(r.Kind))
	w.b = append(w.b, `,"id":`...)
	w.text(r.ID)
	w.b = append(w.b, `,"epoch":`...)
	w.b = strconv.AppendInt(w.b, r.Epoch, 10)
	w.yes(`,"gone":`, r.Gone)
	w.number(`,"state":`, int64(r.State))
	w.number(`,"need":`, int64(r.Need))
	w.number(`,"until":`, int64(r.Until))
	w.yes(`,"reopened":`, r.Reopened)
	w.ask(&r.Ask)
	w.identity(&r.Identity)
	w.words(`,"phase":`, string(r.Phase))
	rare(&w, `,"process":`, &r.Process)
	w.number(`,"redeemed":`, int64(r.Redeemed))
	w.number(`,"turn":`, r.Turn)
	w.number(`,"tracked":`, int64(r.Tracked))
	w.yes(`,"stopping":`, r.Stopping)
	w.yes(`,"superseded":`, r.Superseded)
	w.words(`,"waiver":`, string(r.Waiver))
	w.words(`,"how":`, string(r.How))
	w.words(`,"reason":`, r.Reason)
	w.yes(`,"unbooted":`, r.Unbooted)
	w.number(`,"intake":`, int64(r.Intake))
	w.number(`,"enforcement":`, int64(r.Enforcement))
	rare(&w, `,"bypass":`, &r.Bypass)
	rare(&w, `,"deed":`, &r.Deed)
	return append(w.b, '}')
}

// writer adds fields to a text; those that say nothing are left out.
type writer struct{ b []byte }

func (w *writer) yes(name string, v bool) {
	if v {
		w.b = append(append(w.b, name...), "true"...)
	}
}

func (w *writer) number(name string, v int64) {
	if v != 0 {
		w.b = strconv.AppendInt(append(w.b, name...), v, 10)
	}
}

func (w *writer) words(name, v string) {
	if v != "" {
		w.b = append(w.b, name...)
		w.text(v)
	}
}

// text adds a string in quotes. One with anything unusual in it is left to encoding/json.
func (w *writer) text(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			w.any(s)
			return
		}
	}
	w.b = append(append(append(w.b, '"'), s...), '"')
}

// any adds what a record may hold of any type; all of them can be written.
func (w *writer) any(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.b = append(w.b, text...)
}

// rare adds a part that most records lack.
func rare[T comparable](w *writer, name string, v *T) {
	var none T
	if *v != none {
		w.b = append(w.b, name...)
		w.any(*v)
	}
}

func (w *writer) identity(i *host.Identity) {
	if *i == (host.Identity{}) {
		return
	}
	w.b = append(w.b, `,"identity":{"consumer":`...)
	w.text(i.Consumer)
	w.b = append(w.b, `,"key":`...)
	w.text(i.Key)
	w.words(`,"tenant":`, i.Tenant)
	w.b = append(w.b, `,"pool":`...)
	w.text(i.Pool)
	w.b = append(w.b, `,"class":`...)
	w.text(i.Class)
	w.b = append(w.b, '}')
}

func (w *writer) ask(a *gate.Ask) {
	if a.Class == "" && a.Template == "" && a.Memory == 0 && a.CPUMilli == 0 && a.Priority == 0 && !a.Stateful &&
		a.Rule == (gate.ReserveRule{}) && a.Dims == nil && a.Labels == nil && !a.HoldOnExit {
		return
	}
	w.b = append(w.b, `,"ask":{"Class":`...)
	w.text(a.Class)
	w.b = append(w.b, `,"Template":`...)
	w.text(a.Template)
	w.figure(`,"Memory":`, int64(a.Memory))
	w.figure(`,"CPUMilli":`, a.CPUMilli)
	w.figure(`,"Priority":`, int64(a.Priority))
	w.flag(`,"Stateful":`, a.Stateful)
	w.figure(`,"Rule":{"Permille":`, a.Rule.Permille)
	w.figure(`,"Floor":`, int64(a.Rule.Floor))
	w.figure(`,"Until":`, int64(a.Rule.Until))
	w.figure(`,"SettleAfter":`, int64(a.Rule.SettleAfter))
	w.b = append(w.b, `},"Dims":`...)
	list(w, a.Dims)
	w.b = append(w.b, `,"Labels":`...)
	list(w, a.Labels)
	w.flag(`,"HoldOnExit":`, a.HoldOnExit)
	w.b = append(w.b, '}')
}

func (w *writer) figure(name string, v int64) {
	w.b = strconv.AppendInt(append(w.b, name...), v, 10)
}

func (w *writer) flag(name string, v bool) {
	w.b = strconv.AppendBool(append(w.b, name...), v)
}

func list[T any](w *writer, v []T) {
	if v == nil {
		w.b = append(w.b, "null"...)
		return
	}
	w.any(v)
}

package agent

import (
	"strconv"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/jsontext"
)

// This file writes a record as encoding/json would, byte for byte, for much less:
// the agent writes one for each promise. What is rare in a record is left to encoding/json.

// appendRecord adds a record's JSON to a text.
func appendRecord(b []byte, r *host.Record) []byte {
	b = jsontext.String(append(b, `{"kind":`...), string(r.Kind))
	b = jsontext.String(append(b, `,"id":`...), r.ID)
	b = figure(b, `,"epoch":`, r.Epoch)
	b = jsontext.Yes(b, `,"gone":`, r.Gone)
	b = jsontext.Number(b, `,"state":`, int64(r.State))
	b = jsontext.Number(b, `,"need":`, int64(r.Need))
	b = jsontext.Number(b, `,"until":`, int64(r.Until))
	b = jsontext.Yes(b, `,"reopened":`, r.Reopened)
	b = appendAsk(b, &r.Ask)
	b = appendIdentity(b, &r.Identity)
	b = jsontext.Words(b, `,"phase":`, string(r.Phase))
	b = rare(b, `,"process":`, &r.Process)
	b = jsontext.Number(b, `,"redeemed":`, int64(r.Redeemed))
	b = jsontext.Number(b, `,"turn":`, r.Turn)
	b = jsontext.Number(b, `,"tracked":`, int64(r.Tracked))
	b = jsontext.Yes(b, `,"stopping":`, r.Stopping)
	b = jsontext.Yes(b, `,"superseded":`, r.Superseded)
	b = jsontext.Words(b, `,"waiver":`, string(r.Waiver))
	b = jsontext.Number(b, `,"peak":`, int64(r.Peak))
	b = jsontext.Words(b, `,"evicting":`, r.Evicting)
	b = jsontext.Words(b, `,"how":`, string(r.How))
	b = jsontext.Words(b, `,"reason":`, r.Reason)
	b = jsontext.Yes(b, `,"unbooted":`, r.Unbooted)
	b = jsontext.Number(b, `,"intake":`, int64(r.Intake))
	b = jsontext.Number(b, `,"enforcement":`, int64(r.Enforcement))
	b = rare(b, `,"bypass":`, &r.Bypass)
	b = rare(b, `,"deed":`, &r.Deed)
	b = rare(b, `,"kills":`, &r.Kills)
	if r.Seen != nil {
		b = jsontext.Any(append(b, `,"seen":`...), r.Seen)
	}
	return append(b, '}')
}

// rare adds a part that most records lack.
func rare[T comparable](b []byte, name string, v *T) []byte {
	var none T
	if *v == none {
		return b
	}
	return jsontext.Any(append(b, name...), *v)
}

func appendIdentity(b []byte, i *host.Identity) []byte {
	if *i == (host.Identity{}) {
		return b
	}
	b = jsontext.String(append(b, `,"identity":{"consumer":`...), i.Consumer)
	b = jsontext.String(append(b, `,"key":`...), i.Key)
	b = jsontext.Words(b, `,"tenant":`, i.Tenant)
	b = jsontext.String(append(b, `,"pool":`...), i.Pool)
	b = jsontext.String(append(b, `,"class":`...), i.Class)
	return append(b, '}')
}

func appendAsk(b []byte, a *gate.Ask) []byte {
	if a.Class == "" && a.Template == "" && a.Memory == 0 && a.CPUMilli == 0 && a.Priority == 0 && !a.Stateful &&
		a.Rule == (gate.ReserveRule{}) && a.Dims == nil && a.Labels == nil && !a.HoldOnExit {
		return b
	}
	b = jsontext.String(append(b, `,"ask":{"Class":`...), a.Class)
	b = jsontext.String(append(b, `,"Template":`...), a.Template)
	b = figure(b, `,"Memory":`, int64(a.Memory))
	b = figure(b, `,"CPUMilli":`, a.CPUMilli)
	b = figure(b, `,"Priority":`, int64(a.Priority))
	b = strconv.AppendBool(append(b, `,"Stateful":`...), a.Stateful)
	b = figure(b, `,"Rule":{"Permille":`, a.Rule.Permille)
	b = figure(b, `,"Floor":`, int64(a.Rule.Floor))
	b = figure(b, `,"Until":`, int64(a.Rule.Until))
	b = figure(b, `,"SettleAfter":`, int64(a.Rule.SettleAfter))
	b = figure(b, `,"Learned":`, int64(a.Rule.Learned))
	b = list(append(b, `},"Dims":`...), a.Dims)
	b = list(append(b, `,"Labels":`...), a.Labels)
	b = strconv.AppendBool(append(b, `,"HoldOnExit":`...), a.HoldOnExit)
	return append(b, '}')
}

func figure(b []byte, name string, v int64) []byte {
	return strconv.AppendInt(append(b, name...), v, 10)
}

func list[T any](b []byte, v []T) []byte {
	if v == nil {
		return append(b, "null"...)
	}
	return jsontext.Any(b, v)
}

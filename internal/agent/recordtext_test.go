package agent

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// fill sets every field below v, each to nothing in one of three cases.
func fill(v reflect.Value, r *rand.Rand) {
	if r.IntN(3) == 0 {
		return
	}
	if noted, ok := v.Addr().Interface().(**host.Noted); ok { // what was learned has no fields to be set
		*noted = &host.Noted{Seen: host.Seen{Class: "<c>", Template: "t", Size: gate.MiB}, Alone: true}
		(*noted).Runs.Ended(gate.MiB, gate.MiB)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), r)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
		for i := range v.Len() {
			fill(v.Index(i), r)
		}
	case reflect.String:
		words := []string{"bench-17", "", "a\"b", "<a&b>", "\u2028é", "\xff", "\n", "back\\slash"}
		v.SetString(words[r.IntN(len(words))])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(r.Uint64()) >> r.IntN(64))
	case reflect.Uint64, reflect.Uint8:
		v.SetUint(r.Uint64() >> r.IntN(64))
	default:
		panic("a field of a kind that nobody fills: " + v.Type().String())
	}
}

// A record's text is that of encoding/json, byte for byte, whatever its fields hold, so that
// every version reads every other's.
func TestRecordTextEqualsJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var record host.Record
		fill(reflect.ValueOf(&record).Elem(), r)
		want, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendRecord(nil, &record); string(got) != string(want) {
			t.Fatalf("%s\nwant %s", got, want)
		}
	}
}

func BenchmarkAppendRecord(b *testing.B) {
	record := host.Record{Kind: host.RecordReservation, ID: "adm-1", Epoch: 1, Identity: host.Identity{Consumer: "c", Key: "k"}}
	var text []byte
	for b.Loop() {
		text = appendRecord(text[:0], &record)
	}
}

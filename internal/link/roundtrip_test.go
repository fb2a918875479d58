package link

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	agentv1 "github.com/plimsoll-project/plimsoll/proto/plimsoll/agent/v1"
)

// fill gives every field of a value something of its own, so that one which a frame forgets
// is missed.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(fmt.Sprint("word", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(uint64(*n%3 + 1))
	case reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	default:
		panic("what is " + v.Type().String())
	}
}

func full[T any]() T {
	var v T
	n := 0
	fill(reflect.ValueOf(&v).Elem(), &n)
	return v
}

// wire sends a message through its bytes.
func wire[M proto.Message](t *testing.T, m M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	out := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(b, out); err != nil {
		t.Fatal(err)
	}
	return out.(M)
}

func same[T any](t *testing.T, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(host.Sandbox{})); diff != "" {
		t.Errorf("%T came out otherwise (-in +out):\n%s", want, diff)
	}
}

// TestRoundTrip sends every kind of word with every field set: a field that package host
// gains and the protocol does not fails here.
func TestRoundTrip(t *testing.T) {
	for _, ev := range []host.Event{
		full[host.Reserve](), full[host.Renew](), full[host.Release](), full[host.SetIntake](),
		full[host.Stand](), full[host.Unstand](), full[host.Acked](),
		full[host.SetEnforcement](), full[host.SetBypass](), full[host.AckedDeed](),
		host.Reserve{},
		host.Release{},
	} {
		a, err := askOf(ev)
		if err != nil {
			t.Fatal(err)
		}
		got, err := eventOf(wire(t, a))
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, ev)
	}
	for _, own := range []host.Event{host.Redeem{}, host.Track{}, host.Done{}, host.Boot{}, host.Sample{}, host.Tick{}} {
		if _, err := askOf(own); err == nil {
			t.Errorf("%T is sent", own)
		}
	}
	verdict := full[host.Verdict]()
	var says speaker
	hears := listener{host: verdict.Host}
	same(t, hears.verdict(wire(t, says.verdict(&verdict))), verdict)
	a := full[host.Answer]()
	same(t, answerFrom(wire(t, answerOf(&a)), a.Verdict), a)
	held := full[host.Held]()
	same(t, heldFrom(wire(t, heldOf(&held))), held)
	placed := full[host.Placed]()
	same(t, placedFrom(wire(t, placedOf(&placed))), placed)
	lore := host.Lore{Incarnation: 7, More: true, Seen: []host.Seen{full[host.Seen](), {}}}
	lore.Seen[0].Runs.Ended(300*gate.MiB, 200*gate.MiB)
	lore.Seen[0].Runs.Sampled(100*gate.MiB, 7)
	got, err := loreFrom(wire(t, loreOf(&lore)))
	if err != nil || !reflect.DeepEqual(got, lore) {
		t.Errorf("%v: %+v came out as %+v", err, lore, got)
	}
	v := full[host.View]()
	same(t, viewFrom(wire(t, viewOf(&v)), v.Verdict), v)
}

// TestFactsAreSaidOnce: labels and capacities travel when they are new, and hold until then.
func TestFactsAreSaidOnce(t *testing.T) {
	v := full[host.Verdict]()
	var says speaker
	hears := listener{host: v.Host}
	for i := range 4 {
		v.Sequence++
		if i == 2 {
			v.Labels = []gate.Label{{Name: "zone", Value: "b"}}
		}
		f := wire(t, says.verdict(&v))
		if said := f.GetFacts() != nil; said != (i == 0 || i == 2) {
			t.Errorf("verdict %d: facts said: %v", i, said)
		}
		same(t, hears.verdict(f), v)
	}
}

// TestUnknownWords: what a newer end says is not taken for something that is known.
func TestUnknownWords(t *testing.T) {
	if _, err := eventOf(&agentv1.Ask{Id: 1}); err != errUnknownAsk {
		t.Error(err)
	}
	ev, err := eventOf(&agentv1.Ask{What: &agentv1.Ask_SetIntake{SetIntake: &agentv1.SetIntake{Intake: 256}}})
	if err != nil || ev.(host.SetIntake).Intake == host.IntakeOpen {
		t.Errorf("an intake of 256 is %v, %v", ev, err)
	}
	hears := listener{host: "h1"}
	if v := hears.verdict(&agentv1.Verdict{Intake: -256}); v.Intake == host.IntakeOpen {
		t.Errorf("an intake of -256 is %v", v.Intake)
	}
	f, err := proto.Marshal(&agentv1.Hello{Major: Major, Nonce: newNonce(), Host: "h1", Replica: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	var hello agentv1.Hello
	if err := proto.Unmarshal(append(f, 0xf8, 0x7f, 1), &hello); err != nil { // field 2047
		t.Fatal(err)
	}
	if err := checkHello(&hello); err != nil {
		t.Error("a hello with a field of a newer version:", err)
	}
}

package ticket_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/plimsoll-project/plimsoll/ticket"
)

var mutations = flag.Int("mutations", 150_000, "mutated tickets to try; 10000000 for a release")

// TestMutatedTicketsAreNeverAccepted flips every bit of many tickets' texts, and cuts, doubles,
// swaps and splices them, until the wanted number was tried (targets.md row 11).
func TestMutatedTicketsAreNeverAccepted(t *testing.T) {
	k := ring(t, "a", "a", "b")
	host, elsewhere := audience(t, k, "host-1"), audience(t, k, "host-2")
	rng := rand.New(rand.NewPCG(1, 2))
	v, e := new(ticket.View), new(ticket.Expect)
	tried := 0
	try := func(good, text string) {
		if text == good {
			return
		}
		tried++
		if r := host.VerifyView(v, ticket.Text(text), e); r == ticket.OK {
			t.Fatalf("accepted %q, a mutation of %q", text, good)
		}
		if v.AdmissionID != nil || v.Epoch != 0 {
			t.Fatal("a refused ticket left claims behind")
		}
	}
	for tried < *mutations {
		c := sample()
		c.Epoch, c.Key = rng.Int64N(1<<40), c.Key[:rng.IntN(len(c.Key))]
		good := mint(t, host, c).Reveal()
		other := mint(t, elsewhere, c).Reveal()
		flipEveryBit(good, try)
		reshape(good, other, rng, try)
	}
	t.Logf("%d mutations refused", tried)
}

func flipEveryBit(good string, try func(good, text string)) {
	b := []byte(good)
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			try(good, string(b))
			b[i] ^= 1 << bit
		}
	}
}

func reshape(good, other string, rng *rand.Rand, try func(good, text string)) {
	for i := range good {
		try(good, good[:i])
		try(good, good[i+1:])
		try(good, good[:i]+good[i+1:])
		try(good, good[:i]+good[i:i+1]+good[i:])
		try(good, good[:i]+other[i:])
		j := rng.IntN(len(good))
		b := []byte(good)
		b[i], b[j] = b[j], b[i]
		try(good, string(b))
	}
}

func FuzzArbitraryTextNeverVerifies(f *testing.F) {
	host := audience(f, ring(f, "a", "a"), "host-1")
	good := mint(f, host, sample()).Reveal()
	f.Add("")
	f.Add("plm1.")
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add("plm1.AQFhBmhvc3QtMQ")
	f.Add(good + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := host.Verify(ticket.Text(text), ticket.Expect{})
		if (err == nil) != (text == good) {
			t.Fatalf("%q: %v", text, err)
		}
		if err != nil && c != (ticket.Claims{}) {
			t.Fatal("a refusal carries claims")
		}
	})
}

func FuzzKeysFiles(f *testing.F) {
	k := ring(f, "a", "a", "b")
	ks := audience(f, k, "host-1")
	file, _ := k.EncodeFile()
	hostFile, _ := ks.EncodeFile()
	f.Add(file)
	f.Add(hostFile)
	f.Add([]byte(`{"version":1,"roots":[]}`))
	f.Add([]byte(`{"version":1,"roots":[{"id":"a","state":"signing","secret":"AAAA"}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if k, err := ticket.ParseKeyring(data); err == nil {
			again, err := k.EncodeFile()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ticket.ParseKeyring(again); err != nil {
				t.Fatalf("does not read back: %v", err)
			}
		}
		if ks, err := ticket.ParseAudienceKeys(data); err == nil {
			ks.Mint(&ticket.Claims{AdmissionID: "x"})
		}
	})
}

package ticket_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-project/plimsoll/ticket"
)

// TestInspect reads what a ticket says, forged or not, and panics over nothing.
func TestInspect(t *testing.T) {
	keys := audience(t, ring(t, "k1", "k1", "k0"), ticket.ForSubstrate("cloud"))
	text := mint(t, keys, sample())
	want := stamped(sample(), "k1", "substrate/cloud")
	if c, err := ticket.Inspect(text); err != nil || c != want {
		t.Errorf("%+v, %v", c, err)
	}
	raw := text.Reveal()
	forged := ticket.Text(raw[:len(raw)-4] + "AAAA")
	if c, err := ticket.Inspect(forged); err != nil || c != want {
		t.Errorf("forged: %+v, %v", c, err)
	}
	for _, bad := range []ticket.Text{"plm1.", "plm2." + text[5:], text + "=", ticket.Text(strings.Repeat("x", 5000))} {
		if c, err := ticket.Inspect(bad); !errors.Is(err, ticket.Malformed) || c != (ticket.Claims{}) {
			t.Errorf("%.20q: %+v, %v", bad.Reveal(), c, err)
		}
	}
	if _, err := ticket.Inspect(""); !errors.Is(err, ticket.Missing) {
		t.Error(err)
	}
	if ids := keys.KeyIDs(); !slices.Equal(ids, []string{"k1", "k0"}) {
		t.Error(ids)
	}
}

func TestReasonsAreReadBack(t *testing.T) {
	for _, r := range ticket.Reasons() {
		if got, ok := ticket.ParseReason(r.String()); !ok || got != r {
			t.Errorf("%s is read as %s, %v", r, got, ok)
		}
	}
	for _, word := range []string{"", "ok", "unknown", "Replayed"} {
		if _, ok := ticket.ParseReason(word); ok {
			t.Errorf("%q is a reason", word)
		}
	}
}

func TestSubstratesAreNoHosts(t *testing.T) {
	for audience, want := range map[string]string{"substrate/cloud": "cloud", "cloud": "", "substrate/": "", "": "", "host/substrate/x": ""} {
		if got, ok := ticket.SubstrateOf(audience); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %v", audience, got, ok)
		}
	}
}

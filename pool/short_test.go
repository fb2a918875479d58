package pool

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestShort: whoever got no slot gets one by a cap and a share that are higher by what its
// standing says, whoever waits ahead, whatever is reserved, and however far the cap was lowered.
func TestShort(t *testing.T) {
	refusedAtAll := 0
	rapid.Check(t, func(t *rapid.T) {
		m := NewModel()
		m.Advance(start)
		limits := Limits{Cap: rapid.Int64Range(0, 6).Draw(t, "cap"), MaxWaiting: 9}
		for i := range rapid.IntRange(0, 2).Draw(t, "shares") {
			limits.Shares = append(limits.Shares, Share{
				Consumer: fmt.Sprint("c", i), Reserved: rapid.Int64Range(0, 2).Draw(t, "reserved"), Max: rapid.Int64Range(0, 3).Draw(t, "max"),
			})
		}
		configure := func() {
			m.Configure(Settings{Pools: map[string]Limits{"p": limits}, DefaultQuota: Unlimited})
		}
		configure()
		claim := func(id int, mode Mode) Claimed {
			c := Claim{
				ID: fmt.Sprint("a", id), Consumer: fmt.Sprint("c", rapid.IntRange(0, 2).Draw(t, "consumer")), Key: fmt.Sprint(id),
				Pool: "p", Mode: mode, MaxQueueAge: 10 * time.Minute, Contents: Contents{Tenant: "t", Class: "small"},
			}
			if rapid.Bool().Draw(t, "present") {
				c.Present = PresentFor
			}
			return m.Claim(c)
		}
		for id := range rapid.IntRange(0, 12).Draw(t, "calls") {
			claim(id, rapid.SampledFrom([]Mode{Queue, Refuse}).Draw(t, "mode"))
		}
		limits.Cap = max(limits.Cap-rapid.Int64Range(0, 3).Draw(t, "lowered"), 0)
		configure()
		last := claim(100, Refuse)
		if last.Verdict != PoolFull {
			return
		}
		refusedAtAll++
		if last.Standing.Short+last.Standing.ShareShort <= 0 {
			t.Fatalf("refused, and short of nothing: %+v", last.Standing)
		}
		limits.Cap += last.Standing.Short
		for i := range limits.Shares {
			if limits.Shares[i].Consumer == last.Row.Consumer && last.Standing.ShareShort > 0 {
				limits.Shares[i].Max += last.Standing.ShareShort
			}
		}
		configure()
		again := m.Claim(Claim{ID: "b", Consumer: last.Row.Consumer, Key: "100", Pool: "p", Mode: Refuse, Contents: Contents{Tenant: "t", Class: "small"}})
		if again.Verdict != Granted {
			t.Fatalf("%s with a cap higher by %d: %+v, before: %+v", again.Verdict, last.Standing.Short, again.Standing, last.Standing)
		}
	})
	if refusedAtAll == 0 {
		t.Error("nobody was refused")
	}
}

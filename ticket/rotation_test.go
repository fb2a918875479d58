package ticket_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/transcript"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// TestRotation plays testdata/rotation: what the operator's command decides at each moment,
// and what the keyring is then.
//
//	ring k1 [k2*] [k3]                       a file of these roots; * signs
//	holder r1 k1*,k2                         what a replica has loaded; "gone" forgets it
//	next at=DURATION [settle=D] [life=D]     decide, and take the step
func TestRotation(t *testing.T) {
	transcript.Run(t, "testdata/rotation/*.txt", func(t *testing.T) func(string) string {
		s := rotation{t: t, holders: map[string]ticket.Holder{}}
		return s.do
	})
}

type rotation struct {
	t       *testing.T
	ring    ticket.Keyring
	holders map[string]ticket.Holder // name -> what it has loaded
	made    int
}

func (s *rotation) do(command string) string {
	l := transcript.Parse(command)
	switch l.Verb {
	case "ring":
		s.ring = s.ringOf(l.Words)
	case "holder":
		if l.Words[1] == "gone" {
			delete(s.holders, l.Words[0])
			return ""
		}
		held := s.ringOf(strings.Split(l.Words[1], ","))
		s.holders[l.Words[0]] = ticket.HolderOf(l.Words[0], held.IDs())
		return ""
	case "next":
		return s.next(l) + s.shown()
	default:
		s.t.Fatalf("unknown command %q", command)
	}
	return s.shown()
}

func (s *rotation) ringOf(words []string) ticket.Keyring {
	signing := ""
	for i, w := range words {
		if id, ok := strings.CutSuffix(w, "*"); ok {
			signing, words[i] = id, id
		}
	}
	return ring(s.t, signing, words...)
}

func (s *rotation) next(l transcript.Line) string {
	d := func(name, otherwise string) time.Duration {
		text := otherwise
		if set, ok := l.Set[name]; ok {
			text = set
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			s.t.Fatal(err)
		}
		return d
	}
	now := noon.Add(d("at", ""))
	if l.Has("dated") {
		s.ring = s.ring.Dated(now)
	}
	var holders []ticket.Holder
	for _, h := range s.holders {
		holders = append(holders, h)
	}
	turn := s.ring.Next(now, holders, ticket.Pace{Settle: d("settle", "0s"), Life: d("life", "10m")})
	slices.Sort(turn.Behind)
	fresh, err := ticket.NewRoot(fmt.Sprint("n", s.made+1), ticket.VerifyOnly, secret(200))
	if err != nil {
		s.t.Fatal(err)
	}
	if s.ring, err = s.ring.Take(turn, fresh, now); err != nil {
		return err.Error() + "\n"
	}
	if turn.Step == ticket.AddRoot {
		s.made++
	}
	out := string(turn.Step) + " " + turn.Root
	if len(turn.Behind) > 0 {
		out += " behind=" + strings.Join(turn.Behind, ",")
	}
	if !turn.At.IsZero() {
		out += " at=" + turn.At.Sub(noon).String()
	}
	return out + "\n"
}

func (s *rotation) shown() string {
	var parts []string
	for _, r := range s.ring.Roots() {
		part := r.ID()
		if r.State() == ticket.Signing {
			part += "*"
		}
		if !r.Since().IsZero() {
			part += "@" + r.Since().Sub(noon).String()
		}
		parts = append(parts, part)
	}
	return "ring " + strings.Join(parts, " ") + "\n"
}

// TestRotationWithLaggards rotates again and again while each holder takes a changed keyring
// over when it pleases: whatever anybody mints is accepted by everybody for all its life.
func TestRotationWithLaggards(t *testing.T) {
	for seed := range uint64(12) {
		world := laggards{t: t, rand: rand.New(rand.NewPCG(seed, 1)), now: noon, ring: ring(t, "a", "a")}
		for range 4 {
			world.holders = append(world.holders, world.ring)
		}
		for range 4000 {
			world.step()
		}
		if world.dropped < 3 {
			t.Errorf("seed %d: only %d rotations were made", seed, world.dropped)
		}
	}
}

type laggards struct {
	t       *testing.T
	rand    *rand.Rand
	now     time.Time
	ring    ticket.Keyring
	holders []ticket.Keyring
	tickets []ticket.Text // not at their end yet
	ends    []time.Time   // of tickets, at the same index
	made    int
	dropped int
}

const laggardLife = time.Minute

func (w *laggards) step() {
	w.now = w.now.Add(time.Duration(w.rand.IntN(1000)) * time.Millisecond)
	holder := w.rand.IntN(len(w.holders))
	switch w.rand.IntN(4) {
	case 0:
		w.rotate()
	case 1:
		if w.rand.IntN(5) == 0 {
			w.holders[holder] = w.ring
		}
	case 2:
		c := sample()
		c.Issued, c.Expires = w.now, w.now.Add(laggardLife)
		w.tickets = append(w.tickets, mint(w.t, audience(w.t, w.holders[holder], "h"), c))
		w.ends = append(w.ends, c.Expires)
	case 3:
		w.verify(audience(w.t, w.holders[holder], "h"))
	}
}

func (w *laggards) verify(ks ticket.AudienceKeys) {
	for len(w.ends) > 0 && w.ends[0].Before(w.now) {
		w.ends, w.tickets = w.ends[1:], w.tickets[1:]
	}
	for _, text := range w.tickets {
		if _, err := ks.Verify(text, ticket.Expect{}); err != nil {
			w.t.Fatalf("a living ticket is refused: %v", err)
		}
	}
}

func (w *laggards) rotate() {
	var holders []ticket.Holder
	for i, k := range w.holders {
		holders = append(holders, ticket.HolderOf(fmt.Sprint(i), k.IDs()))
	}
	turn := w.ring.Next(w.now, holders, ticket.Pace{Life: laggardLife})
	w.made++
	fresh, err := ticket.NewRoot(fmt.Sprint("k", w.made), ticket.VerifyOnly, secret(byte(w.made)))
	if err == nil {
		w.ring, err = w.ring.Take(turn, fresh, w.now)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if turn.Step == ticket.DropRoot {
		w.dropped++
	}
}

func TestDatesOfRootsTravelInTheFile(t *testing.T) {
	k, err := ring(t, "a", "a", "b").Sign("b", noon)
	if err != nil {
		t.Fatal(err)
	}
	file, err := k.EncodeFile()
	if err != nil {
		t.Fatal(err)
	}
	back, err := ticket.ParseKeyring(file)
	if err != nil {
		t.Fatal(err)
	}
	roots := back.Roots()
	if !roots[1].Since().Equal(noon) || !roots[0].Since().IsZero() || strings.Count(string(file), "since") != 1 {
		t.Errorf("%v %v\n", roots[0].Since(), roots[1].Since())
	}
	if _, err := ticket.ParseKeyring([]byte(`{"version": 1, "roots": [{"id": "a", "state": "signing", "since": "yesterday", "secret": ""}]}`)); err == nil {
		t.Error("took yesterday for a date")
	}
}

func TestRetireRules(t *testing.T) {
	k := ring(t, "b", "a", "b")
	if _, err := k.Retire("b", noon); err == nil {
		t.Error("retired the signing root")
	}
	if _, err := k.Retire("x", noon); err == nil {
		t.Error("retired a root that is not there")
	}
	if _, err := k.Take(ticket.Turn{Step: ticket.DropRoot, Root: "b"}, ticket.Root{}, noon); err == nil {
		t.Error("dropped the signing root")
	}
	full := k
	for i := range ticket.MaxRoots - 2 {
		r, _ := ticket.NewRoot(fmt.Sprint("r", i), ticket.VerifyOnly, secret(9))
		var err error
		if full, err = full.Add(r, noon); err != nil {
			t.Fatal(err)
		}
	}
	one, _ := ticket.NewRoot("more", ticket.VerifyOnly, secret(9))
	if _, err := full.Add(one, noon); err == nil || errors.Is(err, ticket.ErrNoSigningKey) {
		t.Errorf("a root too many: %v", err)
	}
}

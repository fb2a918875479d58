package up_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// rotateConfig has tickets of hosts and of a substrate that live for 5 s each.
const rotateConfig = `
host: {headroom: 128MiB, boot_within: 5s, sample_limits: 20ms}
fleet:
  default_quota: none
  pools: [{name: default, cap: 20}, {name: cloud, placement: none, cap: 20, slot_ttl: 30s, ticket_ttl: 5s}]
  classes:
    - {name: small, pool: default, memory: 16MiB, reserve_floor: 16MiB}
    - {name: remote, pool: cloud}
`

// TestRotation changes the ticket key under two replicas of one PostgreSQL, one of them with
// an agent, while callers carry tickets about for most of their lives: not one boot and not
// one redemption is refused.
func TestRotation(t *testing.T) {
	f := newFleet(t)
	f.migrate()
	r := &rotating{t: t, minted: map[string]int{}, late: map[string]int{}}
	for _, verb := range []string{"up", "server"} {
		s := f.replica(verb)
		s.write(rotateConfig)
		s.up()
		r.sites = append(r.sites, s)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() { r.caller(ctx, i, "small", r.boots) })
		all.Go(func() { r.caller(ctx, i, "remote", r.redeems) })
	}
	time.Sleep(3 * time.Second) // under the old key alone
	out, err := r.plimsoll("keyring", "rotate", "--keys", f.keys, "--wait", "--settle", "3s", "--ticket-life", "5s")
	t.Logf("%v\n%s", err, out)
	if err != nil {
		t.Error("the rotation failed")
	}
	time.Sleep(2 * time.Second) // under the new key alone
	stop()
	all.Wait()
	r.judge(f.keys)
}

// rotating is what the callers of TestRotation share.
type rotating struct {
	t     *testing.T
	sites []*site // an up and a server

	mu     sync.Mutex     // guards what follows
	minted map[string]int // key id -> tickets that were used up
	late   map[string]int // key id -> those that were used more than 3 s after they were minted
	lapsed int
}

// plimsoll runs a command against the first replica.
func (r *rotating) plimsoll(args ...string) (string, error) {
	path, err := binary()
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.CommandContext(r.t.Context(), path, args...)
	cmd.Env = []string{"PLIMSOLL_DATA_DIR=" + r.sites[0].data, "HOME=/"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (r *rotating) caller(ctx context.Context, me int, class string, use func(ctx context.Context, rng *rand.Rand, text string) error) {
	rng := rand.New(rand.NewPCG(uint64(me), uint64(len(class))))
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprintf("%s-%d-%d", class, me, i)
		c := r.sites[0].client() // whoever has the agent places on it
		a, err := c.Admit(ctx, api.AdmissionRequest{Key: key, Class: class}, client.Options{Wait: client.Once})
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, api.NoCapacity) && !errors.Is(err, api.PoolFull) {
				r.t.Errorf("%s: %v", key, err)
			}
			sleep(ctx, 50*time.Millisecond)
			continue
		}
		began := time.Now()
		text := a.Ticket
		if rng.IntN(4) == 0 { // one that is kept alive is minted anew
			sleep(ctx, time.Second)
			if again, err := c.Heartbeat(ctx, key); err == nil {
				text, began = again.Ticket, time.Now()
			}
		}
		sleep(ctx, time.Duration(rng.IntN(4200))*time.Millisecond)
		if ctx.Err() == nil {
			r.note(key, text, time.Since(began), use(ctx, rng, text))
		}
		_, _ = c.Release(context.WithoutCancel(ctx), key)
	}
}

// boots gives a ticket to the embedded agent.
func (r *rotating) boots(ctx context.Context, _ *rand.Rand, text string) error {
	_, err := r.sites[0].boot().Run(ctx, text, boot.Command{Argv: []string{"/bin/true"}}, io.Discard, io.Discard, nil)
	return err
}

// redeems gives a ticket to either replica.
func (r *rotating) redeems(ctx context.Context, rng *rand.Rand, text string) error {
	_, err := r.sites[rng.IntN(2)].client().RedeemTicket(ctx, api.TicketRequest{Ticket: text, Instance: "i"})
	return err
}

func (r *rotating) note(key, text string, age time.Duration, err error) {
	claims, unreadable := ticket.Inspect(ticket.Text(text))
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case unreadable != nil:
		r.t.Errorf("%s: %v", key, unreadable)
	case errors.Is(err, api.ReservationLapsed):
		r.lapsed++ // the machine was too slow; no key has to do with it
	case err != nil && !errors.Is(err, context.Canceled):
		r.t.Errorf("%s, with a ticket of key %s that was %s old: %v", key, claims.KeyID, age, err)
	case age > 3*time.Second:
		r.late[claims.KeyID]++
		fallthrough
	default:
		r.minted[claims.KeyID]++
	}
}

func (r *rotating) judge(keys string) {
	data, err := os.ReadFile(keys)
	if err != nil {
		r.t.Fatal(err)
	}
	ring, err := ticket.ParseKeyring(data)
	if err != nil || len(ring.Roots()) != 1 || ring.IDs() == "k1" {
		r.t.Errorf("the keys are %s: %v", ring.IDs(), err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.t.Logf("tickets used: %v; more than 3 s old: %v; lapsed: %d", r.minted, r.late, r.lapsed)
	for _, id := range []string{"k1", ring.IDs()} {
		if r.minted[id] < 10 || r.late[id] < 3 {
			r.t.Errorf("too few tickets of %s were tried: %v, %v", id, r.minted, r.late)
		}
	}
	for _, s := range r.sites {
		if said := s.stderr.String(); strings.Contains(said, "level=ERROR") {
			r.t.Error(tail(said))
		}
	}
}

// A keys file that is broken, or gone, leaves the keys in force that were read before, and is
// spoken of in the log; once it is mended all is as before.
func TestBrokenKeysFile(t *testing.T) {
	s := newSite(t)
	s.write(rotateConfig)
	s.up()
	c, ctx := s.client(), within(t, 30*time.Second)
	path := s.data + "/keys.json"
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, spoil := range []func() error{
		func() error { return os.WriteFile(path, []byte("{nonsense"), 0o600) },
		func() error { return os.Remove(path) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		s.eventually("it to be said", func() bool { return strings.Count(s.stderr.String(), "cannot be used") == i+1 })
		key := fmt.Sprint("a", i)
		a, err := c.Admit(ctx, api.AdmissionRequest{Key: key, Class: "remote"}, client.Options{Wait: client.Once})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.RedeemTicket(ctx, api.TicketRequest{Ticket: a.Ticket}); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	s.eventually("it to be read again", func() bool { return strings.Contains(s.stderr.String(), "the ticket keys changed\"") })
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/keyring"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// What a rotation takes when nobody says otherwise.
const (
	// hostTicket is the longest that a host's ticket can be made to live (host.boot_within).
	hostTicket = 10 * time.Minute
	// heardOf is how far back a ticket may have been minted under a former configuration.
	heardOf = 24 * time.Hour
	// noticed is how long a step waits for the replicas to notice it.
	noticed    = 15 * time.Second
	lookEvery  = 500 * time.Millisecond
	lookSeldom = 5 * time.Second
)

func (a *app) keyringRotate(w *where) *cobra.Command {
	r := rotation{app: a, where: w}
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Take the next safe step to a new key",
		Long: `Takes the next safe step to a new key, and says what it did, what comes next and when:

  1. adds a new key, which is verified from then on and signs nothing;
  2. lets it sign, once every replica has loaded it; the old key still verifies;
  3. drops the old key, once every replica signs with the new one and the longest life of a
     ticket has passed since.

Each may be given as much time as you like; no boot is refused at any of them. A replica
that went silent is waited for until it has been for an hour, unless --gone names it.
Substrates that hold a keys file of their own need a new one between 1 and 2: plimsoll
keyring audience. Needs the role operator, or --offline.`,
		Example: `  plimsoll keyring rotate
  plimsoll keyring rotate --wait
  plimsoll keyring rotate --wait --settle 1h
  plimsoll keyring rotate --offline --settle 5m --ticket-life 10m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd) },
	}
	f := cmd.Flags()
	f.BoolVar(&r.wait, "wait", false, "go through all steps, waiting as long as each needs")
	f.BoolVar(&r.offline, "offline", false, "do not ask the replicas; needs --settle and --ticket-life")
	f.DurationVar(&r.pace.Settle, "settle", 0, "how long to wait at least until a changed file has reached everybody")
	f.DurationVar(&r.pace.Life, "ticket-life", 0, "the longest that a ticket lives; else what the configuration says,\nand 10m for tickets of hosts")
	f.DurationVar(&r.notice, "notice", noticed, "how long to wait here for the replicas to notice a step")
	f.StringSliceVar(&r.gone, "gone", nil, "the `id` of a silent replica that will not come back; may be repeated")
	return cmd
}

// rotation is one run of the command.
type rotation struct {
	*app
	where   *where
	wait    bool
	offline bool
	pace    ticket.Pace
	notice  time.Duration
	gone    []string

	client *client.Client
	path   string
	line   *waitLine
	steps  []rotated // that were taken
}

// rotated is one step that was taken.
type rotated struct {
	Step ticket.Step `json:"step"`
	Key  string      `json:"key"`
}

func (r *rotation) run(cmd *cobra.Command) error {
	if r.offline && (r.pace.Settle <= 0 || r.pace.Life <= 0) {
		return mistake(cmd, "--offline asks nobody, so say how long is safe: --settle until a changed file is everywhere, --ticket-life until the last ticket has ended")
	}
	path, _, err := r.openKeyring(r.where)
	if err != nil {
		return err
	}
	r.path = path
	if err := r.prepare(cmd.Context()); err != nil {
		return err
	}
	r.pace.Life += ticket.Skew
	r.line = newWaitLine(r.stderr)
	last, err := r.turns(cmd.Context())
	r.line.clear()
	if err != nil {
		return err
	}
	return r.conclude(last)
}

// prepare finds the server and how long tickets live, unless nobody is to be asked.
func (r *rotation) prepare(ctx context.Context) (err error) {
	if r.offline {
		return nil
	}
	if r.client, _, err = r.connect(); err != nil {
		return err
	}
	if r.pace.Life == 0 {
		r.pace.Life, err = longestTicket(ctx, r.client, time.Now())
	}
	return err
}

// longestTicket is the longest that a ticket can live that was minted under a configuration
// of the last day.
func longestTicket(ctx context.Context, c *client.Client, now time.Time) (time.Duration, error) {
	list, err := c.Configs(ctx, 1000)
	if err != nil {
		return 0, err
	}
	life := hostTicket
	for _, g := range list.Configs {
		doc, err := c.ConfigAt(ctx, g.Generation)
		if err != nil {
			return 0, err
		}
		fleet, err := config.ParseFleet(fmt.Sprintf("generation %d", g.Generation), []byte(doc.Document))
		if err != nil {
			return 0, &Failure{ExitConfig, fmt.Errorf("how long tickets live is not known: %w", err), "say it with --ticket-life"}
		}
		for _, p := range fleet.Pools {
			life = max(life, p.TicketTTL)
		}
		if now.Sub(g.AppliedAt) > heardOf {
			break // this one was in force at that time already
		}
	}
	return life, nil
}

// turns takes steps until one has to be waited for, and with --wait until the rotation is
// over. It returns what is to be done next.
func (r *rotation) turns(ctx context.Context) (ticket.Turn, error) {
	patience := time.Now().Add(r.notice)
	for {
		turn, taken, err := r.take(ctx)
		switch {
		case taken:
			patience = time.Now().Add(r.notice)
			continue
		case err != nil && r.wait && mayPass(err):
			r.line.say(judge(err).detail + "; tried again")
		case err != nil || r.over(turn):
			return turn, err
		case !r.wait && (len(turn.Behind) == 0 || time.Now().After(patience)):
			return turn, nil
		default:
			r.line.say(waitingFor(turn, time.Now()))
		}
		select {
		case <-ctx.Done():
			return turn, context.Cause(ctx)
		case <-time.After(lookAgain(turn, time.Now())):
		}
	}
}

// lookAgain is often while replicas are waited for, and seldom while it is a date.
func lookAgain(t ticket.Turn, now time.Time) time.Duration {
	if t.At.IsZero() {
		return lookEvery
	}
	return min(max(t.At.Sub(now), lookEvery), lookSeldom)
}

// mayPass says whether an error of one look is worth another: a server restarts meanwhile.
func mayPass(err error) bool {
	v := judge(err)
	return v.status == ExitUnavailable || v.status == ExitNotNow
}

// over says that this run has done its part: the whole of it with --wait, else one step that
// people count. To note that a key is retired belongs to the step before.
func (r *rotation) over(next ticket.Turn) bool {
	counted := 0
	dropped := false
	for _, s := range r.steps {
		if s.Step != ticket.RetireRoot && s.Step != ticket.ReviveRoot {
			counted++
		}
		dropped = dropped || s.Step == ticket.DropRoot
	}
	if r.wait {
		return dropped && next.Step == ticket.AddRoot
	}
	return counted > 0 && (next.Step == ticket.AddRoot || next.Step == ticket.SignWith || next.Step == ticket.DropRoot)
}

// take decides the next step by the file as it is now and, unless it waits or this run is
// over, takes it before anybody else can change the file.
func (r *rotation) take(ctx context.Context) (turn ticket.Turn, taken bool, err error) {
	var holders []ticket.Holder
	if !r.offline {
		if holders, err = r.holders(ctx); err != nil {
			return turn, false, err
		}
	}
	now := time.Now()
	decide := func(k ticket.Keyring) ticket.Keyring {
		k = k.Dated(now)
		turn = k.Next(now, holders, r.pace)
		return k
	}
	_, ring, err := keyring.Open(r.path)
	if err != nil {
		return turn, false, keysFailure(r.path, err)
	}
	if dated := decide(ring); (turn.Step.Waits() && dated.Equal(ring)) || r.over(turn) {
		return turn, false, nil
	}
	fresh, err := keyring.NewRoot(ticket.VerifyOnly, now)
	if err != nil {
		return turn, false, err
	}
	_, err = keyring.Change(r.path, func(k ticket.Keyring) (ticket.Keyring, error) {
		return decide(k).Take(turn, fresh, now)
	})
	if err != nil {
		return turn, false, &Failure{ExitNotAllowed, err, "run as a user who may write the file and its directory"}
	}
	if turn.Step.Waits() {
		return turn, false, nil
	}
	r.took(turn, fresh)
	return turn, true, nil
}

func (r *rotation) took(t ticket.Turn, fresh ticket.Root) {
	key, text := t.Root, ""
	switch t.Step {
	case ticket.AddRoot:
		key = fresh.ID()
		text = fmt.Sprintf("added key %s: it is verified from now on, and signs nothing yet", key)
	case ticket.SignWith:
		text = fmt.Sprintf("key %s signs from now on; the one before still verifies", key)
	case ticket.RetireRoot:
		text = fmt.Sprintf("nobody signs with key %s any more", key)
	case ticket.ReviveRoot:
		text = fmt.Sprintf("a replica signs with key %s again, so it is not retired", key)
	case ticket.DropRoot:
		text = fmt.Sprintf("dropped key %s: its last ticket has ended", key)
	case ticket.AwaitKnown, ticket.AwaitSettle, ticket.AwaitSigned, ticket.AwaitLast:
		return
	}
	r.steps = append(r.steps, rotated{t.Step, key})
	if !r.json() {
		r.line.clear()
		fmt.Fprintln(r.stdout, text)
	}
}

// conclude says what was done and what comes next. It is not now when nothing could be done.
func (r *rotation) conclude(next ticket.Turn) error {
	if r.json() {
		out := map[string]any{"file": r.path, "done": r.steps, "next": rotated{next.Step, next.Root}, "waiting_for": next.Behind}
		if !next.At.IsZero() {
			out["at"] = next.At.UTC()
		}
		return writeJSON(r.stdout, out)
	}
	now := time.Now()
	if len(r.steps) == 0 {
		return &Failure{ExitNotNow, errors.New("not now: " + waitingFor(next, now)), remedyOf(next, now)}
	}
	_, err := fmt.Fprintln(r.stdout, "next: "+comesNext(next, now))
	return err
}

// comesNext says what the next step is and when it can be taken.
func comesNext(t ticket.Turn, now time.Time) string {
	again := "; plimsoll keyring rotate again "
	switch t.Step {
	case ticket.AddRoot:
		return "nothing, the rotation is over; plimsoll keyring rotate begins another"
	case ticket.SignWith:
		return "every replica has loaded key " + t.Root + ", so it may sign" + again + "lets it\n      before that, give substrates with a keys file of their own a new one: plimsoll keyring audience"
	case ticket.DropRoot:
		return "key " + t.Root + " can be dropped" + again + "drops it"
	case ticket.AwaitKnown, ticket.AwaitSettle, ticket.AwaitSigned, ticket.AwaitLast, ticket.RetireRoot, ticket.ReviveRoot:
	}
	return waitingFor(t, now) + again + "then"
}

func waitingFor(t ticket.Turn, now time.Time) string {
	behind := strings.Join(t.Behind, ", ")
	at := clock(t.At) + ", in " + age(t.At.Sub(now)+time.Second)
	switch t.Step {
	case ticket.AwaitKnown:
		return "key " + t.Root + " is not loaded yet by " + behind
	case ticket.AwaitSigned:
		return "key " + t.Root + " does not sign yet at " + behind
	case ticket.AwaitSettle:
		return "key " + t.Root + " is given until " + at + ", to reach everybody"
	case ticket.AwaitLast:
		return "the last ticket of key " + t.Root + " ends by " + at
	case ticket.AddRoot, ticket.SignWith, ticket.DropRoot, ticket.RetireRoot, ticket.ReviveRoot:
	}
	return ""
}

func remedyOf(t ticket.Turn, now time.Time) string {
	if len(t.Behind) > 0 {
		return "do these replicas read a copy of this file that is to be handed on? plimsoll replicas shows what they know; --gone ID passes over one that will not come back"
	}
	return "plimsoll keyring rotate again in " + age(t.At.Sub(now)+time.Second)
}

// holders asks which replicas there are. None at all is a sign that the wrong server was
// asked.
func (r *rotation) holders(ctx context.Context) ([]ticket.Holder, error) {
	holders, err := holdersOf(ctx, r.client, r.gone)
	if err == nil && len(holders) == 0 {
		err = &Failure{ExitUnavailable, errors.New("no replica says that it is up, so nobody is known who has loaded the keys"), "wait for a moment after a start; or say how long is safe, with --offline"}
	}
	return holders, err
}

func (a *app) askHolders(ctx context.Context, gone []string) ([]ticket.Holder, error) {
	c, _, err := a.connect()
	if err != nil {
		return nil, err
	}
	return holdersOf(ctx, c, gone)
}

func holdersOf(ctx context.Context, c *client.Client, passed []string) ([]ticket.Holder, error) {
	list, err := c.Replicas(ctx)
	if err != nil {
		return nil, err
	}
	var holders []ticket.Holder
	for _, r := range list.Replicas {
		if !gone(r) && !slices.Contains(passed, r.ID) {
			holders = append(holders, ticket.HolderOf(r.ID, strings.Join(r.KeyIDs, ",")))
		}
	}
	return holders, nil
}

func knows(h ticket.Holder, id string) bool { return slices.Contains(h.Knows, id) }

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/host"
)

// bypassFlags say which hosts, and how they are reached.
type bypassFlags struct {
	hosts, sockets []string
	reason         string
	lasts          time.Duration
}

func (f *bypassFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.hosts, "hosts", nil, "ids of hosts, joined by commas, or all")
	cmd.Flags().StringArrayVar(&f.sockets, "socket", nil, "an agent's `socket` on this machine; again for the next (default: this machine's, and hosts elsewhere through a replica)")
}

func (a *app) bypassCommand() *cobra.Command {
	var f bypassFlags
	cmd := &cobra.Command{
		Use:   "bypass --hosts a,b|all --for TIME --reason TEXT",
		Short: "Let hosts boot without tickets for a while, when nothing else answers",
		Long: `For when the store or all replicas are away. The hosts' memory gate and their limit of starts stay
in force, pools and tickets do not: whoever boots says what the sandbox will be (--bypass of plimsoll
run, Unticketed of client/boot) and is charged that. It goes through a replica where one answers, and
else to the agents' sockets on this machine, as root or the agent's own user. It is written down at the
host, and in plimsoll audit when a replica is back; it ends by itself, by the host's own clock; and
what it let in is listed by plimsoll reconcile, and stopped by nobody.`,
		Example: `  plimsoll bypass --hosts all --for 30m --reason "the store is down"
  plimsoll bypass list
  plimsoll bypass end --hosts all --reason "the store is back"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.lasts < time.Second || f.lasts > host.LongestBypass {
				return mistake(cmd, "--for %s: from 1s to 24h, as in --for 30m", f.lasts)
			}
			return a.setBypass(cmd.Context(), f)
		},
	}
	f.add(cmd)
	cmd.Flags().DurationVar(&f.lasts, "for", 0, "how long, as in 30m; at most 24h")
	addReason(cmd, &f.reason)
	required(cmd, "hosts", "for")
	cmd.AddCommand(a.bypassEnd(), a.bypassList())
	return cmd
}

func (a *app) bypassEnd() *cobra.Command {
	var f bypassFlags
	cmd := &cobra.Command{
		Use: "end --hosts a,b|all --reason TEXT", Short: "End a bypass", Args: cobra.NoArgs,
		Example: `  plimsoll bypass end --hosts all --reason "the store is back"`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.setBypass(cmd.Context(), f) },
	}
	f.add(cmd)
	addReason(cmd, &f.reason)
	required(cmd, "hosts")
	return cmd
}

func (a *app) bypassList() *cobra.Command {
	f := bypassFlags{hosts: []string{everyHost}}
	cmd := &cobra.Command{
		Use: "list", Short: "Which hosts boot without tickets", Args: cobra.NoArgs,
		Example: "  plimsoll bypass list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.eachBypass(cmd.Context(), f, func(ctx context.Context, c boot.Client) (api.Bypass, error) { return c.Bypass(ctx) },
				func(ctx context.Context, h *api.Host) (api.Bypass, error) {
					if h.Bypass == nil {
						return api.Bypass{Host: h.ID}, nil
					}
					return *h.Bypass, nil
				})
		},
	}
	cmd.Flags().StringArrayVar(&f.sockets, "socket", nil, "an agent's `socket` on this machine; again for the next")
	return cmd
}

const everyHost = "all"

func (a *app) setBypass(ctx context.Context, f bypassFlags) error {
	return a.eachBypass(ctx, f, func(ctx context.Context, c boot.Client) (api.Bypass, error) {
		return c.SetBypass(ctx, f.lasts, f.reason)
	}, func(ctx context.Context, h *api.Host) (api.Bypass, error) {
		c, _, err := a.connect()
		if err != nil {
			return api.Bypass{}, err
		}
		b, err := c.BypassHost(ctx, h.ID, f.lasts, f.reason)
		if err != nil {
			return api.Bypass{}, err
		}
		return *b, nil
	})
}

// eachBypass does something at every host that is meant: at sockets of this machine first, for
// they need nobody else, and through a replica for the rest.
func (a *app) eachBypass(ctx context.Context, f bypassFlags, at func(context.Context, boot.Client) (api.Bypass, error), through func(context.Context, *api.Host) (api.Bypass, error)) error {
	w := bypassing{app: a, want: f.hosts, done: []api.Bypass{}}
	w.here(ctx, f.sockets, at)
	if len(f.sockets) == 0 {
		w.elsewhere(ctx, through)
	}
	return w.report()
}

// bypassing is what came of it.
type bypassing struct {
	app    *app
	want   []string
	done   []api.Bypass
	failed []string // host or socket, and why
	cause  error
}

func (w *bypassing) means(id string) bool {
	return slices.Contains(w.want, everyHost) || slices.Contains(w.want, id)
}

func (w *bypassing) reached(id string) bool {
	return slices.ContainsFunc(w.done, func(b api.Bypass) bool { return b.Host == id })
}

func (w *bypassing) fail(at string, err error) {
	w.failed, w.cause = append(w.failed, plain(at)+": "+plain(err.Error())), err
}

// here asks each agent of this machine who it is before it is told anything.
func (w *bypassing) here(ctx context.Context, sockets []string, do func(context.Context, boot.Client) (api.Bypass, error)) {
	named := len(sockets) > 0
	if !named {
		c, err := w.app.seam()
		if err != nil {
			return
		}
		sockets = []string{c.Socket}
	}
	for _, socket := range sockets {
		c := boot.Client{Socket: socket}
		is, err := c.Bypass(ctx)
		if err == nil && w.means(is.Host) {
			if is, err = do(ctx, c); err == nil {
				w.done = append(w.done, is)
			}
		}
		if err != nil && named {
			w.fail(socket, atSeam(c, err))
		}
	}
}

// elsewhere goes through a replica, if one answers.
func (w *bypassing) elsewhere(ctx context.Context, do func(context.Context, *api.Host) (api.Bypass, error)) {
	c, _, err := w.app.connect()
	if err != nil {
		w.cause = err
		return
	}
	list, err := c.Hosts(ctx)
	if err != nil {
		w.cause = err
		return
	}
	for i := range list.Hosts {
		h := &list.Hosts[i]
		if !w.means(h.ID) || w.reached(h.ID) {
			continue
		}
		b, err := do(ctx, h)
		if err != nil {
			w.fail(h.ID, err)
			continue
		}
		w.done = append(w.done, b)
	}
}

func (w *bypassing) report() error {
	if w.app.json() {
		if err := writeJSON(w.app.stdout, w.done); err != nil {
			return err
		}
	} else {
		for _, b := range w.done {
			fmt.Fprintln(w.app.stdout, bypassLine(b))
		}
	}
	for _, id := range w.want {
		if id != everyHost && !w.reached(id) && !slices.ContainsFunc(w.failed, func(s string) bool { return strings.HasPrefix(s, plain(id)+": ") }) {
			w.failed = append(w.failed, plain(id)+": not reached")
		}
	}
	if len(w.done) == 0 && len(w.failed) == 0 {
		w.failed = append(w.failed, "no host was reached")
	}
	if len(w.failed) == 0 {
		return nil
	}
	err := errors.New(strings.Join(w.failed, "; "))
	if w.cause != nil && len(w.failed) == 1 && len(w.done) == 0 { // else its status would be that of all
		err = fmt.Errorf("%s: %w", w.failed[0], w.cause)
	}
	return &Failure{ExitUnavailable, err, "say it on that machine, as root: plimsoll bypass --socket /var/lib/plimsoll/agent.sock --hosts all …"}
}

func bypassLine(b api.Bypass) string {
	if !b.Active {
		return "host " + plain(b.Host) + ": no bypass"
	}
	left := (time.Duration(b.ForMS) * time.Millisecond).Round(time.Second)
	return fmt.Sprintf("host %s: boots without tickets for %s more, by %s (%s); %s booted", plain(b.Host), left, plain(b.By), plain(b.Reason), grouped(b.Booted))
}

// runBypassed boots a command under a bypass: nobody but the host's memory gate is asked.
func (a *app) runBypassed(cmd *cobra.Command, f runFlags, argv []string) error {
	if f.memory == "" {
		return mistake(cmd, "--bypass needs --memory: no replica is asked what the class gets")
	}
	size, err := parseMemory(f.memory)
	if err != nil {
		return mistake(cmd, "--memory: %s", err)
	}
	command, err := commandOf(argv)
	if err != nil {
		return err
	}
	signals, stop := takeSignals()
	defer stop()
	return a.withSeam(func(c boot.Client) error {
		numbers, over := passOn(signals)
		defer over()
		end, err := c.RunUnticketed(cmd.Context(), boot.Ask{MemoryMB: size, Class: f.class, Key: f.key, Template: f.template}, command, a.stdout, a.stderr, numbers)
		if errors.Is(err, api.TicketRejected) {
			return &Failure{ExitNotAllowed, errors.New("no bypass is open on this host: it boots nothing without a ticket"), "plimsoll bypass --hosts all --for 30m --reason TEXT, as root or the agent's own user"}
		}
		if err != nil {
			return err
		}
		return exit(a.stderr, end)
	})
}

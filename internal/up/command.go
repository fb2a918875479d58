package up

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/discover"
)

// flags are those of both commands.
type flags struct{ path, listen, level string }

func (f *flags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.path, "config", "", "configuration `file`; see plimsoll config example")
	c.Flags().StringVar(&f.listen, "listen", "", "`address` of the API, such as 127.0.0.1:7070; port 0 takes a free one")
	c.Flags().StringVar(&f.level, "log", "info", "what to log on standard error: debug, info, warn or error")
}

// options reads what the flags name.
func (f *flags) options(c *cobra.Command, version string) (Options, error) {
	dir := ""
	if flag := c.Flags().Lookup("data-dir"); flag != nil && flag.Changed {
		dir = flag.Value.String()
	}
	file, err := load(f.path, dir, f.listen)
	if err != nil {
		return Options{}, err
	}
	log, err := newLog(c, f.level)
	return Options{File: file, Path: f.path, Version: version, Out: c.OutOrStdout(), Log: log}, err
}

// Command is `plimsoll up`.
func Command(version string) *cobra.Command {
	var f flags
	var agents, replicas int
	var store string
	c := &cobra.Command{
		Use:   "up",
		Short: "Run a replica, this machine's agent and a store in one process",
		Long: `Run a replica, this machine's agent and a SQLite store in one process.

Without a configuration it makes a data directory, keys and a token, and prints what
this host may promise and a command to try. Sandboxes outlive it: the next start
re-adopts them. With a configuration that has no host section it runs no agent: pools
with placement: none need none.

Every local setting of the configuration has an environment variable, as host.budget has
PLIMSOLL_HOST_BUDGET; variables win over the file, and flags over both. The fleet section
counts at the first start only: later plimsoll config apply changes what is in force.

With --agents and --replicas it is a whole fleet on this machine, to try: that many processes
of this binary, each with a data directory below this one's, which end with it. The agents
share four fifths of the machine's free memory. The schema of --store is brought up to date.`,
		Example: `  plimsoll up
  plimsoll up --config plimsoll.yaml
  PLIMSOLL_HOST_BUDGET=4GiB plimsoll up --data-dir ./state --listen 127.0.0.1:0
  plimsoll config example --no-hosts > two.yaml && plimsoll up --config two.yaml
  plimsoll up --agents 8 --replicas 3 --store postgres://plimsoll@127.0.0.1/plimsoll`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := f.options(c, version)
			if err != nil {
				return err
			}
			if store != "" {
				if err := overlay(c, &o.File.Local, "store", store); err != nil {
					return err
				}
			}
			if f := c.Flags(); !f.Changed("agents") && !f.Changed("replicas") {
				return Run(c.Context(), o)
			}
			if o.File.Fleet == nil || o.File.Local.Host == nil {
				return unfit("a fleet to try needs a host section and a fleet section in its configuration", "leave --config out, or add them as plimsoll config example shows")
			}
			t := Trial{Options: o, Agents: agents, Replicas: replicas}
			return t.Run(c.Context())
		},
	}
	f.add(c)
	c.Flags().IntVar(&agents, "agents", 1, "a fleet to try: so many agents, each a process and a host")
	c.Flags().IntVar(&replicas, "replicas", 1, "and so many replicas; two or more need --store postgres://…")
	c.Flags().StringVar(&store, "store", "", "sqlite, sqlite:/path or postgres://user@host/database")
	return c
}

// overlay lays a flag over the setting of its name, as that setting's variable is.
func overlay(c *cobra.Command, l *config.Local, flag, value string) error {
	variable := "PLIMSOLL_" + strings.ToUpper(flag)
	err := config.Overlay(l, func(name string) string {
		if name == variable {
			return value
		}
		return ""
	})
	if faults, ok := errors.AsType[config.Faults](err); ok && len(faults) > 0 {
		return cli.Mistake(c, "--%s: %s", flag, faults[0].Message)
	}
	return err
}

// ServerCommand is `plimsoll server`.
func ServerCommand(version string) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "server --config FILE",
		Short: "Run a replica without an agent; any number at once on one PostgreSQL",
		Long: `Run a replica without an agent: it answers the API over the store of the configuration.

Any number of them run side by side on one PostgreSQL (store: postgres://user@host/database)
and any of them may be killed: whoever asks the next one finds all as it was. They share
the ticket keys (keys: FILE, the same everywhere) and each has a data directory of its own.
The schema is made and changed by plimsoll store migrate alone.

While the store cannot be reached it answers 503 unavailable and tries on; /healthz says
that it lives and /readyz that it is not ready. A host section of the file is passed over.

Its heap may grow to four times what lives in it before it is collected; GOGC and GOMEMLIMIT
say otherwise.`,
		Example: `  plimsoll store migrate --config plimsoll.yaml
  plimsoll keyring create --keys /etc/plimsoll/keys.json
  plimsoll server --config plimsoll.yaml
  plimsoll server --config plimsoll.yaml --data-dir /var/lib/plimsoll-2 --listen 127.0.0.1:7071`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.path == "" {
				return cli.Mistake(c, "--config is missing: the file that names the store; plimsoll config example shows one")
			}
			o, err := f.options(c, version)
			if err != nil {
				return err
			}
			o.File.Local.Host = nil
			cli.RoomyHeap()
			return Run(c.Context(), o)
		},
	}
	f.add(c)
	return c
}

// load reads the file, if any, and lays environment and flags over it.
func load(path, dataDir, listen string) (*config.File, error) {
	file := config.Default("")
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, &cli.Failure{
				Status: cli.ExitUsage, Err: fmt.Errorf("read the configuration: %w", err),
				Try: "plimsoll config example > plimsoll.yaml makes one to begin with",
			}
		}
		if file, err = config.Parse(path, data); err != nil {
			return nil, err
		}
	} else {
		file.Local.DataDir = discover.DefaultDataDir()
	}
	if err := config.Overlay(&file.Local, os.Getenv); err != nil {
		return nil, err
	}
	if dataDir != "" {
		file.Local.DataDir = dataDir
	}
	if listen != "" {
		file.Local.Listen = listen
	}
	var err error
	file.Local.DataDir, err = filepath.Abs(file.Local.DataDir)
	return file, err
}

func newLog(c *cobra.Command, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, cli.Mistake(c, "--log %s: use debug, info, warn or error", level)
	}
	return slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: l})), nil
}

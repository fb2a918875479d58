package up

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/discover"
)

// Command is `plimsoll up`.
func Command(version string) *cobra.Command {
	var path, listen, level string
	c := &cobra.Command{
		Use:   "up",
		Short: "Run a replica, this machine's agent and a SQLite store in one process",
		Long: `Run a replica, this machine's agent and a SQLite store in one process.

Without a configuration it makes a data directory, keys and a token, and prints what
this host may promise and a command to try. Sandboxes outlive it: the next start
re-adopts them.

Every local setting of the configuration has an environment variable, as host.budget has
PLIMSOLL_HOST_BUDGET; variables win over the file, and flags over both. The fleet section
counts at the first start only: later plimsoll config apply changes what is in force.`,
		Example: `  plimsoll up
  plimsoll up --config plimsoll.yaml
  PLIMSOLL_HOST_BUDGET=4GiB plimsoll up --data-dir ./state --listen 127.0.0.1:0`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			dir := ""
			if f := c.Flags().Lookup("data-dir"); f != nil && f.Changed {
				dir = f.Value.String()
			}
			file, err := load(path, dir, listen)
			if err != nil {
				return err
			}
			log, err := newLog(c.ErrOrStderr(), level)
			if err != nil {
				return err
			}
			return Run(c.Context(), Options{File: file, Path: path, Version: version, Out: c.OutOrStdout(), Log: log})
		},
	}
	c.Flags().StringVar(&path, "config", "", "configuration `file`; see plimsoll config example")
	c.Flags().StringVar(&listen, "listen", "", "`address` of the API, such as 127.0.0.1:7070; port 0 takes a free one")
	c.Flags().StringVar(&level, "log", "info", "what to log on standard error: debug, info, warn or error")
	return c
}

// load reads the file, if any, and lays environment and flags over it.
func load(path, dataDir, listen string) (*config.File, error) {
	file := config.Default("")
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read the configuration: %w", err)
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
	if file.Local.Host == nil {
		return nil, errors.New("the configuration has no host section; plimsoll up runs this machine's agent: add host: {}")
	}
	var err error
	file.Local.DataDir, err = filepath.Abs(file.Local.DataDir)
	return file, err
}

func newLog(w io.Writer, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log %s: use debug, info, warn or error", level)
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l})), nil
}

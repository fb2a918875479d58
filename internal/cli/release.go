package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
)

func (a *app) releaseCommand() *cobra.Command {
	var (
		id   string
		wait time.Duration
	)
	cmd := &cobra.Command{
		Use:   "release KEY",
		Short: "Give an admission back, ending its sandbox",
		Long: `Gives an admission back, whatever its state: a place in the queue is given up, a sandbox that
runs is ended. Waits until slot and memory are free. Releasing what has ended changes nothing.`,
		Example: `  plimsoll release task-7421
  plimsoll release --id a-01k6f3zq`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (id != "") {
				return mistake(cmd, "name one admission: by its KEY, or by --id")
			}
			return a.release(cmd.Context(), args, id, wait)
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "the server's name for the admission, instead of the key")
	cmd.Flags().DurationVar(&wait, "wait", 30*time.Second, "how long to wait for the end of the sandbox")
	return cmd
}

func (a *app) release(ctx context.Context, args []string, id string, wait time.Duration) error {
	c, _, err := a.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var m *api.Admission
	if id != "" {
		m, err = c.ReleaseID(ctx, id)
	} else {
		m, err = c.Release(ctx, args[0])
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded) && m != nil:
		return &Failure{ExitNotNow, fmt.Errorf("not now: key %s is still ending", m.Key), "plimsoll release " + m.Key + " again; it goes on ending meanwhile"}
	case err != nil:
		return err
	case a.json():
		return writeJSON(a.stdout, m)
	}
	_, err = fmt.Fprintf(a.stdout, "%s is %s\n", m.Key, m.State)
	return err
}

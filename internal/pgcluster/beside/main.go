// Command beside runs a command beside a PostgreSQL server of its own, which is gone
// afterwards. The command finds it in PLIMSOLL_TEST_POSTGRES. See scripts/postgres.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/plimsoll-project/plimsoll/internal/pgcluster"
)

func main() {
	status, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "postgres:", err)
	}
	os.Exit(status)
}

func run(command []string) (status int, err error) {
	if len(command) == 0 {
		return 1, errors.New("no command to run beside the server")
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	ctx := context.Background()
	cluster, err := pgcluster.Make(ctx)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	if err := cluster.Start(ctx); err != nil {
		return 1, err
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "PLIMSOLL_TEST_POSTGRES="+cluster.URL())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 127, err
	}
	return follow(cmd, signals)
}

// follow waits for the command, and passes on what ends us. A Ctrl-C it has by itself.
func follow(cmd *exec.Cmd, signals <-chan os.Signal) (int, error) {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			if s != os.Interrupt {
				_ = cmd.Process.Signal(s) // it may have ended
			}
		case err := <-ended:
			return statusOf(err)
		}
	}
}

// statusOf is the command's own status, or that of its signal as shells write it.
func statusOf(err error) (int, error) {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return 0, err
	}
	if w, ok := exit.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal()), nil
	}
	return exit.ExitCode(), nil
}

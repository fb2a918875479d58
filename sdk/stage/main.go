// Command stage is where SDKs are tried: see package internal/stage. It prints one line of JSON when it
// is ready, and ends when its standard input does, or at a signal.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/plimsoll-project/plimsoll/internal/stage"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "stage:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := stage.Start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := json.NewEncoder(os.Stdout).Encode(s.Note()); err != nil {
		return err
	}
	over := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		over <- err
	}()
	select {
	case err := <-over:
		return err
	case <-ctx.Done():
		return nil
	}
}

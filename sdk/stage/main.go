// Command stage is where SDKs are tried: see package internal/stage. It prints one line of JSON when it
// is ready, and ends when its standard input does.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/plimsoll-project/plimsoll/internal/stage"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "stage:", err)
		os.Exit(1)
	}
}

func run() error {
	s, err := stage.Start(context.Background())
	if err != nil {
		return err
	}
	defer s.Close()
	if err := json.NewEncoder(os.Stdout).Encode(s.Note()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

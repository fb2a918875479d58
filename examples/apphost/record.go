package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// State is where an app stands. These three are all.
type State string

// The states.
const (
	Running    State = "running"
	Hibernated State = "hibernated"
	Waiting    State = "waiting_capacity"
)

// Step is one change of state.
type Step struct {
	At    time.Time `json:"at"`
	State State     `json:"state"`
	Why   string    `json:"why"`
}

// Record is what outlives this program: the app's status column. It is written before what it says is
// begun (waiting_capacity) and after what it says has come about (running, hibernated), so a crash between
// the two leaves an app that asks again under its key, and never one that is forgotten.
type Record struct {
	State     State  `json:"state"`
	Admission string `json:"admission,omitempty"` // its id, while running
	Epoch     int64  `json:"epoch,omitempty"`
	Steps     []Step `json:"steps"` // the newest, oldest first
}

const mostSteps = 32

func (r *Record) step(at time.Time, s State, why string) {
	r.State = s
	r.Steps = append(r.Steps, Step{at, s, why})
	if n := len(r.Steps); n > mostSteps {
		r.Steps = append([]Step(nil), r.Steps[n-mostSteps:]...)
	}
}

// readRecord reads an app's record; one that was never written is that of an app that sleeps.
func readRecord(path string) (r Record, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{State: Hibernated}, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return r, fmt.Errorf("read the state of an app: %s: %w", path, err)
	}
	switch r.State {
	case Running, Hibernated, Waiting:
		return r, nil
	}
	return r, fmt.Errorf("read the state of an app: %s: %q is no state", path, r.State)
}

// write puts the record in place, all of it or nothing.
func (r *Record) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".record")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

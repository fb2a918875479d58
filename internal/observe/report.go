package observe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/wholefile"
)

// Report is what was seen at one moment, in MiB: what there is rounded down, what is used up.
type Report struct {
	Host         string    `json:"host"`
	At           time.Time `json:"at"`
	Since        time.Time `json:"since"` // of the first look
	Looks        int64     `json:"looks"`
	Enforcement  string    `json:"enforcement"` // observe
	Found        int64     `json:"found"`
	Unsized      int64     `json:"unsized"` // of them, without a configured size
	ResidentMB   int64     `json:"resident_mb"`
	CommittedMB  int64     `json:"committed_mb"`
	Ratio        float64   `json:"ratio"` // resident ÷ committed
	FileCacheMB  int64     `json:"file_cache_mb"`
	Peak         Peak      `json:"peak"`
	FreeMB       int64     `json:"free_mb"`
	HeadroomMB   int64     `json:"headroom_mb"`
	BindingLimit string    `json:"binding_limit"`
	Limits       []Limit   `json:"limits"`
	PSISomeAvg10 *float64  `json:"psi_some_avg10,omitempty"` // percent; seen, and believed by nobody alone
	Modes        []Mode    `json:"modes"`
	Learned      []Learned `json:"learned,omitempty"` // by configured size, of stateless ones
	Sandboxes    []Sandbox `json:"sandboxes"`         // the largest first
	Notes        []string  `json:"notes,omitempty"`
}

// Limit is one bound with what counts against it.
type Limit struct {
	Name   string `json:"name"`
	SizeMB int64  `json:"size_mb"`
	UsedMB int64  `json:"used_mb"`
}

// Mode is what one mode would make of what runs.
type Mode struct {
	Mode         string `json:"mode"`          // working-set, committed, or learned: working-set by learned reserves
	HeldMB       int64  `json:"held_mb"`       // Σ charges
	UnresidentMB int64  `json:"unresident_mb"` // of them, not touched yet
	AdmittableMB int64  `json:"admittable_mb"`
	OverMB       int64  `json:"over_mb"`    // by which it is past its line; 0: it is not
	TypicalMB    int64  `json:"typical_mb"` // the median configured size
	FitsMore     int64  `json:"fits_more"`  // stateless ones of that size
}

// Sandbox is one that was found.
type Sandbox struct {
	ID           string `json:"id"`
	Kind         string `json:"kind"` // cgroup or process
	PID          int    `json:"pid,omitempty"`
	Command      string `json:"command,omitempty"`
	Stateful     bool   `json:"stateful,omitempty"`
	ConfiguredMB int64  `json:"configured_mb"`
	SizeFrom     string `json:"size_from,omitempty"` // memory.max, command line, config file, default
	ResidentMB   int64  `json:"resident_mb"`
	PeakMB       int64  `json:"peak_mb"` // since it was first seen
	FileCacheMB  int64  `json:"file_cache_mb"`
	WorkingSetMB int64  `json:"working_set_mb"` // what that mode would charge
	CommittedMB  int64  `json:"committed_mb"`
}

// File is where an observing agent leaves its newest report, in its data directory.
const File = "observed.json"

// Write leaves the report in a directory, all of it or nothing.
func (r *Report) Write(dir string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := wholefile.Write(filepath.Join(dir, File), append(data, '\n'), 0o644, false); err != nil {
		return fmt.Errorf("write what was observed: %w; the data directory must be writable, and have room", err)
	}
	return nil
}

// ErrNone says that no agent observes with that data directory.
var ErrNone = errors.New("nothing was observed here")

// Read reads the newest report.
func Read(dir string) (Report, error) {
	data, err := os.ReadFile(filepath.Join(dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		return Report{}, fmt.Errorf("%w: there is no %s in %s", ErrNone, File, dir)
	}
	if err != nil {
		return Report{}, fmt.Errorf("read what was observed: %w", err)
	}
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return Report{}, fmt.Errorf("read what was observed: %s is damaged (%w); the observing agent writes it anew", File, err)
	}
	return r, nil
}

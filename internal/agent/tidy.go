package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/host"
)

// How long the output of a sandbox that has ended is kept: as long as its decisions are, and
// that of no more sandboxes than somebody would look through.
const (
	logsFor   = 24 * time.Hour
	logsMost  = 2000 // files; a sandbox has two
	tidyEvery = 10 * time.Minute
)

// tidyUntil removes old logs, now and then, until ctx ends.
func (a *Agent) tidyUntil(ctx context.Context) {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		if err := a.tidy(ctx, time.Now()); err != nil && ctx.Err() == nil {
			a.cfg.Log.Error("old logs not removed", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// tidy removes the logs of ended sandboxes that are older than logsFor, and the oldest
// beyond logsMost. The directory is read before the host is asked, so that a log that is in
// the list has its sandbox in the answer.
func (a *Agent) tidy(ctx context.Context, now time.Time) error {
	stdout, _ := a.cfg.Driver.Logs("any")
	if stdout == "" {
		return nil
	}
	logs, err := listLogs(filepath.Dir(stdout))
	if err != nil {
		return err
	}
	live := map[string]bool{}
	err = a.Look(ctx, func(h *host.Host) {
		for _, s := range h.View().Sandboxes {
			live[s.ID] = true
		}
	})
	if err != nil {
		return err
	}
	logs = slices.DeleteFunc(logs, func(l logFile) bool { return live[l.sandbox] })
	slices.SortFunc(logs, func(a, b logFile) int { return b.written.Compare(a.written) })
	var failed error
	for i, l := range logs {
		if i >= logsMost || now.Sub(l.written) > logsFor {
			if err := os.Remove(l.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				failed = err // one says enough
			}
		}
	}
	return failed
}

// logFile is what one sandbox wrote to one of its two outputs.
type logFile struct {
	path    string
	sandbox string // its id
	written time.Time
}

func listLogs(dir string) ([]logFile, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the logs: %w", err)
	}
	var logs []logFile
	for _, e := range entries {
		name, isLog := strings.CutSuffix(e.Name(), ".log")
		id := strings.TrimSuffix(strings.TrimSuffix(name, ".stdout"), ".stderr")
		info, err := e.Info()
		if isLog && id != name && err == nil {
			logs = append(logs, logFile{filepath.Join(dir, e.Name()), id, info.ModTime()})
		}
	}
	return logs, nil
}

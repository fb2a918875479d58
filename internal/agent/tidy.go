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

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/host"
)

// How long the output of a sandbox that has ended is kept: as long as its decisions are, and
// that of no more sandboxes than somebody would look through.
const (
	logsFor   = 24 * time.Hour
	logsMost  = 2000 // files; a sandbox has two
	tidyEvery = 10 * time.Minute
)

// Of the output of one that runs the newest is kept, and the room of the rest given back
// once it is as much again: else one sandbox could fill the disk, on which then nothing is
// promised to anybody.
const (
	logKeeps  = 16 << 20 // bytes of each stream
	trimEvery = 5 * time.Second
)

// tidyUntil keeps the logs within bounds, until ctx ends.
func (a *Agent) tidyUntil(ctx context.Context) {
	trim, tidy := time.NewTicker(trimEvery), time.NewTicker(tidyEvery)
	defer trim.Stop()
	defer tidy.Stop()
	err := a.tidy(ctx, time.Now())
	for {
		if err != nil && ctx.Err() == nil {
			a.cfg.Log.Error("logs not kept within bounds", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-trim.C:
			err = a.trim(ctx)
		case <-tidy.C:
			err = a.tidy(ctx, time.Now())
		}
	}
}

// trim gives the room of old output back. The file keeps its length, so that its writer and
// its readers stay where they are.
func (a *Agent) trim(ctx context.Context) error {
	ids, err := a.ids(ctx)
	if err != nil {
		return err
	}
	for id := range ids {
		stdout, stderr := a.cfg.Driver.Logs(id)
		for _, path := range []string{stdout, stderr} {
			if err := trimLog(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("give back the room of old output: %w", err)
			}
		}
	}
	return nil
}

func trimLog(path string) error {
	var st unix.Stat_t
	if path == "" || unix.Stat(path, &st) != nil || st.Blocks*512 < 2*logKeeps || st.Size < 2*logKeeps {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	const whole = 1 << 20 // of a block that is trimmed in part, that part would read as zeros
	old := (st.Size - logKeeps) &^ (whole - 1)
	err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, old)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil // this file system cannot; then the disk is the bound
	}
	return err
}

// ids are the sandboxes that the host charges.
func (a *Agent) ids(ctx context.Context) (map[string]bool, error) {
	ids := map[string]bool{}
	err := a.Look(ctx, func(h *host.Host) {
		for _, s := range h.View().Sandboxes {
			ids[s.ID] = true
		}
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
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
	live, err := a.ids(ctx)
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

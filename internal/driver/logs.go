package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Logs returns where the output of a sandbox goes: two empty names where no logs are kept.
func (d *Driver) Logs(id string) (stdout, stderr string) {
	if d.dir == "" {
		return "", ""
	}
	return filepath.Join(d.dir, id+".stdout.log"), filepath.Join(d.dir, id+".stderr.log")
}

// stdio is what a sandbox has as its first three files.
type stdio [3]*os.File

func (d *Driver) openStdio(s Spec) (files stdio, err error) {
	defer func() {
		if err != nil {
			files.close()
		}
	}()
	if files[0], err = os.Open(os.DevNull); err != nil {
		return files, fmt.Errorf("open the input of sandbox %s: %w", s.ID, err)
	}
	stdout, stderr := d.Logs(s.ID)
	for i, name := range []string{stdout, stderr} {
		if files[i+1], err = openLog(name, s); err != nil {
			return files, fmt.Errorf("open the log of sandbox %s: %w", s.ID, err)
		}
	}
	return files, nil
}

// openLog opens a log to append to, for its user alone. An earlier run's log is added to, but
// never given to another user, nor followed to where a link leads.
func openLog(name string, s Spec) (*os.File, error) {
	if name == "" {
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: see that the log directory can be written and holds no link of that name", err)
	}
	if err := own(f, s); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func own(f *os.File, s Spec) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a plain file: remove it", f.Name())
	}
	if info.Size() > 0 && st.Uid != s.UID {
		return fmt.Errorf("%s holds the output of uid %d, not of uid %d: remove it, or choose another id", f.Name(), st.Uid, s.UID)
	}
	if st.Uid == s.UID && st.Gid == s.GID {
		return nil
	}
	return f.Chown(int(s.UID), int(s.GID))
}

func (files stdio) close() {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// Package wholefile writes files that are read all or not at all: whoever opens the path gets
// what was there before or what is there now, also after a crash in between.
//
// It decides nothing, keeps no state, and may be called from any goroutine; of two writers of
// one path the later one's file stays.
package wholefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces the file at a path. Its directory must be there. What is not synced may be
// gone, or empty, after the machine itself has crashed.
func Write(path string, data []byte, mode fs.FileMode, synced bool) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // 0600 until all is in it
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode))
	if synced {
		err = errors.Join(err, f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

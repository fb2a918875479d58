package microvm

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// Module is one of the kernel's that stands on no other. In the guest it lies in /modules, by a
// name that sorts in the order of loading. Its parameters stand on the kernel's command line as
// NAME.PARAMETER, which for one that is not built in is for /init to pass on.
//
// A machine has no disk: this emulator tells of those in a way that Debian's kernel does not
// hear. The module brd makes some of memory.
type Module struct {
	Name   string
	Params []string
}

// file finds it in the folder of all modules.
func (m Module) file(dir string) (string, error) {
	found := ""
	err := filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Base(file) == m.Name+".ko" {
			found = file
			return fs.SkipAll
		}
		return err
	})
	if err == nil && found == "" {
		err = errors.New("there is none: is it Debian's cloud kernel?")
	}
	if err != nil {
		return "", fmt.Errorf("find the kernel module %s in %s: %w", m.Name, dir, err)
	}
	return found, nil
}

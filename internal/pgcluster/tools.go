package pgcluster

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// tools are PostgreSQL's programs, and as whom they run.
type tools struct {
	bin   string
	owner *syscall.Credential // nil: as who we are
}

func findTools() (tools, error) {
	bin, err := findBin()
	if err != nil {
		return tools{}, err
	}
	owner, err := findOwner()
	return tools{bin, owner}, err
}

// findBin prefers what is on the PATH, and then the newest that Debian's packages installed.
func findBin() (string, error) {
	var dirs []string
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	packaged, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	version := func(dir string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		return n
	}
	slices.SortFunc(packaged, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
	for _, dir := range append(dirs, packaged...) {
		if complete(dir) {
			return dir, nil
		}
	}
	return "", errors.New("no PostgreSQL server found (initdb on PATH or in /usr/lib/postgresql/*/bin); run scripts/setup")
}

func complete(dir string) bool {
	return !slices.ContainsFunc([]string{"initdb", "postgres", "pg_isready"}, func(name string) bool {
		_, err := exec.LookPath(filepath.Join(dir, name))
		return err != nil
	})
}

// findOwner names another user than root, as whom PostgreSQL refuses to run.
func findOwner() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and there is no other user for it: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGid := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err, errGid)
}

// giveAway makes a path the server's own.
func (t tools) giveAway(path string) error {
	if t.owner == nil {
		return nil
	}
	return os.Chown(path, int(t.owner.Uid), int(t.owner.Gid))
}

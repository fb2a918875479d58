package driver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Spec is one sandbox to boot.
type Spec struct {
	ID          string     // [A-Za-z0-9._:-]{1,128}; names cgroup and logs
	Argv        []string   // the command; looked up in the PATH of Env where it is without a slash
	Env         []string   // all of its environment; nothing of the agent's is passed on
	Dir         string     // where it starts; default /
	Memory      gate.Bytes // limit of its cgroup; 0 for none
	UID         uint32
	GID         uint32
	Groups      []uint32 // supplementary groups, and no others
	OOMScoreAdj int      // -1000 to 1000; the agent's own is not inherited
}

var idPattern = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// check refuses what cannot be booted, before anything is made.
func (s Spec) check() error {
	switch {
	case !idPattern.MatchString(s.ID):
		return fmt.Errorf("sandbox id %.140q: use 1 to 128 of A-Z a-z 0-9 . _ : -", s.ID)
	case len(s.Argv) == 0 || s.Argv[0] == "":
		return errors.New("no command: give the sandbox at least one argument")
	case s.Memory < 0:
		return fmt.Errorf("memory of %s: give a size, or 0 for no limit", s.Memory)
	case s.OOMScoreAdj < -1000 || s.OOMScoreAdj > 1000:
		return fmt.Errorf("oom_score_adj of %d: the kernel takes -1000 to 1000", s.OOMScoreAdj)
	case s.Dir != "" && !filepath.IsAbs(s.Dir):
		return fmt.Errorf("directory %q: give an absolute path", s.Dir)
	case slices.ContainsFunc(slices.Concat(s.Argv, s.Env, []string{s.Dir}), hasNUL):
		return errors.New("argument, environment or directory holds a NUL byte: the kernel would cut it there")
	}
	return s.checkUser(os.Geteuid())
}

func hasNUL(s string) bool { return strings.IndexByte(s, 0) >= 0 }

// checkUser refuses another user where the agent is not root, and would run it as itself.
func (s Spec) checkUser(euid int) error {
	if euid == 0 || int(s.UID) == euid && int(s.GID) == os.Getegid() {
		return nil
	}
	return fmt.Errorf("run as uid %d gid %d: the agent is uid %d gid %d and may not: run it as root, or ask for its own user",
		s.UID, s.GID, euid, os.Getegid())
}

package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ExecCommand is the hidden command under which our binary calls ExecMain.
const ExecCommand = "sandbox-exec"

// The helper's files beyond the first three.
const (
	orderFD = 3
	replyFD = 4
)

// Exit codes of the helper, as shells have them.
const (
	exitNeverReleased = 0
	exitUsage         = 2
	exitCannotExec    = 126
)

// ExecMain is the held helper: it takes its order, becomes the user, waits for the byte that
// releases it and becomes the command. Where the agent's end of the pipe closes first, it
// ends without having run anything. It returns only if the command does not run.
func ExecMain([]string) int {
	runtime.LockOSThread() // capabilities belong to a thread; the one that drops them must be the one to exec
	if !isPipe(orderFD) || !isPipe(replyFD) {
		fmt.Fprintf(os.Stderr, "plimsoll %s: started by hand: only the agent starts it, with its pipes\n", ExecCommand)
		return exitUsage
	}
	sealFiles()
	orders, replies := os.NewFile(orderFD, "orders"), json.NewEncoder(os.NewFile(replyFD, "replies"))
	return obey(orders, replies)
}

func obey(orders io.Reader, replies *json.Encoder) int {
	o, err := readOrder(orders)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return exitNeverReleased
	}
	if err != nil {
		replies.Encode(failure("read the order", err))
		return exitUsage
	}
	program, bad := o.assume()
	if bad != nil {
		replies.Encode(bad)
		return exitCannotExec
	}
	replies.Encode(reply{Ready: true})
	var b [1]byte
	if _, err := io.ReadFull(orders, b[:]); err != nil || b[0] != release {
		return exitNeverReleased
	}
	// Not unix.Exec: this one also gives back the limit of open files that Go raised.
	err = syscall.Exec(program, o.Argv, o.Env)
	replies.Encode(failure(fmt.Sprintf("run %q", program), err))
	return exitCannotExec
}

func isPipe(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}

// sealFiles keeps every file but the first three from the command: our pipes, and what the
// agent itself may have been started with.
func sealFiles() {
	if unix.CloseRange(orderFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	unix.CloseOnExec(orderFD) // before Linux 5.11 at least ours
	unix.CloseOnExec(replyFD)
}

// assume takes on the user and directory of the sandbox and finds its program, all with that
// user's rights, so that what it may not do fails now and not after the release.
func (o order) assume() (program string, bad *reply) {
	fail := func(doing string, err error) (string, *reply) {
		r := failure(doing, err)
		return "", &r
	}
	if err := o.becomeUser(); err != nil {
		return fail(fmt.Sprintf("become uid %d gid %d", o.UID, o.GID), err)
	}
	if err := os.Chdir(o.Dir); err != nil {
		return fail(fmt.Sprintf("enter directory %q", o.Dir), err)
	}
	program, err := lookUp(o.Argv[0], o.Env)
	if err != nil {
		return fail(fmt.Sprintf("find the command %q", o.Argv[0]), err)
	}
	return program, nil
}

// becomeUser drops groups first and the user last: the other way round we might no longer.
func (o order) becomeUser() error {
	if os.Geteuid() == 0 {
		groups := make([]int, len(o.Groups))
		for i, g := range o.Groups {
			groups[i] = int(g)
		}
		if err := syscall.Setgroups(groups); err != nil {
			return err
		}
	}
	if err := syscall.Setresgid(int(o.GID), int(o.GID), int(o.GID)); err != nil {
		return err
	}
	if err := syscall.Setresuid(int(o.UID), int(o.UID), int(o.UID)); err != nil {
		return err
	}
	if o.UID == 0 {
		return nil
	}
	// An agent that is not root may have its rights as ambient capabilities, which exec keeps.
	err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	if err == unix.EINVAL { // before Linux 4.3 there are none
		return nil
	}
	return err
}

// lookUp finds a command in the PATH of the sandbox's own environment, as execvp(3) does.
func lookUp(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, runnable(name)
	}
	err := error(syscall.ENOENT)
	for _, dir := range filepath.SplitList(pathOf(env)) {
		program := filepath.Join(dir, name)
		found := runnable(program)
		if found == nil {
			return program, nil
		}
		if errors.Is(found, fs.ErrPermission) {
			err = found // says more than "not there", if nothing better follows
		}
	}
	return "", err
}

func pathOf(env []string) string {
	for _, e := range env {
		if p, ok := strings.CutPrefix(e, "PATH="); ok {
			return p
		}
	}
	return "/usr/local/bin:/usr/bin:/bin"
}

func runnable(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return syscall.EISDIR
	}
	return unix.Access(name, unix.X_OK)
}

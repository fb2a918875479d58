package driver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Prepare makes everything a sandbox needs and holds it just before its command runs. Where
// it fails nothing is left behind, but for the logs. The context bounds Prepare alone.
func (d *Driver) Prepare(ctx context.Context, s Spec) (*Process, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("prepare a sandbox: %w", err)
	}
	if err := d.claim(s.ID); err != nil {
		return nil, fmt.Errorf("prepare a sandbox: %w", err)
	}
	p, g, err := d.begin(s)
	if err != nil {
		d.forget(s.ID)
		return nil, fmt.Errorf("prepare sandbox %s: %w", s.ID, err)
	}
	err = p.place(g, s.OOMScoreAdj)
	d.enter(s.ID, p)
	go p.watch() // from here on the helper's end, however it comes, clears everything away
	if err == nil {
		err = p.brief(ctx, s)
	}
	if err != nil {
		p.Abort()
		return nil, fmt.Errorf("prepare sandbox %s: %w", s.ID, err)
	}
	return p, nil
}

// begin makes logs and cgroup and starts the helper.
func (d *Driver) begin(s Spec) (*Process, group, error) {
	files, err := d.openStdio(s)
	if err != nil {
		return nil, group{}, err
	}
	defer files.close()
	g, err := d.makeGroup(s.ID, s.Memory)
	if err != nil {
		return nil, group{}, err
	}
	p, err := d.launch(s.ID, files)
	if err != nil {
		return nil, group{}, errors.Join(err, g.remove())
	}
	return p, g, nil
}

// hold is the agent's side of a held helper.
type hold struct {
	orders  *os.File // closing it ends the helper
	replies *os.File
	decoder *json.Decoder
}

func (h *hold) close() {
	h.orders.Close()
	h.replies.Close()
}

// launch starts the helper, in a session of its own and with nothing but its files.
func (d *Driver) launch(id string, files stdio) (*Process, error) {
	theirOrders, orders, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe to the helper: %w", err)
	}
	defer theirOrders.Close()
	replies, theirReplies, err := os.Pipe()
	if err != nil {
		orders.Close()
		return nil, fmt.Errorf("make a pipe from the helper: %w", err)
	}
	defer theirReplies.Close()
	h := &hold{orders, replies, json.NewDecoder(replies)}
	pid, pidfd, err := d.start(id, []*os.File{files[0], files[1], files[2], theirOrders, theirReplies})
	if err != nil {
		h.close()
		return nil, err
	}
	p := d.newProcess(id, pid, pidfd)
	p.held = h
	if p.startTime, err = d.machine.StartTime(pid); err != nil {
		p.discard()
		return nil, err
	}
	return p, nil
}

// start forks the helper. It is reaped by its pidfd, in one way with those that we adopt.
func (d *Driver) start(id string, files []*os.File) (pid, pidfd int, err error) {
	pidfd = -1
	child, err := os.StartProcess(d.exec, []string{"plimsoll", ExecCommand, id}, &os.ProcAttr{
		Dir:   "/",
		Env:   []string{"GOMAXPROCS=1"}, // it does one thing; fewer threads are less memory
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
	})
	if err != nil {
		return 0, -1, fmt.Errorf("start the helper: %w: is Exec our own binary?", err)
	}
	if pidfd < 0 {
		child.Kill()
		child.Wait()
		return 0, -1, errors.New("start the helper: this kernel has no pidfd: Linux 5.4 or newer is needed")
	}
	pid = child.Pid
	return pid, pidfd, child.Release()
}

// place moves the helper into its cgroup and gives it its own place in the kernel's order of
// victims. Both happen before it is told anything, and all it becomes inherits them.
func (p *Process) place(g group, oomScoreAdj int) error {
	p.group = g
	err := g.join(p.pid)
	if errors.Is(err, fs.ErrPermission) {
		p.driver.withoutCgroups(err)
		if err = g.remove(); err == nil {
			p.group = group{}
		}
	}
	if err != nil {
		return err
	}
	err = put(filepath.Join("/proc", strconv.Itoa(p.pid), "oom_score_adj"), strconv.Itoa(oomScoreAdj))
	if err != nil {
		return fmt.Errorf("set oom_score_adj to %d: %w: without CAP_SYS_RESOURCE it can be raised only, never be lowered", oomScoreAdj, err)
	}
	return nil
}

// brief tells the helper what to become and waits until it is ready for it.
func (p *Process) brief(ctx context.Context, s Spec) error {
	h := p.held
	stop := context.AfterFunc(ctx, func() {
		h.orders.SetDeadline(time.Unix(1, 0))
		h.replies.SetDeadline(time.Unix(1, 0))
	})
	defer stop()
	err := sendOrder(h.orders, order{s.Argv, s.Env, cmp.Or(s.Dir, "/"), s.UID, s.GID, s.Groups})
	if err != nil && !errors.Is(err, unix.EPIPE) { // a helper that ended may have said why
		return errors.Join(ctx.Err(), fmt.Errorf("tell the helper its command: %w", err))
	}
	var r reply
	switch err := h.decoder.Decode(&r); {
	case ctx.Err() != nil:
		return fmt.Errorf("wait for the helper: %w: allow it more time", ctx.Err())
	case errors.Is(err, io.EOF):
		return fmt.Errorf("the helper ended before it was ready: does Exec (%s) call ExecMain, and are %s enough for it to start? See its words in the stderr log", p.driver.exec, s.Memory)
	case err != nil:
		return fmt.Errorf("understand the helper: %w: is Exec (%s) of the same version?", err, p.driver.exec)
	case !r.Ready:
		return r.err()
	}
	return nil
}

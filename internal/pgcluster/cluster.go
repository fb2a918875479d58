// Package pgcluster makes throw-away PostgreSQL servers, for tests and for scripts/postgres.
//
// Each has a folder, a port on the loopback and a password of its own, so that any number run
// side by side. fsync is on, as in production: what a killed server had confirmed is there
// when it starts again. A server ends with the process that started it.
//
// A Cluster has one owner; URL and Port may be asked by anybody once it was started.
package pgcluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Cluster is one server and its data.
type Cluster struct {
	tools
	dir      string
	password string
	port     int      // 0: never started
	server   *process // nil: not running
	frozen   []int    // processes of the server, once it is frozen
}

// How long the server is given.
const (
	startWithin = 30 * time.Second
	stopWithin  = 10 * time.Second
	lookEvery   = 20 * time.Millisecond
)

// Make makes an empty cluster and does not start it.
func Make(ctx context.Context) (*Cluster, error) {
	c, err := newCluster(rand.Text())
	if err != nil {
		return nil, err
	}
	secret := filepath.Join(c.dir, "password")
	if err = os.WriteFile(secret, []byte(c.password+"\n"), 0o600); err == nil {
		err = c.giveAway(secret)
	}
	if err == nil {
		_, err = c.run(ctx, nil, "initdb", "--no-sync", "--pgdata="+c.data(), "--username=plimsoll", "--pwfile="+secret,
			"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C")
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// newCluster makes the folder.
func newCluster(password string) (*Cluster, error) {
	t, err := findTools()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "plimsoll-postgres.")
	if err != nil {
		return nil, err
	}
	c := &Cluster{tools: t, dir: dir, password: password}
	if err := c.giveAway(dir); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

func (c *Cluster) log() string { return filepath.Join(c.dir, "log") }

// URL is where the server is reached, with full rights.
func (c *Cluster) URL() string {
	return "postgres://plimsoll:" + c.password + "@" + c.Address() + "/postgres?sslmode=disable"
}

// Address is the server's host and port.
func (c *Cluster) Address() string { return "127.0.0.1:" + strconv.Itoa(c.port) }

// Start starts the server, at its former port if it had one, and returns when it takes
// connections. One that was killed recovers first.
func (c *Cluster) Start(ctx context.Context) error {
	if c.server != nil {
		return errors.New("the server runs already")
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	fresh := c.port == 0
	for {
		if fresh {
			c.port = 20000 + mathrand.IntN(12000) // below the ports that connections are given
		}
		said, err := c.tryStart(ctx)
		taken := fresh && strings.Contains(said, "could not bind")
		// Of a killed server some process may still be on its way out.
		occupied := strings.Contains(said, "pre-existing shared memory") || strings.Contains(said, "postmaster.pid")
		if err == nil || ctx.Err() != nil || !taken && !occupied {
			return err
		}
		pause(ctx)
	}
}

// tryStart starts the server once, and returns what it said when it did not come up.
func (c *Cluster) tryStart(ctx context.Context) (said string, err error) {
	log, err := os.OpenFile(c.log(), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { _ = log.Close() }()
	info, err := log.Stat()
	if err != nil {
		return "", err
	}
	cmd := c.command(context.WithoutCancel(ctx), nil, "postgres", "-D", c.data(), "-p", strconv.Itoa(c.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="+c.dir,
		"-c", "fsync=on", "-c", "max_connections=200", "-c", "timezone=UTC")
	cmd.Stdout, cmd.Stderr = log, log
	// A session of its own, so that a Ctrl-C reaches the tests first; and should we be killed
	// outright, it gets the signal to end.
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGINT
	server, err := launch(cmd)
	if err != nil {
		return "", err
	}
	if c.awaitReady(ctx, server) {
		c.server = server
		return "", nil
	}
	server.end(syscall.SIGKILL)
	text, _ := os.ReadFile(c.log())
	said = string(text[min(int(info.Size()), len(text)):])
	return said, fmt.Errorf("PostgreSQL did not start: %s", said)
}

// awaitReady waits until the server takes connections; false: it ended, or took too long.
func (c *Cluster) awaitReady(ctx context.Context, server *process) bool {
	for ctx.Err() == nil && server.alive() {
		if _, err := c.run(ctx, nil, "pg_isready", "-q", "-h", "127.0.0.1", "-p", strconv.Itoa(c.port)); err == nil {
			return server.alive()
		}
		pause(ctx)
	}
	return false
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(lookEvery):
	}
}

// Kill ends the postmaster by SIGKILL. Its other processes see that and go.
func (c *Cluster) Kill() { c.stop(syscall.SIGKILL) }

// StopNow is pg_ctl stop -m immediate: every process quits as it stands.
func (c *Cluster) StopNow() { c.stop(syscall.SIGQUIT) }

// Stop is pg_ctl stop -m fast: sessions are cut, and all is written.
func (c *Cluster) Stop() { c.stop(syscall.SIGINT) }

func (c *Cluster) stop(by syscall.Signal) {
	if c.server == nil {
		return
	}
	for _, pid := range c.frozen {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it could not see the postmaster go
		by = syscall.SIGKILL
	}
	c.server.end(by)
	c.server, c.frozen = nil, nil
}

// Freeze stops every process of the server, whose connections then are neither answered nor
// closed, as if its machine had lost power. After that it can only be killed.
func (c *Cluster) Freeze() error {
	if c.server == nil {
		return errors.New("the server does not run")
	}
	postmaster := c.server.cmd.Process.Pid
	if err := syscall.Kill(postmaster, syscall.SIGSTOP); err != nil {
		return err
	}
	pids, err := childrenOf(postmaster)
	c.frozen = pids
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP) // it may have ended
	}
	return err
}

// Close ends the server and removes all of it.
func (c *Cluster) Close() error {
	c.Stop()
	return os.RemoveAll(c.dir)
}

// Standby copies the running server into a new one, which follows it once it is started, at
// a port of its own or at this one.
func (c *Cluster) Standby(ctx context.Context, port int) (*Cluster, error) {
	s, err := newCluster(c.password)
	if err != nil {
		return nil, err
	}
	s.port = port
	_, err = s.run(ctx, []string{"PGPASSWORD=" + c.password}, "pg_basebackup", "--pgdata="+s.data(), "--write-recovery-conf",
		"--checkpoint=fast", "--no-sync", "--host=127.0.0.1", "--port="+strconv.Itoa(c.port), "--username=plimsoll")
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Port is the server's.
func (c *Cluster) Port() int { return c.port }

// command is one of PostgreSQL's, in a folder that its user may enter.
func (c *Cluster) command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.owner}
	return cmd
}

func (c *Cluster) run(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := c.command(ctx, env, name, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return string(out), nil
}

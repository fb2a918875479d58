package up

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/discover"
)

// announce leaves a note for other commands, and says what is up and what to try.
func (t *Trial) announce() error {
	local := &t.File.Local
	first := t.replicas[0].note
	note := discover.Note{URL: strings.Join(t.urls(), ","), TokenFile: first.TokenFile, Socket: t.agents[0].note.Socket, Sockets: map[string]string{}}
	for _, m := range t.agents {
		note.Sockets[m.name] = m.note.Socket
	}
	if err := note.Write(local.DataDir); err != nil {
		return err
	}
	out := t.Out
	fmt.Fprintf(out, "plimsoll %s is up: %d agents and %d replicas on this machine\n\n", t.Version, t.Agents, t.Replicas)
	for _, m := range t.replicas {
		fmt.Fprintf(out, "  %-10s pid %-7d API %s\n", m.name, m.process.PID(), m.note.URL)
	}
	fmt.Fprintf(out, "  token      %s, good at every replica\n", first.TokenFile)
	for _, m := range t.agents {
		fmt.Fprintf(out, "  %-10s pid %-7d budget %s, boot seam %s\n", m.name, m.process.PID(), t.share, m.note.Socket)
	}
	flag := "--data-dir " + local.DataDir
	class := t.smallest()
	fmt.Fprintf(out, `  data       %s, a directory for each with its log

Try, in another terminal:

  plimsoll %s hosts
  plimsoll %s run --class %s -- sh -c 'echo hello from a sandbox'
  plimsoll %s host drain host-1 --reason 'to see where they go'
  kill -9 %d    # a replica: the others go on%s
  kill -9 %d    # an agent: the others take what comes

Everything ends with this process; what runs in sandboxes goes on, and is taken up again by
the same command.

`, local.DataDir, flag, flag, class, flag, t.replicas[t.Replicas-1].process.PID(), onlyOne(t.Replicas), t.agents[t.Agents-1].process.PID())
	return nil
}

func onlyOne(replicas int) string {
	if replicas == 1 {
		return " (here there is none: start it again)"
	}
	return ""
}

// smallest is the class that most of would fit.
func (t *Trial) smallest() string {
	var best *config.Class
	for i := range t.File.Fleet.Classes {
		c := &t.File.Fleet.Classes[i]
		if !t.File.Fleet.WithoutHosts(c) && (best == nil || c.Memory < best.Memory) {
			best = c
		}
	}
	if best == nil {
		return "CLASS"
	}
	return best.Name
}

// watch says who ends, until ctx does or nobody is left.
func (t *Trial) watch(ctx context.Context) error {
	ended := make(chan *member)
	all := slices.Concat(t.replicas, t.agents)
	for _, m := range all {
		go func() {
			<-m.process.Ended()
			select {
			case ended <- m:
			case <-ctx.Done():
			}
		}()
	}
	for range all {
		select {
		case <-ctx.Done():
			return nil
		case m := <-ended:
			fmt.Fprintf(t.Out, "%s has ended; the others go on\n", m.name)
		}
	}
	return errors.New("every process of the fleet has ended; their logs are in the data directory")
}

// stop ends all of them, the agents first: what they say last is heard.
func (t *Trial) stop() {
	for _, group := range [][]*member{t.agents, t.replicas} {
		var stopping sync.WaitGroup
		for _, m := range group {
			if m.process != nil && m.process.Running() {
				stopping.Go(func() {
					if err := m.process.Stop(); err != nil {
						t.Log.Warn("it did not end as it should", "process", m.name, "err", err)
					}
				})
			}
		}
		stopping.Wait()
	}
	if t.lock != nil {
		discover.Remove(t.File.Local.DataDir)
		t.lock.Close()
	}
}

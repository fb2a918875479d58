package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/boot"
)

// atOnce is how many boots or releases are under way on one host.
const atOnce = 8

// quiet is a sandbox that holds its memory and no more.
func quiet() sandbox { return sandbox{touch: mebibytes(touched), with: os.Getpid()} }

// admit asks once, in refuse mode.
func (n *node) admit(ctx context.Context) (*api.Admission, error) {
	return n.client.Admit(ctx, api.AdmissionRequest{Key: client.NewKey(), Class: className}, client.Options{Wait: client.Once})
}

// admitInTime asks until it is admitted: room that another has left is there a sample later at most,
// since until then what the others have grown by counts beside what they are charged.
func (n *node) admitInTime(ctx context.Context, d *demo) (*api.Admission, error) {
	return n.client.Admit(ctx, api.AdmissionRequest{Key: client.NewKey(), Class: className}, client.Options{Wait: d.patience()})
}

// boot boots an admission through the seam, as a caller of the SDK would.
func (n *node) boot(ctx context.Context, d *demo, a *api.Admission, s sandbox) error {
	command := boot.Command{
		Argv: append([]string{n.self}, s.args()...),
		Env:  []string{marker + "=" + d.plan.run, "GOMAXPROCS=1"},
		Dir:  "/", Detach: true,
	}
	if _, err := n.seam.Run(ctx, a.Ticket, command, io.Discard, io.Discard, nil); err != nil {
		return fmt.Errorf("boot %s: %w", a.Key, err)
	}
	return nil
}

// bootPending boots all that was admitted.
func (n *node) bootPending(ctx context.Context, d *demo, s sandbox) error {
	boots := n.pending
	n.pending = nil
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, a := range boots {
		group.Go(func() error { return n.boot(ctx, d, a, s) })
	}
	return group.Wait()
}

// reserve admits until so many run or are about to.
func (n *node) reserve(ctx context.Context, count int) error {
	h, err := n.view(ctx)
	if err != nil {
		return err
	}
	for i := len(h.Sandboxes) + int(h.Reservations); i < count; i++ {
		a, err := n.admit(ctx)
		if err != nil {
			return fmt.Errorf("create %d of %d: %w", i+1, count, err)
		}
		n.pending = append(n.pending, a)
	}
	return nil
}

// raise admits and boots until so many run.
func (n *node) raise(ctx context.Context, d *demo, count int, s sandbox) error {
	if err := n.reserve(ctx, count); err != nil {
		return err
	}
	return n.bootPending(ctx, d, s)
}

// lower releases until no more than so many run, and waits until the host has the room again:
// what is free is measured, up to 50 ms later.
func (n *node) lower(ctx context.Context, d *demo, count int) error {
	h, err := n.view(ctx)
	if err != nil {
		return err
	}
	var keys []string
	for _, s := range h.Sandboxes[:max(len(h.Sandboxes)-count, 0)] {
		keys = append(keys, s.Key)
	}
	if err := n.release(ctx, keys); err != nil {
		return err
	}
	return d.await(ctx, "room on host "+n.name+" after a release", "all that is not promised", func(ctx context.Context) (string, bool, error) {
		h, err := n.view(ctx)
		if err != nil {
			return "", false, err
		}
		const rounding = 2 // whole MiB, each rounded to the safe side
		free := n.expect.line.Sub(promised(h)).FloorMiB()
		return fmt.Sprintf("%s of %s", mib(h.AdmittableMB), mib(free)), h.AdmittableMB >= free-rounding, nil
	})
}

// release gives back; the call returns when slot and memory are free.
func (n *node) release(ctx context.Context, keys []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, key := range keys {
		group.Go(func() error {
			if _, err := n.client.Release(ctx, key); err != nil {
				return fmt.Errorf("release %s: %w", key, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// burst is what came of many creates at once.
type burst struct {
	mu       sync.Mutex // guards what follows
	admitted []*api.Admission
	refused  map[api.Code]int
	failed   []error
}

// storm asks for so many at the same moment.
func (n *node) storm(ctx context.Context, count int) *burst {
	b := &burst{refused: map[api.Code]int{}}
	gun := make(chan struct{})
	var callers sync.WaitGroup
	for range count {
		callers.Go(func() {
			<-gun
			b.note(n.admit(ctx))
		})
	}
	close(gun)
	callers.Wait()
	return b
}

func (b *burst) note(a *api.Admission, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, isRefusal := api.AsRefusal(err)
	switch {
	case err == nil:
		b.admitted = append(b.admitted, a)
	case isRefusal:
		b.refused[r.Code]++
	default:
		b.failed = append(b.failed, err)
	}
}

func (b *burst) err() error { return errors.Join(b.failed...) }

package client

import (
	"context"
	"net/http"

	"github.com/plimsoll-project/plimsoll/api"
)

// Heartbeat keeps an admission alive that has not booted yet and returns it with a fresh
// ticket; the old one is worth nothing longer. Due every HeartbeatMS.
func (c *Client) Heartbeat(ctx context.Context, key string) (*api.Admission, error) {
	out := new(api.Admission)
	_, err := c.do(ctx, call{method: http.MethodPost, path: byKey(key) + "/heartbeat"}, out)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Release gives an admission back, whatever its state: it ends a sandbox that runs, and
// gives up a place in the queue. It may be called twice. It returns when slot and memory are
// free, or with ctx, or when a replica could not be reached a few times; what has been asked
// for goes on then. An error that is api.NotFound means that nothing is held under this key.
func (c *Client) Release(ctx context.Context, key string) (*api.Admission, error) {
	return c.release(ctx, byKey(key))
}

// ReleaseID is Release by the server's name for the admission.
func (c *Client) ReleaseID(ctx context.Context, id string) (*api.Admission, error) {
	return c.release(ctx, byID(id))
}

func (c *Client) release(ctx context.Context, path string) (*api.Admission, error) {
	a := new(api.Admission)
	err := c.persist(ctx, call{method: http.MethodDelete, path: path}, a)
	for tries := 0; err == nil && a.State == api.AdmissionStateReleasing; tries++ {
		if err := sleep(ctx, c.lookAgain(tries)); err != nil {
			return a, err
		}
		// By its id: the key may name a new admission by now.
		err = c.persist(ctx, call{method: http.MethodGet, path: byID(a.ID)}, a)
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// releaseTries bounds how often a release is sent to replicas that do not answer.
const releaseTries = 6

// persist makes an idempotent call, and makes it again when the answer is not now.
func (c *Client) persist(ctx context.Context, q call, out *api.Admission) error {
	for tries := 0; ; tries++ {
		_, err := c.do(ctx, q, out)
		if err == nil || ctx.Err() != nil || !again(err) || tries+1 == releaseTries {
			return err
		}
		if slept := sleep(ctx, RetryAfter(err)+c.jitter(tries)); slept != nil {
			return err
		}
	}
}

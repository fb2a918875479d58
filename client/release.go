package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/backoff"
)

// Heartbeat keeps an admission alive that has not booted yet and returns it with a fresh
// ticket; the old one is worth nothing longer. Due every HeartbeatMS. Where no host answers
// for the slot (Audience is set) it is due for as long as the sandbox runs.
func (c *Client) Heartbeat(ctx context.Context, key string) (*api.Admission, error) {
	return c.beat(ctx, byKey(key))
}

// HeartbeatID is Heartbeat by the server's name for the admission: of a class that hosts alone
// record, any replica knows by it which host to ask, where a key has it ask them all.
func (c *Client) HeartbeatID(ctx context.Context, id string) (*api.Admission, error) {
	return c.beat(ctx, byID(id))
}

func (c *Client) beat(ctx context.Context, path string) (*api.Admission, error) {
	a := new(api.Admission)
	if _, err := c.do(ctx, call{method: http.MethodPost, path: path + "/heartbeat", keyed: true}, a); err != nil {
		return nil, err
	}
	return a, nil
}

// Release gives an admission back, whatever its state: it ends a sandbox that runs, and
// gives up a place in the queue. It may be called twice. It returns when slot and memory are
// free, or with ctx, or when a replica could not be reached a few times; what has been asked
// for goes on then, and the answer beside the error is what was last seen. An error that is
// api.NotFound means that nothing is held under this key.
func (c *Client) Release(ctx context.Context, key string) (*api.Admission, error) {
	return c.release(ctx, byKey(key), nil)
}

// ReleaseAdmission is Release of what was admitted, and of nothing that its key stands for
// since: a call that arrives late ends no later admission of the key. An error that is
// api.NotFound means that it is over.
func (c *Client) ReleaseAdmission(ctx context.Context, a *api.Admission) (*api.Admission, error) {
	// By its id: of a class that hosts alone record every admission has the same epoch.
	return c.release(ctx, byID(a.ID), url.Values{"epoch": {strconv.FormatInt(a.Epoch, 10)}})
}

// ReleaseID is Release by the server's name for the admission.
func (c *Client) ReleaseID(ctx context.Context, id string) (*api.Admission, error) {
	return c.release(ctx, byID(id), nil)
}

func (c *Client) release(ctx context.Context, path string, query url.Values) (*api.Admission, error) {
	a := new(api.Admission)
	err := c.persist(ctx, call{method: http.MethodDelete, path: path, query: query}, a, again)
	for look := firstLook; err == nil && a.State == api.AdmissionStateReleasing; look = min(2*look, lastLook) {
		if err := sleep(ctx, look); err != nil {
			return a, err
		}
		// By its id: the key may name a new admission by now.
		err = c.persist(ctx, call{method: http.MethodGet, path: byID(a.ID)}, a, again)
		if errors.Is(err, api.NotFound) { // its host alone recorded it, and has forgotten it since
			a.State, err = api.AdmissionStateReleased, nil
		}
	}
	if a.ID == "" {
		a = nil
	}
	return a, err
}

// The pauses between two looks at something that ends by itself.
const (
	firstLook = 50 * time.Millisecond
	lastLook  = time.Second
)

// persistence bounds how long an undoing is tried against replicas that do not answer.
const (
	persistence   = 10 * time.Second
	persistWindow = 2 * time.Second
)

// persist makes an idempotent call, and makes it again when an error is worth that.
func (c *Client) persist(ctx context.Context, q call, out any, worth func(error) bool) error {
	end := time.Now().Add(persistence)
	pacer := backoff.New(backoff.Policy{Base: c.policy.Base, Cap: min(persistWindow, c.widest()), Deadline: persistence}, time.Now())
	for {
		_, err := c.do(ctx, q, out)
		if err == nil || ctx.Err() != nil || !worth(err) {
			return err
		}
		in, what := pacer.Next(time.Now(), outcome(err), c.random())
		if what != backoff.Retry || sleep(ctx, in) != nil {
			return err
		}
		if unanswered(err) && !c.afford(ctx, end) {
			return err
		}
	}
}

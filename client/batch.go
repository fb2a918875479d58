package client

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

// BatchOutcome is what one ask of a batch was told: one of the three is set.
type BatchOutcome struct {
	Key       string
	Admission *api.Admission
	Waiting   *api.Waiting
	Err       error // an [api.Refusal], as Admit returns it
}

// MostInBatch is how many asks a batch may have.
const MostInBatch = 256

// AdmitBatch asks for many sandboxes in one call, and returns what each was told, in their
// order; that some are refused is the normal case. It asks once: what was told NotNow is asked
// for again, with the same key, by Admit or by the next batch. Asks without a key get a
// random one. An error means that nothing is known of any of them; to ask again is safe if
// the keys are the caller's own.
func (c *Client) AdmitBatch(ctx context.Context, asks []api.AdmissionRequest) ([]BatchOutcome, error) {
	asks = slices.Clone(asks)
	for i := range asks {
		if asks[i].Key == "" {
			asks[i].Key = NewKey()
		}
	}
	var answer api.BatchAnswer
	q := call{method: http.MethodPost, path: "/v1/admissions:batch", body: api.AdmissionBatch{Admissions: asks}, keyed: true}
	if _, err := c.do(ctx, q, &answer); err != nil {
		return nil, err
	}
	if len(answer.Results) != len(asks) {
		return nil, fmt.Errorf("%s: %d answers to %d asks", q.path, len(answer.Results), len(asks))
	}
	out := make([]BatchOutcome, len(asks))
	for i, r := range answer.Results {
		out[i] = BatchOutcome{Key: asks[i].Key, Admission: r.Admission, Waiting: r.Waiting}
		switch {
		case r.Problem != nil:
			out[i].Err = refusalIn(*r.Problem, int(r.Status), nil, time.Now())
		case r.Admission == nil && r.Waiting == nil:
			out[i].Err = fmt.Errorf("%s: no answer to ask %d, status %d", q.path, i, r.Status)
		}
	}
	return out, nil
}

package control

import (
	"context"
	"reflect"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/internal/config"
)

// Item is one ask of a batch. Err is what was wrong with it before anybody looked.
type Item struct {
	Request api.AdmissionRequest
	Err     error
}

// ItemOutcome is what one ask of a batch is told.
type ItemOutcome struct {
	Outcome
	Err error
}

// AdmitBatch answers many asks of one caller, in their order. They are under way together, so
// that their claims share a commit, their questions to a host a frame, and their refusals a
// sweep. A key that stands twice is asked once: one admission has one answer.
func (g *Gateway) AdmitBatch(ctx context.Context, who *config.Consumer, items []Item) []ItemOutcome {
	out := make([]ItemOutcome, len(items))
	first := make(map[string]int, len(items)) // key -> the first that asks for it
	same := make([]int, len(items))           // -> the one whose answer it gets; itself for most
	b := batch{gateway: g, who: who, asks: make([]batchAsk, 0, len(items))}
	for i := range items {
		item := &items[i]
		same[i] = i
		at, twice := first[item.Request.Key]
		switch {
		case item.Err != nil:
			out[i].Err = g.Refused(asRefusal(item.Err), who)
		case twice && !sameAsk(&items[at].Request, &item.Request):
			out[i].Err = g.refused(api.Refuse(api.KeyConflict, "key %s stands twice in this batch, with other contents", item.Request.Key), who, item.Request.Class, "")
		case twice:
			same[i] = at
		default:
			first[item.Request.Key] = i
			b.asks = append(b.asks, batchAsk{request: &item.Request, out: &out[i]})
		}
	}
	b.run(ctx)
	for i, at := range same {
		if at != i {
			out[i] = out[at]
			out[i].New = false
		}
	}
	return out
}

// asRefusal is an error that stands in an item: what was wrong with its text.
func asRefusal(err error) *api.Refusal {
	if r, ok := api.AsRefusal(err); ok {
		return r
	}
	return api.Refuse(api.InvalidRequest, "%s", err)
}

// sameAsk says whether two asks are of the same contents. A receipt only tells when it was
// refused before.
func sameAsk(a, b *api.AdmissionRequest) bool {
	x, y := *a, *b
	x.Receipt, y.Receipt = "", ""
	return reflect.DeepEqual(x, y)
}

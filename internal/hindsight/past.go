package hindsight

import (
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/table"
)

// heard is a host's word, with when it was heard by the replica's clock.
type heard struct {
	verdict table.Verdict
	at      time.Duration
}

// Past is what one replica remembers of the words of hosts.
type Past struct {
	words map[string][]heard // host -> its latest words, the oldest first
}

// NewPast returns one that has heard nothing.
func NewPast() *Past { return &Past{words: map[string][]heard{}} }

// Hear takes a host's word in. Of those within Spacing the first and the newest are kept, so
// that a chatty host does not drive out what was known a moment ago.
func (p *Past) Hear(now time.Duration, v table.Verdict) {
	all := p.words[v.Host]
	if n := len(all); n > 1 && now-all[n-2].at < Spacing {
		all = all[:n-1]
	} else if n == Words {
		all = slices.Delete(all, 0, 1)
	}
	p.words[v.Host] = append(all, heard{v, now})
}

// Forget drops a host that was buried.
func (p *Past) Forget(host string) { delete(p.words, host) }

// At is the newest word of a host that had been heard at a time; nil: there was none.
func (p *Past) At(host string, at time.Duration) *Word {
	for _, w := range slices.Backward(p.words[host]) {
		if w.at <= at {
			return &Word{Verdict: w.verdict, Age: at - w.at}
		}
	}
	return nil
}

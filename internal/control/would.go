package control

import (
	"maps"
	"sync"
)

// wouldBe counts by pool the refusals that were only told, since this replica started.
type wouldBe struct {
	mu sync.Mutex                  // guards by
	by map[string]map[string]int64 // pool -> reason -> how often
}

func (w *wouldBe) count(pool, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = map[string]map[string]int64{}
	}
	if w.by[pool] == nil {
		w.by[pool] = map[string]int64{}
	}
	w.by[pool][reason]++
}

func (w *wouldBe) of(pool string) map[string]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.by[pool])
}

package fleettest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// onlooker counts the slots that are held, in one snapshot after the other, by a connection
// of his own.
type onlooker struct {
	t  *testing.T
	mu sync.Mutex // makes one question at a time out of those of the watch and of others
	// query hands each row to each, to be scanned.
	query func(ctx context.Context, each func(scan func(...any) error) error, sql string) error

	limits map[string]int64 // pool -> the most that may be held, of pools without shares
	beside beside

	snapshots int
	most      map[string]int64 // pool -> slots held at once
	sum       int64            // of slots held in all snapshots
	epochs    map[string]int64 // consumer and key -> newest epoch that was seen
}

func (o *onlooker) ask(ctx context.Context, each func(scan func(...any) error) error, sql string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.query(ctx, each, sql)
}

const held = `SELECT pool, consumer, key, epoch FROM admissions WHERE state IN ('placing', 'admitted', 'running', 'releasing')`

// watch looks until ctx ends.
func (o *onlooker) watch(ctx context.Context) {
	for ctx.Err() == nil {
		o.look(ctx)
		sleep(ctx, 25*time.Millisecond)
	}
}

// begin watches until end.
func (o *onlooker) begin() {
	ctx, stop := context.WithCancel(o.t.Context())
	o.beside.stop = stop
	o.beside.all.Go(func() { o.watch(ctx) })
}

func (o *onlooker) end() {
	o.beside.stop()
	o.beside.all.Wait()
}

// look takes one snapshot, if the database is there.
func (o *onlooker) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	busy, others, epochs := map[string]int64{}, int64(0), map[string]int64{}
	err := o.ask(ctx, func(scan func(...any) error) error {
		var pool, consumer, key string
		var epoch int64
		err := scan(&pool, &consumer, &key, &epoch)
		busy[pool]++
		if pool == "shared" && consumer != "chat" {
			others++
		}
		epochs[name(consumer, key)] = epoch
		return err
	}, held)
	if err != nil {
		return
	}
	o.snapshots++
	if busy["shared"] > sharedCap || others > sharedCap-chatsShare || busy["small"] > smallCap {
		o.t.Errorf("held at once: %v, of shared %d by others than chat", busy, others)
	}
	for pool, n := range busy {
		if most, ok := o.limits[pool]; ok && n > most {
			o.t.Errorf("of pool %s %d are held at once, and its cap is %d", pool, n, most)
		}
		o.sum += n
		o.most[pool] = max(o.most[pool], n)
	}
	for key, epoch := range epochs {
		if was := o.epochs[key]; epoch < was {
			o.t.Errorf("%s is at epoch %d, and was at %d", key, epoch, was)
		}
		o.epochs[key] = epoch
	}
}

// number asks for one; an error is not an answer.
func (o *onlooker) number(ctx context.Context, sql string) (n int64, err error) {
	err = o.ask(ctx, func(scan func(...any) error) error { return scan(&n) }, sql)
	return n, err
}

// left says what is still held or waits, or "".
func (o *onlooker) left(ctx context.Context) string {
	n, err := o.number(ctx, "SELECT count(*) FROM ("+held+") AS held")
	waiting, errWaiting := o.number(ctx, "SELECT count(*) FROM admissions WHERE state = 'waiting_capacity'")
	if err != nil || errWaiting != nil || n+waiting > 0 {
		return fmt.Sprintf("%d held, %d waiting (%v, %v)", n, waiting, err, errWaiting)
	}
	return ""
}

// expired holds what the store let expire against what callers kept.
func (o *onlooker) expired(ctx context.Context, b *book) (n int) {
	err := o.ask(ctx, func(scan func(...any) error) error {
		var consumer, key string
		var epoch int64
		err := scan(&consumer, &key, &epoch)
		if n++; err == nil && b.kept(consumer, key, epoch) {
			o.t.Errorf("%s expired at epoch %d, and its caller kept it", name(consumer, key), epoch)
		}
		return err
	}, "SELECT consumer, key, epoch FROM admissions WHERE state = 'expired'")
	if err != nil {
		o.t.Error(err)
	}
	return n
}

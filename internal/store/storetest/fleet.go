package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/plimsoll-project/plimsoll/internal/control"
)

// A fleet by which questions about all hosts are measured, and their plans looked at.
const (
	FleetHosts = 10_000
	perHost    = 30 // placements
)

// FleetScript fills an empty database, in words that both databases know: hosts with what is
// placed on them, and as much that has ended.
func FleetScript(hosts int) []string {
	count := func(n int) string {
		return fmt.Sprintf("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) ", n)
	}
	const columns = `INSERT INTO admissions (id, consumer, key, tenant, class, template, memory_mb, cpu_milli, labels,
		pinned_host, prefer, stateful, pool, mode, max_queue_age_ms, state, reason, gen, epoch, host, place, waited, late,
		spared_at, waiting_for, queued_at, present_until, hostless_at, placing_at, admitted_at, reserved_until, running_at,
		freed_at, ended_at) `
	const values = `SELECT %s || i, 'c', %s || i, 't', 'small', '', 512, 500, '', '', false, false, 'p', 'refuse', 0,
		%s, '', i, i, %s, 0, false, false, 0, '', 0, 0, 0, 1, 1, 1, %s, %s, %s FROM n`
	placed := fmt.Sprintf(values, "'a'", "'a'", "CASE WHEN i % 10 = 0 THEN 'admitted' ELSE 'running' END", fmt.Sprintf("'h' || (i %% %d)", hosts), "1", "0", "0")
	ended := fmt.Sprintf(values, "'e'", "'e'", "'released'", "''", "1", "2", "2")
	return []string{
		count(hosts) + "INSERT INTO hosts (id, incarnation, registered_at) SELECT 'h' || (i - 1), i, 1 FROM n",
		count(hosts*perHost) + columns + placed,
		count(hosts*perHost) + columns + ended,
	}
}

// BenchFleet measures what replicas ask about all of FleetHosts again and again.
func BenchFleet(b *testing.B, s control.Store) {
	ctx, all := context.Background(), make([]string, FleetHosts)
	for i := range all {
		all[i] = fmt.Sprint("h", i)
	}
	for name, ask := range map[string]func() (int, error){
		"holdings": func() (int, error) { h, err := s.Holdings(ctx); return len(h), err },
		"list of one host": func() (int, error) {
			rows, err := s.List(ctx, control.Filter{Host: "h7"})
			return len(rows) / perHost * FleetHosts, err
		},
		"pulse":          func() (int, error) { _, err := s.Pulse(ctx, all); return FleetHosts, err },
		"pulse, unheard": func() (int, error) { _, err := s.Pulse(ctx, nil); return FleetHosts, err },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if n, err := ask(); err != nil || n != FleetHosts {
					b.Fatalf("%d hosts: %v", n, err)
				}
			}
		})
	}
}

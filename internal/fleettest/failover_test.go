package fleettest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/pgcluster"
)

// TestFailoverKills is for make soak: the servers' PostgreSQL is a primary with a synchronous
// standby; the primary is killed for good and the standby promoted, again and again, under the
// same load. Nothing that was confirmed is lost, and the servers find the new primary by
// themselves.
func TestFailoverKills(t *testing.T) {
	if !soak() {
		t.Skip("make soak runs it")
	}
	rng := random(t)
	p := newPair(t)
	var replicas []*replica
	for range 3 {
		r := newReplica(t, "server", p.URL())
		r.start()
		replicas = append(replicas, r)
	}
	for _, r := range replicas {
		r.becomesReady()
	}
	l := begin(t, replicas, &onlooker{query: postgresQuery(p)}, rng, silentFor+hung)
	k := &killer{t: t, rng: rng, replicas: replicas, deeds: map[string]int{}}
	k.kinds = []kind{
		{"primary killed", 4, func() { p.failover(false) }},
		{"primary silent", 1, func() { p.failover(true) }},
		{"replica killed", 2, k.killReplica},
		{"replica stopped", 1, k.stopReplica},
	}
	k.until(func() bool { return k.deeds["primary killed"]+k.deeds["primary silent"] >= 20 })
	l.endsWell()
	t.Logf("from the kill of a primary to a new one that takes writes: %v", p.took)
}

// pair is a primary and its synchronous standby, at two ports that stay.
type pair struct {
	t                *testing.T
	url              string
	primary, standby *pgcluster.Cluster
	took             []time.Duration // of each failover
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{t: t, primary: newCluster(t)}
	p.follow(0)
	p.url = strings.Replace(p.primary.URL(), p.primary.Address(), p.primary.Address()+","+p.standby.Address(), 1) + "&target_session_attrs=read-write"
	return p
}

// URL names both; the one that takes writes is meant.
func (p *pair) URL() string { return p.url }

// follow makes a standby of the primary, whose commits wait for it from then on.
func (p *pair) follow(port int) {
	p.t.Helper()
	s, err := p.primary.Standby(p.t.Context(), port)
	if err != nil {
		p.t.Fatal(err)
	}
	p.standby = s
	p.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			p.t.Error(err)
		}
	})
	if err := s.Start(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	execute(p.t, p.primary.URL(), "ALTER SYSTEM SET synchronous_standby_names = '*'")
	execute(p.t, p.primary.URL(), "SELECT pg_reload_conf()")
	o := &onlooker{query: postgresQuery(p.primary)}
	becomes(p.t, "the standby is synchronous", startWithin, func() string {
		if n, err := o.number(p.t.Context(), "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"); n != 1 {
			return fmt.Sprintf("%d are (%v)", n, err)
		}
		return ""
	})
}

// silentFor is longer than a replica waits for an answer.
const silentFor = 25 * time.Second

// failover ends the primary for good, promotes the standby, and gives that one a new standby
// in the place of the old primary. A silent one neither answers nor closes a connection.
func (p *pair) failover(silent bool) {
	p.t.Helper()
	began, port := time.Now(), p.primary.Port()
	if !silent {
		p.primary.Kill()
	} else if err := p.primary.Freeze(); err != nil {
		p.t.Fatal(err)
	}
	execute(p.t, p.standby.URL(), "SELECT pg_promote()")
	p.took = append(p.took, time.Since(began).Round(time.Millisecond))
	if silent {
		time.Sleep(silentFor)
	}
	if err := p.primary.Close(); err != nil {
		p.t.Error(err)
	}
	p.primary = p.standby
	p.follow(port)
}

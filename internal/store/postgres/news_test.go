package postgres

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
	"github.com/plimsoll-project/plimsoll/pool"
)

// A slot that one replica frees wakes the other, and no longer the one that freed it; so does
// a changed limit, and a connection that was cut is made anew.
func TestFreedWakesTheOther(t *testing.T) {
	dsn := freshSchema(t)
	dsn += separator(dsn) + "application_name=" + t.Name() + strconv.Itoa(os.Getpid())
	one, other := opened(t, dsn, Options{}), opened(t, dsn, Options{})
	woken(t, one, "it listens")
	woken(t, other, "it listens")
	storetest.Configure(t, one, storetest.OnePool(1, 5))
	woken(t, other, "a configuration")
	c, err := one.Claim(t.Context(), newClaim(1))
	if err != nil || c.Verdict != pool.Granted {
		t.Fatal(c.Verdict, err)
	}
	if _, _, err := one.Leave(t.Context(), c.Row.ID, c.Row.Passage()); err != nil {
		t.Fatal(err)
	}
	woken(t, other, "a free slot")
	if len(one.Freed()) > 0 {
		t.Error("a replica heard itself")
	}
	endSessions(t, dsn)
	woken(t, other, "it listens again")
	if _, _, err := one.Override(t.Context(), "p", pool.Override{Cap: 5, By: "o", Reason: "r"}, 0); err != nil {
		t.Fatal(err)
	}
	woken(t, other, "a cap")
}

func woken(t *testing.T, s *Store, by string) {
	t.Helper()
	select {
	case <-s.Freed():
	case <-time.After(20 * time.Second):
		t.Fatalf("not woken: %s", by)
	}
}

// Many slots freed at once are one word.
func TestFreedIsToldSeldom(t *testing.T) {
	dsn := freshSchema(t)
	s := opened(t, dsn, Options{})
	storetest.Configure(t, s, storetest.OnePool(-1, 5))
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err := conn.Exec(t.Context(), "LISTEN "+channel); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for i := range 100 {
		c, err := s.Claim(t.Context(), newClaim(i))
		if err == nil {
			_, _, err = s.Leave(t.Context(), c.Row.ID, c.Row.Passage())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_notify($1, 'end')", channel); err != nil {
		t.Fatal(err)
	}
	most := int(time.Since(began)/tellEvery) + 2
	for words := 0; ; {
		n, err := conn.WaitForNotification(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n.Payload == s.news.self {
			words++
		}
		if words > most {
			t.Fatalf("%d words, at most %d", words, most)
		}
		if n.Payload == "end" {
			return
		}
	}
}

// Where nothing can be told, the store says so once and goes on.
func TestFreedWithoutNews(t *testing.T) {
	log := newLines()
	s := opened(t, freshSchema(t), Options{})
	n := newNews(s.news.connections, slog.New(slog.NewTextHandler(log, nil)))
	unreachable, cancel := context.WithCancel(t.Context())
	config := s.news.connections.Config()
	config.ConnConfig.Port = 1
	n.connections = mustPool(t, config)
	var wg sync.WaitGroup
	wg.Go(func() { n.tell(unreachable) })
	wg.Go(func() { n.listen(unreachable) })
	n.freed()
	n.freed()
	for range 2 {
		log.wait(t)
	}
	n.freed()
	cancel()
	wg.Wait()
	if got := log.String(); strings.Count(got, "level=WARN") != 2 {
		t.Errorf("said:\n%s", got)
	}
	if !unknown(&pgconn.PgError{Code: "0A000"}) || !unknown(&pgconn.PgError{Code: "42601"}) || unknown(&pgconn.PgError{Code: "57P01"}) {
		t.Error("what a server does not know is taken for an outage, or the other way round")
	}
}

func mustPool(t *testing.T, config *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	p, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// lines is a log that may be waited for.
type lines struct {
	mu    sync.Mutex // guards text
	text  strings.Builder
	wrote chan struct{}
}

func newLines() *lines { return &lines{wrote: make(chan struct{}, 100)} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrote <- struct{}{}
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) wait(t *testing.T) {
	t.Helper()
	select {
	case <-l.wrote:
	case <-time.After(20 * time.Second):
		t.Fatalf("nothing was said beyond:\n%s", l.String())
	}
}

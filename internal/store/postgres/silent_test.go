package postgres

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A server that is gone without a word, as one whose machine lost power, leaves connections on
// which nobody answers: a question on one of them ends in time, and the next one has another.
func TestQueryOfASilentServer(t *testing.T) {
	p, config := newSilencer(t)
	connections := mustPool(t, config)
	db, err := connect(t.Context(), connections, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	db.readFor = 200 * time.Millisecond
	p.strand()
	defer p.cut()
	if n, err := one(t.Context(), db); err == nil {
		t.Errorf("answered %d by nobody", n)
	}
	db.readFor = readFor
	if n, err := one(t.Context(), db); err != nil || n != 1 {
		t.Errorf("answered %d (%v)", n, err)
	}
}

func one(ctx context.Context, db *database) (n int64, err error) {
	rows, err := db.Query(ctx, "SELECT 1::bigint")
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&n); err != nil {
			return 0, err
		}
	}
	return n, rows.Err()
}

// Who listens finds such a connection by itself, and listens on another.
func TestListenToASilentServer(t *testing.T) {
	p, config := newSilencer(t)
	n := newNews(mustPool(t, config), slog.New(slog.DiscardHandler))
	n.helloEvery = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { n.listen(ctx) })
	listens := func() {
		t.Helper()
		select {
		case <-n.heard:
		case <-time.After(20 * time.Second):
			t.Fatal("it does not listen")
		}
	}
	listens()
	p.strand()
	listens()
	cancel()
	p.cut()
	wg.Wait()
}

// silencer stands before the server, and can fall silent on the connections that there are.
type silencer struct {
	to string

	mu       sync.Mutex    // guards what follows
	stranded chan struct{} // closed for the connections that were made before
	conns    []net.Conn
}

func newSilencer(t *testing.T) (*silencer, *pgxpool.Config) {
	t.Helper()
	config, err := parse(freshSchema(t))
	if err != nil {
		t.Fatal(err)
	}
	config.PingTimeout = 100 * time.Millisecond
	c := config.ConnConfig
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &silencer{to: net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), stranded: make(chan struct{})}
	_, port, _ := strings.Cut(l.Addr().String(), ":")
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	c.Port = uint16(n)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.pass(conn)
		}
	}()
	return p, config
}

func (p *silencer) strand() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.stranded)
	p.stranded = make(chan struct{})
}

// cut ends every connection, so that nobody waits for the silent ones to be closed.
func (p *silencer) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
}

// pass copies both ways until the connection is stranded; then it is kept, and nothing passes.
func (p *silencer) pass(in net.Conn) {
	p.mu.Lock()
	stranded := p.stranded
	p.conns = append(p.conns, in)
	p.mu.Unlock()
	out, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = in.Close()
		return
	}
	heard := func(w io.Writer, r net.Conn, ended chan<- struct{}) {
		defer close(ended)
		buf := make([]byte, 32<<10)
		for {
			n, err := r.Read(buf)
			select {
			case <-stranded:
				n = 0
			default:
			}
			if _, wrong := w.Write(buf[:n]); err != nil || wrong != nil {
				return
			}
		}
	}
	asked, answered := make(chan struct{}), make(chan struct{})
	go heard(out, in, asked)
	go heard(in, out, answered)
	<-asked // the client hung up
	_ = out.Close()
	<-answered
	_ = in.Close()
}

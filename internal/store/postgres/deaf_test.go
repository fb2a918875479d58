package postgres

import (
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
)

// Behind a pooler that takes a LISTEN and passes nothing on, the store says so once and works.
func TestUnheardBehindAPooler(t *testing.T) {
	dsn := freshSchema(t)
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	server := net.JoinHostPort(config.ConnConfig.Host, strconv.Itoa(int(config.ConnConfig.Port)))
	log := newLines()
	s := opened(t, strings.Replace(dsn, server, deafProxy(t, server), 1), Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	log.wait(t)
	storetest.Configure(t, s, storetest.OnePool(1, 5))
	if c, err := s.Claim(t.Context(), newClaim(1)); err != nil || c.Row.Gen == 0 {
		t.Errorf("%+v %v", c, err)
	}
	if got := log.String(); !strings.Contains(got, errUnheard.Error()) || len(s.Freed()) > 0 {
		t.Errorf("said %q, heard %d", got, len(s.Freed()))
	}
}

// deafProxy passes on all that a server says but notifications.
func deafProxy(t *testing.T, server string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go pass(client, server)
		}
	}()
	return l.Addr().String()
}

func pass(client net.Conn, server string) {
	defer func() { _ = client.Close() }()
	upstream, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(upstream, client)
		_ = upstream.Close()
	}()
	const notification = 'A'
	for {
		head := make([]byte, 5) // a type, and a length that counts itself
		if _, err := io.ReadFull(upstream, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(upstream, body); err != nil {
			return
		}
		if head[0] == notification {
			continue
		}
		if _, err := client.Write(append(head, body...)); err != nil {
			return
		}
	}
}

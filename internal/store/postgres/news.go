package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// How replicas wake each other's waiters.
const (
	channel    = "plimsoll_freed"
	tellEvery  = 20 * time.Millisecond // a NOTIFY takes a lock of the whole database at its commit
	tellFor    = 5 * time.Second       // after which a word is given up; the next one says the same
	helloFor   = 2 * time.Second       // after which a connection counts as one that hears nothing
	helloEvery = 30 * time.Second      // of silence, for the other end may be gone without a word
	deafFor    = 5 * time.Minute       // after which one that heard nothing is tried again
	redialFrom = 100 * time.Millisecond
	redialTo   = 30 * time.Second
)

// news is the word of freed slots from replica to replica. It is a hint: where the server or
// a pooler refuses it, each replica's waiters look by themselves every few seconds.
type news struct {
	connections *pgxpool.Pool
	log         *slog.Logger
	helloEvery  time.Duration
	self        string        // payload of one's own word, which is no news
	freedHere   chan struct{} // of one: something was freed and not yet told
	heard       chan struct{} // of one: another replica told of something
}

func newNews(connections *pgxpool.Pool, log *slog.Logger) *news {
	return &news{connections, log, helloEvery, fmt.Sprintf("%016x", rand.Uint64()), make(chan struct{}, 1), make(chan struct{}, 1)}
}

// freed never waits.
func (n *news) freed() { signal(n.freedHere) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// tell sends a word for all that was freed since the last one, until ctx ends.
func (n *news) tell(ctx context.Context) {
	refused := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.freedHere:
		}
		if err := n.notify(ctx, n.self); err != nil && ctx.Err() == nil && !refused {
			refused = true
			n.log.Warn("other replicas cannot be told at once that a slot came free; their waiters look by themselves", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(tellEvery):
		}
	}
}

func (n *news) notify(ctx context.Context, word string) error {
	ctx, cancel := context.WithTimeout(ctx, tellFor)
	defer cancel()
	_, err := n.connections.Exec(ctx, "SELECT pg_notify($1, $2)", channel, word)
	return err
}

// listen hears the others on a connection of its own, and dials again when it breaks, until
// ctx ends or the server says that it has no such thing.
func (n *news) listen(ctx context.Context) {
	next := redialFrom
	for warned := false; ; {
		began := time.Now()
		err := n.listenOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if !warned {
			warned = true
			n.log.Warn("what other replicas free is not heard at once; waiters look by themselves", "err", err)
		}
		if unknown(err) {
			return
		}
		if time.Since(began) > redialTo {
			next = redialFrom // it had worked
		}
		wait := next
		if errors.Is(err, errUnheard) {
			wait = deafFor
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		next = min(2*next, redialTo)
	}
}

func (n *news) listenOnce(ctx context.Context) (err error) {
	conn, err := pgx.ConnectConfig(ctx, n.connections.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), helloFor)
		defer cancel()
		err = errors.Join(err, conn.Close(closing))
	}()
	begin, cancel := context.WithTimeout(ctx, tellFor)
	defer cancel()
	if _, err := conn.Exec(begin, "LISTEN "+channel); err != nil {
		return err
	}
	if err := n.hearsItself(ctx, conn); err != nil {
		return err
	}
	for signal(n.heard); ; { // what was told before cannot be known
		silence, cancel := context.WithTimeout(ctx, n.helloEvery)
		word, err := conn.WaitForNotification(silence)
		quiet := silence.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			n.take(word)
		case !quiet:
			return err
		case n.hearsItself(ctx, conn) != nil:
			return errSilent
		}
	}
}

// take passes on a word of another replica.
func (n *news) take(word *pgconn.Notification) {
	if word.Payload != n.self && !strings.HasPrefix(word.Payload, hello) {
		signal(n.heard)
	}
}

var (
	errUnheard = errors.New("a connection that listens hears nothing: is a transaction pooler in between?")
	errSilent  = errors.New("a connection that listened hears nothing any more")
)

const hello = "hello " // begins a word that only its sender waits for

// hearsItself sends a word on another connection and waits for it.
func (n *news) hearsItself(ctx context.Context, conn *pgx.Conn) error {
	if err := n.notify(ctx, hello+n.self); err != nil {
		return err
	}
	patience, cancel := context.WithTimeout(ctx, helloFor)
	defer cancel()
	for {
		word, err := conn.WaitForNotification(patience)
		switch {
		case err != nil && ctx.Err() == nil && patience.Err() != nil:
			return errUnheard
		case err != nil:
			return err
		case word.Payload == hello+n.self:
			return nil
		}
		n.take(word)
	}
}

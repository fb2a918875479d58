package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const dropFor = 30 * time.Second

// Scratch makes a schema of its own beside all else in the database, for a measurement, and
// returns where it is and what removes it again.
func Scratch(ctx context.Context, dsn string) (at string, drop func() error, err error) {
	schema := fmt.Sprintf("plimsoll_scratch_%08x", rand.Uint32())
	administer := func(ctx context.Context, statement string) error {
		return connected(ctx, dsn, func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, statement)
			return err
		})
	}
	if err := administer(ctx, "CREATE SCHEMA "+schema); err != nil {
		return "", nil, err
	}
	drop = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropFor)
		defer cancel()
		return administer(ctx, "DROP SCHEMA "+schema+" CASCADE")
	}
	at = dsn + separator(dsn) + "search_path=" + schema
	if _, err := Migrate(ctx, at); err != nil {
		return "", nil, errors.Join(err, drop())
	}
	return at, drop, nil
}

// separator stands before one more parameter, in both of the forms that a connection string may have.
func separator(dsn string) string {
	switch {
	case !strings.Contains(dsn, "://"):
		return " "
	case strings.Contains(dsn, "?"):
		return "&"
	}
	return "?"
}

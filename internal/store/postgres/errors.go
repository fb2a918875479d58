package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/plimsoll-project/plimsoll/internal/store/sqlcore"
)

// SQLSTATEs that the store knows.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
	uniqueViolation      = "23505"
	duplicateTable       = "42P07"
	duplicateObject      = "42710"
	undefinedTable       = "42P01"
)

// remedies say what to do about an error: SQLSTATE, or its class -> advice.
var remedies = map[string]string{
	"28":    "the server refuses the login: check user, password and pg_hba.conf",
	"3D000": "the database does not exist: make it first (createdb)",
	"42501": "the user lacks a permission: let it own the schema, or run the migration as its owner",
	"53":    "the server is out of room, memory or connections: nothing that was confirmed is lost",
	"25006": "the server is read-only: connect to the primary",
	"55P03": "a table was locked by another session for longer than " + lockFor + ": look for a transaction that stays open",
	"57P03": "the server is starting or shutting down: it will be tried again with the next call",
	"42P01": "a table is missing: is this the right database and search_path?",
}

func explain(err error) error {
	if errors.Is(err, sqlcore.ErrClosed) || errors.Is(err, context.Canceled) {
		return err
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		for _, code := range []string{pgErr.Code, pgErr.Code[:min(2, len(pgErr.Code))]} {
			if advice, known := remedies[code]; known {
				return fmt.Errorf("store: %s: %w", advice, err)
			}
		}
		return fmt.Errorf("store: %w", err)
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return fmt.Errorf("store: PostgreSQL cannot be reached: check that it runs and that the address is right: %w", oneLine{err})
	}
	return fmt.Errorf("store: %w", err)
}

// oneLine is an error that the driver tells on several lines, one for each address it tried.
type oneLine struct{ error }

func (e oneLine) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }

func (e oneLine) Unwrap() error { return e.error }

// kind tells what an error means for a batch. Before the commit nothing was written, so
// that even a lost connection may be tried again; at the commit only the server's own word
// says that nothing was.
func kind(err error, committing bool) sqlcore.Kind {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		return sqlcore.Fatal
	case !ok && committing:
		return sqlcore.Fatal
	case !ok:
		return sqlcore.Retry
	case pgErr.Code == serializationFailure || pgErr.Code == deadlockDetected || pgErr.Code == lockNotAvailable:
		return sqlcore.Retry
	case committing:
		return sqlcore.Fatal
	case pgErr.Code == uniqueViolation && pgErr.ConstraintName == "one_admission_a_key":
		return sqlcore.Retry // another replica, by another configuration, claimed the key in another pool
	case strings.HasPrefix(pgErr.Code, "22") || strings.HasPrefix(pgErr.Code, "23"):
		return sqlcore.Split
	case strings.HasPrefix(pgErr.Code, "57P"):
		return sqlcore.Retry // the server ended the session
	}
	return sqlcore.Fatal
}

// unknown says that the server has no such setting, statement or feature.
func unknown(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(pgErr.Code, "0A") || strings.HasPrefix(pgErr.Code, "42"))
}

// locked says that tables were in use for as long as a migration waits for them, or crosswise.
func locked(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pgErr.Code == lockNotAvailable || pgErr.Code == deadlockDetected)
}

// madeTwice says that another migrator made the same table, or took the same version, at the same moment.
func madeTwice(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pgErr.Code == uniqueViolation || pgErr.Code == duplicateTable || pgErr.Code == duplicateObject)
}

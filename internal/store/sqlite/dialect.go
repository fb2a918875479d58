package sqlite

import (
	"context"
	_ "embed"
	"strings"

	"github.com/plimsoll-project/plimsoll/internal/store/sqlcore"
	"github.com/plimsoll-project/plimsoll/pool"
)

// dialect says in what SQLite differs: arrays are json_each, parameters are ?1, the file's
// write lock makes row locks needless, and numbers come from a row.
func dialect(path string, c *clock) sqlcore.Dialect {
	macros := sqlcore.RewriteWith("json_each($1)", "")
	return sqlcore.Dialect{
		Rewrite: func(s string) string { return parameters.Replace(macros(s)) },
		Numbers: "UPDATE sequence SET last = last + ?1 WHERE one = 1 RETURNING last - ?1 + 1, last",
		Write:   write,
		Now:     func(context.Context, sqlcore.Querier) (pool.Time, error) { return c.now(), nil },
		Kind:    kind,
		Explain: explain(path),
	}
}

var parameters = strings.NewReplacer("$", "?")

//go:embed sql/insert.sql
var insertSQL []byte

//go:embed sql/step.sql
var stepSQL []byte

//go:embed sql/restart.sql
var restartSQL []byte

var changes = map[sqlcore.Change]string{
	sqlcore.Insert:  sqlcore.Plain(insertSQL),
	sqlcore.Step:    sqlcore.Plain(stepSQL),
	sqlcore.Restart: sqlcore.Plain(restartSQL),
}

// write binds row by row: to take a row out of a JSON array costs SQLite more than to store it.
func write(ctx context.Context, tx sqlcore.Tx, c sqlcore.Change, rows []sqlcore.Record) (int64, error) {
	var hit int64
	for i := range rows {
		n, err := tx.Exec(ctx, changes[c], values(&rows[i], c)...)
		if err != nil {
			return hit, err
		}
		hit += n
	}
	return hit, nil
}

// values are a row's parameters; an insert has no guard.
func values(r *sqlcore.Record, c sqlcore.Change) []any {
	all := r.Values()
	if c == sqlcore.Insert {
		return all[:len(all)-3]
	}
	return all
}

package sqlite

import (
	"context"
	"strings"

	"github.com/plimsoll-project/plimsoll/internal/store/sqlcore"
	"github.com/plimsoll-project/plimsoll/pool"
)

// dialect says in what SQLite differs: arrays are json_each, parameters are ?1, the file's
// write lock makes row locks needless, and numbers come from a row.
func dialect(path string) sqlcore.Dialect {
	macros := sqlcore.RewriteWith("json_each($1)", "")
	return sqlcore.Dialect{
		Rewrite: func(s string) string { return parameters.Replace(macros(s)) },
		Numbers: "UPDATE sequence SET last = last + ?1 WHERE one = 1 RETURNING last - ?1 + 1, last",
		Now:     func(context.Context, sqlcore.Tx) (pool.Time, error) { return wallClock(), nil },
		Kind:    kind,
		Explain: explain(path),
	}
}

var parameters = strings.NewReplacer("$1", "?1", "$2", "?2", "$3", "?3", "$4", "?4", "$5", "?5")

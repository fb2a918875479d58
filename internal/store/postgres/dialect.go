package postgres

import (
	"context"
	_ "embed"
	"encoding/json"

	"github.com/plimsoll-project/plimsoll/internal/store/sqlcore"
)

// dialect says in what PostgreSQL differs: other replicas write too, so rows are locked;
// the clock is the server's; numbers come from a sequence that nobody has to wait for.
func dialect(c clock) sqlcore.Dialect {
	return sqlcore.Dialect{
		Rewrite: sqlcore.RewriteWith("json_array_elements($1::json)", "FOR UPDATE"),
		Numbers: "SELECT n, n FROM (SELECT nextval('numbers') AS n FROM generate_series(1, $1)) AS taken ORDER BY n",
		Write:   write,
		Now:     c.now,
		Steady:  c.steady,
		Locks:   true,
		Kind:    kind,
		Explain: explain,
	}
}

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

// write sends all rows in one statement: a round trip costs more than to take them out of a JSON array.
func write(ctx context.Context, t sqlcore.Tx, c sqlcore.Change, rows []sqlcore.Record) (int64, error) {
	text, err := json.Marshal(rows)
	if err != nil {
		return 0, err
	}
	return t.Exec(ctx, changes[c], string(text))
}

package sqlcore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/plimsoll-project/plimsoll/internal/learned"
)

// Learn takes what hosts saw of runs, and every template that is due to now.
func (s *Store) Learn(ctx context.Context, rules learned.Rules, told []learned.Word) error {
	return s.queue.submit(ctx, &op{alone: true, exec: func(ctx context.Context, l *loader) error {
		b, err := l.lore(ctx)
		if err != nil {
			return err
		}
		lives, err := l.lives(ctx, b, told)
		if err != nil {
			return err
		}
		fresh := b.Take(l.now, lives, rules, told)
		if err := l.loadWords(ctx, b, "template_runs_of", namesOf(fresh)); err != nil {
			return err
		}
		b.Step(l.now, rules, fresh)
		return l.writeLore(ctx, b)
	}})
}

// lore reads every template, under the lock of all that is learned.
func (l *loader) lore(ctx context.Context) (*learned.Book, error) {
	b := learned.NewBook()
	if err := each(l.tx.Query(ctx, l.store.sql["learning_lock"]))(func(rows Rows) error { return rows.Scan(new(int64)) }); err != nil {
		return nil, err
	}
	err := each(l.tx.Query(ctx, l.store.sql["templates"]))(func(rows Rows) error {
		var known, document string
		t := new(learned.Template)
		if err := rows.Scan(&known, &document); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(document), t); err != nil {
			return fmt.Errorf("read what was learned: %w", err)
		}
		if err := json.Unmarshal([]byte(known), &t.Known); err != nil {
			return fmt.Errorf("read what was learned: %w", err)
		}
		b.Templates[t.Known.ID()] = t
		return nil
	})
	return b, err
}

// lives reads under which incarnations those who tell are registered, and what they said before.
func (l *loader) lives(ctx context.Context, b *learned.Book, told []learned.Word) (map[string]int64, error) {
	lives, hosts := map[string]int64{}, [][]string{}
	for i := range told {
		if _, known := lives[told[i].Host]; !known {
			lives[told[i].Host] = 0
			hosts = append(hosts, []string{told[i].Host})
		}
	}
	clear(lives)
	if len(hosts) == 0 {
		return lives, nil
	}
	arg, err := array(hosts)
	if err != nil {
		return nil, err
	}
	err = each(l.tx.Query(ctx, l.store.sql["lives"], arg))(func(rows Rows) error {
		var id string
		var incarnation int64
		err := rows.Scan(&id, &incarnation)
		lives[id] = incarnation
		return err
	})
	if err != nil {
		return nil, err
	}
	return lives, l.loadWords(ctx, b, "template_runs_by", hosts)
}

func namesOf(ids []learned.ID) [][]string {
	out := make([][]string, len(ids))
	for i, id := range ids {
		out[i] = []string{id.Class, id.Template}
	}
	return out
}

func (l *loader) loadWords(ctx context.Context, b *learned.Book, statement string, wanted [][]string) error {
	if len(wanted) == 0 {
		return nil
	}
	arg, err := array(wanted)
	if err != nil {
		return err
	}
	return each(l.tx.Query(ctx, l.store.sql[statement], arg))(func(rows Rows) error {
		var w learned.Word
		var document string
		if err := rows.Scan(&w.Host, &w.Incarnation, &document); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(document), &w.Seen); err != nil {
			return fmt.Errorf("read what a host saw of runs: %w", err)
		}
		b.Load(&w)
		return nil
	})
}

// writeLore writes what a step changed: first what is gone.
func (l *loader) writeLore(ctx context.Context, b *learned.Book) error {
	put := func(statement string, args ...any) error {
		_, err := l.tx.Exec(ctx, l.store.sql[statement], args...)
		return err
	}
	for id := range b.Dropped {
		if err := put("templates_drop", id.Class, id.Template); err != nil {
			return err
		}
		if err := put("template_runs_drop", id.Class, id.Template); err != nil {
			return err
		}
	}
	for _, w := range b.Over {
		if err := put("template_runs_over", w.Class, w.Template, w.Host, w.Incarnation); err != nil {
			return err
		}
	}
	for _, w := range b.Said {
		document, err := json.Marshal(&w.Seen)
		if err != nil {
			return err
		}
		if err := put("template_runs_put", w.Class, w.Template, w.Host, w.Incarnation, w.Sequence, string(document)); err != nil {
			return err
		}
	}
	for id := range b.Written {
		t := b.Templates[id]
		known, err := json.Marshal(&t.Known)
		if err != nil {
			return err
		}
		document, err := json.Marshal(t)
		if err != nil {
			return err
		}
		if err := put("templates_put", id.Class, id.Template, string(known), string(document)); err != nil {
			return err
		}
	}
	return nil
}

// Learned returns what is known of each template, by class and template.
func (s *Store) Learned(ctx context.Context) ([]learned.Known, error) {
	b := learned.NewBook()
	err := each(s.db.Query(ctx, s.sql["templates_known"]))(func(rows Rows) error {
		t := new(learned.Template)
		err := scanJSON(rows, &t.Known)
		b.Templates[t.Known.ID()] = t
		return err
	})
	return b.List(), s.explain(err)
}

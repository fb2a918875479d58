package sqlcore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/plimsoll-project/plimsoll/internal/learned"
)

// Learn takes what hosts saw of runs, and every template that is due to now. The writer is held for
// what is short: what hosts said before is read, and what they say now is encoded, before that.
func (s *Store) Learn(ctx context.Context, rules learned.Rules, told []learned.Word) error {
	said, err := encoded(told)
	if err != nil {
		return err
	}
	hosts := hostsOf(told)
	before, err := s.saidBefore(ctx, hosts)
	if err != nil {
		return s.explain(err)
	}
	return s.queue.submit(ctx, &op{alone: true, exec: func(ctx context.Context, l *loader) error {
		b, err := l.lore(ctx, told)
		if err != nil {
			return err
		}
		lives, err := l.lives(ctx, hosts)
		if err != nil {
			return err
		}
		if err := l.words(ctx, b, hosts, before); err != nil {
			return err
		}
		b.Take(l.now, lives, rules, told)
		return l.writeLore(ctx, b, said)
	}})
}

// encoded are the documents of words.
func encoded(words []learned.Word) (map[*learned.Word]string, error) {
	out := map[*learned.Word]string{}
	for i := range words {
		document, err := json.Marshal(&words[i].Seen)
		if err != nil {
			return nil, err
		}
		out[&words[i]] = string(document)
	}
	return out, nil
}

// hostsOf names them, for @rows.
func hostsOf(told []learned.Word) (out [][]string) {
	seen := map[string]bool{}
	for i := range told {
		if host := told[i].Host; !seen[host] {
			seen[host] = true
			out = append(out, []string{host})
		}
	}
	return out
}

// query reads rows of a statement, inside a transaction or outside of any.
type query func(ctx context.Context, query string, args ...any) (Rows, error)

// saidBefore is what these hosts said by now.
func (s *Store) saidBefore(ctx context.Context, hosts [][]string) (map[learned.Place]*learned.Word, error) {
	out := map[learned.Place]*learned.Word{}
	return out, s.readWords(ctx, s.db.Query, hosts, func(w *learned.Word) { out[w.Place()] = w })
}

func (s *Store) readWords(ctx context.Context, ask query, hosts [][]string, take func(*learned.Word)) error {
	if len(hosts) == 0 {
		return nil
	}
	arg, err := array(hosts)
	if err != nil {
		return err
	}
	return each(ask(ctx, s.sql["template_runs_by"], arg))(func(rows Rows) error {
		w := new(learned.Word)
		var document string
		if err := rows.Scan(&w.Host, &w.Incarnation, &document); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(document), &w.Seen); err != nil {
			return fmt.Errorf("read what a host saw of runs: %w", err)
		}
		take(w)
		return nil
	})
}

// words puts into the book what these hosts said. What was read before the lock was had is good
// where the row still has the same sequence; of a host that somebody has written since, it is read
// again.
func (l *loader) words(ctx context.Context, b *learned.Book, hosts [][]string, before map[learned.Place]*learned.Word) error {
	if len(hosts) == 0 {
		return nil
	}
	arg, err := array(hosts)
	if err != nil {
		return err
	}
	stale := map[string]bool{}
	err = each(l.tx.Query(ctx, l.store.sql["template_runs_at"], arg))(func(rows Rows) error {
		var at learned.Place
		var sequence int64
		if err := rows.Scan(&at.Class, &at.Template, &at.Host, &at.Incarnation, &sequence); err != nil {
			return err
		}
		if w := before[at]; w != nil && w.Sequence == sequence {
			b.Load(w)
		} else {
			stale[at.Host] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	var again [][]string
	for host := range stale {
		again = append(again, []string{host})
	}
	return l.store.readWords(ctx, l.tx.Query, again, b.Load)
}

// lore reads every template under the lock of all that is learned; all that is kept of one only of
// those that are told of or due.
func (l *loader) lore(ctx context.Context, told []learned.Word) (*learned.Book, error) {
	b := learned.NewBook()
	if err := each(l.tx.Query(ctx, l.store.sql["learning_lock"]))(func(rows Rows) error { return rows.Scan(new(int64)) }); err != nil {
		return nil, err
	}
	if err := readKnown(ctx, l.tx.Query, l.store.sql["templates_known"], b); err != nil {
		return nil, err
	}
	var wanted [][]string
	for _, id := range b.Due(l.now, told) {
		wanted = append(wanted, []string{id.Class, id.Template})
	}
	if len(wanted) == 0 {
		return b, nil
	}
	arg, err := array(wanted)
	if err != nil {
		return nil, err
	}
	err = each(l.tx.Query(ctx, l.store.sql["templates_of"], arg))(func(rows Rows) error {
		var id learned.ID
		var document string
		if err := rows.Scan(&id.Class, &id.Template, &document); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(document), b.Templates[id]); err != nil {
			return fmt.Errorf("read what was learned: %w", err)
		}
		return nil
	})
	return b, err
}

func readKnown(ctx context.Context, ask query, statement string, b *learned.Book) error {
	return each(ask(ctx, statement))(func(rows Rows) error {
		t := new(learned.Template)
		err := scanJSON(rows, &t.Known)
		b.Templates[t.Known.ID()] = t
		return err
	})
}

// lives reads under which incarnations these hosts are registered.
func (l *loader) lives(ctx context.Context, hosts [][]string) (map[string]int64, error) {
	lives := map[string]int64{}
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
	return lives, err
}

// writeLore writes what a step changed: first what is gone.
func (l *loader) writeLore(ctx context.Context, b *learned.Book, said map[*learned.Word]string) error {
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
	if len(b.Said) > 0 {
		rows := make([][]any, len(b.Said))
		for i, w := range b.Said {
			rows[i] = []any{w.Class, w.Template, w.Host, w.Incarnation, w.Sequence, said[w]}
		}
		arg, err := array(rows)
		if err != nil {
			return err
		}
		if err := put("template_runs_put", arg); err != nil {
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
	err := readKnown(ctx, s.db.Query, s.sql["templates_known"], b)
	return b.List(), s.explain(err)
}

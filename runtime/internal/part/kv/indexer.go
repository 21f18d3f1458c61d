package kv

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/match"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/where"
)

// An indexer changes the tables of one index in one turn.
type indexer struct {
	ctx     context.Context
	db      *sql.DB
	rows    *engine.WriteSet
	ix      kvrows.Index
	now     int64
	changed bool   // the state of the index has changed
	bytes   int    // of the added values
	tried   []byte // see indexing
	skipped []byte
	paths   []where.Path
}

func (w *indexer) fallBehind(key []byte) {
	w.ix.FallBehind(key, w.now)
	w.changed = true
}

// table is the name of the table with the words of an index. The table with the suffix _map has the
// row of each key.
func table(ix *kvrows.Index) string { return tablePrefix + ix.Name() }

func dropTables(db *sql.DB, id uint64) error {
	return dropNamed(db, table(&kvrows.Index{IndexState: kvrows.IndexState{ID: id}}))
}

// dropNamed drops the tables whose names are that of an index, or continue it with _, and other
// objects with such a name, which an import may bring. An empty index means all.
func dropNamed(db *sql.DB, index string) error {
	for _, what := range []struct{ kind, sql string }{
		// tables of virtual ones are dropped with them
		{"TRIGGER", "%"}, {"VIEW", "%"}, {"INDEX", "%"}, {"TABLE", "CREATE VIRTUAL%"}, {"TABLE", "%"},
	} {
		rows, err := db.Query("SELECT name FROM main.sqlite_schema WHERE type = lower(?) AND name LIKE 'cairn\\_kv\\_%' ESCAPE '\\' AND sql LIKE ?", what.kind, what.sql)
		if err != nil {
			return err
		}
		var names []string
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return errors.Join(err, rows.Close())
			}
			if lower := strings.ToLower(name); index == "" || lower == index || strings.HasPrefix(lower, index+"_") {
				names = append(names, name)
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
		for _, name := range names {
			if _, err := db.Exec("DROP " + what.kind + ` main."` +
				strings.ReplaceAll(name, `"`, `""`) + `"`); err != nil {
				return err
			}
		}
	}
	return nil
}

// tokenizers are FTS5's forms of the names that callers use.
var tokenizers = map[string]string{
	"unicode61": "unicode61 remove_diacritics 2", "porter": "porter unicode61 remove_diacritics 2", "ascii": "ascii", "trigram": "trigram",
}

// create makes the tables.
func (w *indexer) create() error {
	if err := dropTables(w.db, w.ix.ID); err != nil {
		return err
	}
	name := table(&w.ix)
	var columns strings.Builder
	for i := range w.ix.Paths {
		columns.WriteString(match.Column(i) + ", ")
	}
	texts := []string{
		"CREATE VIRTUAL TABLE main." + name + " USING fts5 (" + columns.String() +
			"key UNINDEXED, version UNINDEXED, tokenize = '" + tokenizers[w.ix.Tokenizer] + "')",
		"CREATE TABLE main." + name +
			"_map (key BLOB PRIMARY KEY, id INTEGER NOT NULL, version INTEGER NOT NULL) STRICT, WITHOUT ROWID",
	}
	for _, text := range texts {
		if _, err := w.db.ExecContext(w.ctx, text); err != nil {
			return err
		}
	}
	w.ix.Fresh, w.changed = false, true
	return nil
}

// key brings the row of a key up to date.
func (w *indexer) key(key []byte) error {
	e, there, err := w.rows.Get(keyspace.UserKV.Append(nil, key))
	if err != nil {
		return err
	}
	var id, version int64
	err = w.db.QueryRowContext(w.ctx,
		"SELECT id, version FROM main."+table(&w.ix)+"_map WHERE key = ?", key).Scan(&id, &version)
	switch known := err == nil; {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return err
	case !there && known:
		return w.remove(key, id)
	case !there, known && version == int64(e.Version):
		return nil
	case known:
		if err := w.remove(key, id); err != nil {
			return err
		}
	}
	return w.add(key, &e)
}

func (w *indexer) remove(key []byte, id int64) error {
	if _, err := w.db.ExecContext(w.ctx, "DELETE FROM main."+table(&w.ix)+" WHERE rowid = ?", id); err != nil {
		return err
	}
	_, err := w.db.ExecContext(w.ctx, "DELETE FROM main."+table(&w.ix)+"_map WHERE key = ?", key)
	return err
}

// add adds an entry, if it has text.
func (w *indexer) add(key []byte, e *engine.Entry) error {
	w.bytes += len(e.Value)
	texts, some, err := w.texts(e)
	if err != nil || !some {
		return err
	}
	texts = append(texts, key, int64(e.Version))
	done, err := w.db.ExecContext(w.ctx,
		"INSERT INTO main."+table(&w.ix)+" VALUES (?"+strings.Repeat(", ?", len(texts)-1)+")", texts...)
	if err != nil {
		return err
	}
	id, err := done.LastInsertId()
	if err != nil {
		return err
	}
	_, err = w.db.ExecContext(w.ctx, "INSERT INTO main."+table(&w.ix)+"_map VALUES (?, ?, ?)", key,
		id, int64(e.Version))
	return err
}

// texts returns the text of each field of an entry, and whether one has any.
func (w *indexer) texts(e *engine.Entry) (texts []any, some bool, err error) {
	if w.paths == nil {
		w.paths = make([]where.Path, len(w.ix.Paths))
		for i, text := range w.ix.Paths {
			if w.paths[i], err = where.ParsePath(text); err != nil {
				return nil, false, err
			}
		}
	}
	v, err := document(value.Value{Encoding: host.Encoding(e.Encoding), Data: e.Value})
	if err != nil {
		return nil, false, nil // it cannot be shown, so it has no text
	}
	texts = make([]any, len(w.paths), len(w.paths)+2)
	for i, p := range w.paths {
		text := textOf(p.Of(v))
		some = some || text != ""
		texts[i] = text
	}
	return texts, some, nil
}

// textOf returns the text of a string, of a number, or of an array of them.
func textOf(v any) string {
	switch v := v.(type) {
	case string:
		if strings.ContainsAny(v, cleared) {
			v = strings.Map(func(r rune) rune {
				if strings.ContainsRune(cleared, r) {
					return ' '
				}
				return r
			}, v)
		}
		return strings.ToValidUTF8(v, "\uFFFD")
	case json.Number:
		return v.String()
	case []any:
		var texts []string
		for _, element := range v {
			switch element.(type) {
			case string, json.Number:
				texts = append(texts, textOf(element))
			}
		}
		return strings.Join(texts, "\n")
	}
	return ""
}

// A mapped is a row of the table of keys.
type mapped struct {
	key         []byte
	id, version int64
}

// mapped returns rows of the table of keys, in order; more: there may be more of them.
func (w *indexer) mapped(start, end []byte, most int) (list []mapped, more bool, err error) {
	if start == nil {
		start = []byte{}
	}
	rows, err := w.db.QueryContext(w.ctx,
		"SELECT key, id, version FROM main."+table(&w.ix)+
			"_map WHERE key >= ? AND key < ? ORDER BY key LIMIT "+strconv.Itoa(most+1), start, end)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	for rows.Next() {
		var m mapped
		if err := rows.Scan(&m.key, &m.id, &m.version); err != nil {
			return nil, false, err
		}
		list = append(list, m)
	}
	if len(list) > most {
		return list[:most], true, rows.Err()
	}
	return list, false, rows.Err()
}

// span updates the rows of a range whose entries were removed.
func (w *indexer) span(r span) error {
	start, end := max(r.start, string(w.ix.Prefix)), string(w.ix.End())
	if r.end != "" {
		end = min(end, r.end)
	}
	list, more, err := w.mapped([]byte(start), []byte(end), maxIndexed)
	if err != nil {
		return err
	}
	if more {
		w.fallBehind([]byte(start))
		return nil
	}
	for i := range list {
		if err := w.key(list[i].key); err != nil {
			return err
		}
	}
	return nil
}

// slice continues building.
func (w *indexer) slice() error {
	ix := &w.ix
	w.changed = true
	if ix.Fresh {
		if err := w.create(); err != nil {
			return err
		}
	}
	start, end := ix.Prefix, ix.End()
	if ix.After != nil {
		start = append(ix.After[:len(ix.After):len(ix.After)], 0)
	}
	room := w.rows.Room() // a slice takes a small part of it; otherwise it might never fit
	q := engine.ListQuery{Limit: int(min(max(room>>14, 1), sliceLimit)),
		MaxBytes: int(min(max(room>>4, 1), sliceBytes))}
	q.Start, q.End = kvrows.Bounds(start, end)
	if ix.Most > 0 {
		q.Limit = min(q.Limit, int(ix.Most))
	}
	page, err := w.rows.List(q)
	if err != nil {
		return err
	}
	if q.Limit == 1 && len(page.Entries) == 1 {
		w.tried = page.Entries[0].Key[1:]
	}
	done := page.Next == nil
	if !done {
		end = append(page.Entries[len(page.Entries)-1].Key[1:], 0)
	}
	known, more, err := w.mapped(start, end, 2*sliceLimit)
	if err != nil {
		return err
	}
	if more {
		done, end = false, append(known[len(known)-1].key, 0)
	}
	there := make(map[string]*mapped, len(known))
	for i := range known {
		there[string(known[i].key)] = &known[i]
	}
	for i := range page.Entries {
		e := &page.Entries[i]
		key := e.Key[1:]
		if string(key) >= string(end) {
			break
		}
		m := there[string(key)]
		delete(there, string(key))
		if m != nil && m.version == int64(e.Version) {
			continue
		}
		if m != nil {
			if err := w.remove(key, m.id); err != nil {
				return err
			}
		}
		if ix.Skip != nil && string(key) == string(ix.Skip) {
			w.skipped = key
			continue
		}
		if err := w.add(key, e); err != nil {
			return err
		}
	}
	for _, m := range there {
		if err := w.remove(m.key, m.id); err != nil {
			return err
		}
	}
	if ix.Most *= 2; ix.Most >= sliceLimit || done {
		ix.Most = 0
	}
	ix.Built(ix.Most)
	if ix.Behind, ix.After = !done, nil; !done {
		ix.After, ix.Due = end[:len(end)-1], w.now
	}
	return nil
}

package kv

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/match"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/where"
)

// A Database is how search indexes use the actor's SQLite database. Write is called while a turn is sealed, after the session of
// its handler. If it fails, the write set is rolled back.
type Database struct {
	Write func(*kernel.Turn, func(*sql.DB) error) error
	Read  func(*call.Query, func(*sql.DB) error) error
}

// indexes are the search indexes of an awake actor.
type indexes struct {
	known   bool
	changed engine.Version
	list    []*kvrows.Index
}

// indexesOf returns the search indexes of an actor, in a turn.
func indexesOf(c *kernel.Core) ([]*kvrows.Index, error) {
	m := &memoryOf(c).indexes
	if m.known {
		return m.list, nil
	}
	list, err := kvrows.Indexes(c.Rows)
	if err == nil {
		*m = indexes{true, c.Rows.Version(), list}
	}
	return list, err
}

// An indexing is what the end of a turn does to search indexes. They get each entry that the turn has touched as it is then, so it
// does not matter how often an entry was changed, and which changes were undone.
//
//  1. Tables of an index change only in the turn that changes the entries, or in one that goes on with building.
//  2. If there is too much to do for one turn, or SQLite refuses it, the index falls behind, and the turn succeeds.
type indexing struct {
	database *Database
	last     bool // it comes after all participants so far
	keys     map[string]bool
	ranges   []span
	all      bool   // more keys than are collected, of which from is the least
	from     string //
	build    uint64 // the index that is built on
	drop     []uint64
	clear    bool // all reserved tables are dropped
	err      error
}

const (
	maxIndexed  = 1_000 // keys that a turn indexes
	sliceLimit  = 500   // entries that one turn compares to build an index
	sliceBytes  = 1 << 20
	indexPause  = time.Minute // after which building goes on that SQLite refused
	matchOpen   = "\x02"      // around words that match, in snippets; no text that is indexed has them
	matchClose  = "\x03"
	cleared     = "\x00" + matchOpen + matchClose
	tablePrefix = "cairn_kv_"
)

// indexing returns what the end of the turn does.
//
// REQUIRES: h.K.Mu, or no handler that runs
func (h *Turn) indexes() *indexing {
	if h.indexing == nil {
		h.indexing = &indexing{database: &kernel.PartOf[*Part](h.K.Actor.Kernel).database}
		h.K.Enlist(h.indexing)
	}
	return h.indexing
}

// index notes that a key has changed, for the indexes that it is in.
//
// REQUIRES: h.K.Mu
func (h *Turn) index(key []byte) {
	list, err := indexesOf(h.K.Core)
	if err != nil {
		h.indexes().err = err
		return
	}
	for _, ix := range list {
		if ix.Has(key) {
			h.indexes().add(string(key))
			return
		}
	}
}

// indexRange notes that entries of a range were removed.
//
// REQUIRES: h.K.Mu
func (h *Turn) indexRange(start, end []byte) {
	list, err := indexesOf(h.K.Core)
	if err != nil {
		h.indexes().err = err
		return
	}
	for _, ix := range list {
		if ix.Meets(string(start), string(end)) {
			x := h.indexes()
			if x.ranges = append(x.ranges, span{string(start), string(end)}); len(x.ranges) > maxRanges {
				x.overflow(string(start))
			}
			return
		}
	}
}

func (x *indexing) add(key string) {
	switch {
	case x.all:
		x.from = min(x.from, key)
	case len(x.keys) >= maxIndexed && !x.keys[key]:
		x.overflow(key)
	default:
		if x.keys == nil {
			x.keys = make(map[string]bool)
		}
		x.keys[key] = true
	}
}

// overflow forgets the keys and ranges, except where they begin.
func (x *indexing) overflow(least string) {
	for key := range x.keys {
		least = min(least, key)
	}
	for _, r := range x.ranges {
		least = min(least, r.start)
	}
	if x.all {
		least = min(least, x.from)
	}
	x.all, x.from, x.keys, x.ranges = true, least, nil, nil
}

// Seal implements kernel.Participant. SQL of the handler is committed first.
func (x *indexing) Seal(t *kernel.Turn) error {
	if !x.last {
		x.last = true
		t.Enlist(x)
		return nil
	}
	TurnOf(t).indexing = nil
	if x.err != nil {
		return x.err
	}
	list, err := indexesOf(t.Core)
	if err != nil {
		return err
	}
	rows := t.Core.Rows
	now := max(t.Start.UnixMilli(), 1)
	before := rows.Savepoint()
	var changed []kvrows.Index
	err = x.database.Write(t, func(db *sql.DB) error {
		if err := x.tidy(db); err != nil {
			return err
		}
		for _, ix := range list {
			w := indexer{ctx: context.Background(), db: db, rows: rows, ix: *ix, now: now}
			if err := x.update(&w); err != nil {
				return err
			}
			if w.changed {
				changed = append(changed, w.ix)
			}
		}
		return nil
	})
	if err != nil {
		rows.Rollback(before)
		public, _ := t.Actor.Kernel.PublicError(err)
		t.Actor.Kernel.Logger.LogAttrs(t, slog.LevelWarn, "search indexes cannot be updated, and fall behind", t.Actor.Attrs(slog.Any("error", err))...)
		changed = x.late(list, public.Code == host.Internal, now+indexPause.Milliseconds())
	}
	for i := range changed {
		memoryOf(t.Core).indexes = indexes{}
		if err := changed[i].Put(rows); err != nil {
			return err
		}
	}
	return nil
}

// late returns the indexes that the turn would have changed, as behind. damaged: SQLite finds something wrong with a table.
func (x *indexing) late(list []*kvrows.Index, damaged bool, due int64) (late []kvrows.Index) {
	for _, p := range list {
		ix := *p
		touched, built := x.touches(&ix), x.build == ix.ID
		switch {
		case !touched && !built:
			continue
		case damaged:
			ix.Renew(due)
		case touched:
			ix.FallBehind([]byte(x.least()), due)
		default:
			ix.Due = due
		}
		late = append(late, ix)
	}
	return late
}

// touches reports whether the turn has changed something that the index may have.
func (x *indexing) touches(ix *kvrows.Index) bool {
	if x.all {
		return string(ix.End()) > x.from
	}
	for key := range x.keys {
		if ix.Has([]byte(key)) {
			return true
		}
	}
	return slices.ContainsFunc(x.ranges, func(r span) bool { return ix.Meets(r.start, r.end) })
}

// least returns the least key that the turn may have changed.
func (x *indexing) least() string {
	y := *x
	if !x.all {
		y.overflow("\xff")
	}
	return y.from
}

// tidy drops tables that are of no index.
func (x *indexing) tidy(db *sql.DB) error {
	for _, id := range x.drop {
		if err := dropTables(db, id); err != nil {
			return err
		}
	}
	if !x.clear {
		return nil
	}
	for _, kind := range []string{"CREATE VIRTUAL%", "%"} { // whose own tables go with them
		var names []string
		rows, err := db.Query("SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name LIKE 'cairn\\_kv\\_%' ESCAPE '\\' AND sql LIKE ?", kind)
		if err != nil {
			return err
		}
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return errors.Join(err, rows.Close())
			}
			names = append(names, name)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
		for _, name := range names {
			if _, err := db.Exec(`DROP TABLE main."` + strings.ReplaceAll(name, `"`, `""`) + `"`); err != nil {
				return err
			}
		}
	}
	return nil
}

// update brings one index up to date with what the turn has changed.
func (x *indexing) update(w *indexer) error {
	switch ix := &w.ix; {
	case x.all && string(ix.End()) > x.from:
		w.fallBehind([]byte(x.from))
	case ix.Fresh: // building comes to all entries
	default:
		for _, key := range slices.Sorted(maps.Keys(x.keys)) {
			if !ix.Has([]byte(key)) {
				continue
			}
			if w.bytes > sliceBytes {
				w.fallBehind([]byte(key)) // and all greater ones
				break
			}
			if err := w.key([]byte(key)); err != nil {
				return err
			}
		}
		for _, r := range x.ranges {
			if ix.Meets(r.start, r.end) {
				if err := w.span(r); err != nil {
					return err
				}
			}
		}
	}
	if x.build == w.ix.ID && w.ix.Behind {
		return w.slice()
	}
	return nil
}

// An indexer changes the tables of one index in one turn.
type indexer struct {
	ctx     context.Context
	db      *sql.DB
	rows    *engine.WriteSet
	ix      kvrows.Index
	now     int64
	changed bool // the state of the index is another
	bytes   int  // of the values that were added
	paths   []where.Path
}

func (w *indexer) fallBehind(key []byte) {
	w.ix.FallBehind(key, w.now)
	w.changed = true
}

// table is the name of the table with the words of an index. The table with the suffix _map has the row of each key.
func table(ix *kvrows.Index) string { return tablePrefix + ix.Name() }

func dropTables(db *sql.DB, id uint64) error {
	name := table(&kvrows.Index{IndexState: kvrows.IndexState{ID: id}})
	_, err := db.Exec("DROP TABLE IF EXISTS main." + name + "; DROP TABLE IF EXISTS main." + name + "_map")
	return err
}

// tokenizers are the words of callers, as FTS5 has them.
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
	weights := make([]string, len(w.ix.Weights))
	for i, weight := range w.ix.Weights {
		columns.WriteString(match.Column(i) + ", ")
		text, err := json.Marshal(weight)
		if err != nil {
			return err
		}
		weights[i] = string(text)
	}
	texts := []string{
		"CREATE VIRTUAL TABLE main." + name + " USING fts5 (" + columns.String() + "key UNINDEXED, version UNINDEXED, tokenize = '" + tokenizers[w.ix.Tokenizer] + "')",
		"CREATE TABLE main." + name + "_map (key BLOB PRIMARY KEY, id INTEGER NOT NULL, version INTEGER NOT NULL) STRICT, WITHOUT ROWID",
	}
	if slices.ContainsFunc(w.ix.Weights, func(weight float64) bool { return weight != 1 }) { // which each search would have to read
		texts = append(texts, "INSERT INTO main."+name+"("+name+", rank) VALUES ('rank', 'bm25("+strings.Join(weights, ", ")+")')")
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
	err = w.db.QueryRowContext(w.ctx, "SELECT id, version FROM main."+table(&w.ix)+"_map WHERE key = ?", key).Scan(&id, &version)
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
	done, err := w.db.ExecContext(w.ctx, "INSERT INTO main."+table(&w.ix)+" VALUES (?"+strings.Repeat(", ?", len(texts)-1)+")", texts...)
	if err != nil {
		return err
	}
	id, err := done.LastInsertId()
	if err != nil {
		return err
	}
	_, err = w.db.ExecContext(w.ctx, "INSERT INTO main."+table(&w.ix)+"_map VALUES (?, ?, ?)", key, id, int64(e.Version))
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
	rows, err := w.db.QueryContext(w.ctx, "SELECT key, id, version FROM main."+table(&w.ix)+"_map WHERE key >= ? AND key < ? ORDER BY key LIMIT ?", start, end, most+1)
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

// span brings the rows of a range up to date, whose entries were removed.
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

// slice goes on with building.
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
	room := w.rows.Room() // a slice takes a small part of it, or it would never fit
	q := engine.ListQuery{Limit: int(min(max(room>>14, 1), sliceLimit)), MaxBytes: int(min(max(room>>4, 1), sliceBytes))}
	q.Start, q.End = kvrows.Bounds(start, end)
	page, err := w.rows.List(q)
	if err != nil {
		return err
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
		if err := w.add(key, e); err != nil {
			return err
		}
	}
	for _, m := range there {
		if err := w.remove(m.key, m.id); err != nil {
			return err
		}
	}
	if ix.Behind, ix.After = !done, nil; !done {
		ix.After, ix.Due = end[:len(end)-1], w.now
	}
	return nil
}

// building is the row of an index that is built, on its way through its actor's mailbox.
type building engine.Wake

// Traits implements kernel.Job.
func (*building) Traits(*kernel.Actor) kernel.Traits {
	return kernel.Traits{Kind: "index", Quick: true}
}

// Run implements kernel.Job.
func (d *building) Run(c *kernel.Core, w *kernel.Work) {
	row := (*engine.Wake)(d)
	c.Due(w, row, func() error {
		list, err := indexesOf(c)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list, func(ix *kvrows.Index) bool { return ix.Behind && ix.Due == row.Due && ix.Name() == row.Name })
		if i < 0 {
			return kernel.ErrLeftover
		}
		return c.System(w, "index", func(t *kernel.Turn) error {
			c.Rows.ClearWake(row.Due, keyspace.WakeIndex, row.Name, "") // first, because building may arm the same time again
			TurnOf(t).indexes().build = list[i].ID
			return nil
		})
	})
}

// Imported has all indexes of an actor made anew, because its database was replaced.
func Imported(t *kernel.Turn) error {
	list, err := indexesOf(t.Core)
	if err != nil {
		return err
	}
	x := TurnOf(t).indexes()
	x.clear = true
	memoryOf(t.Core).indexes = indexes{}
	for _, ix := range list {
		ix.Renew(max(t.Start.UnixMilli(), 1))
		if err := ix.Put(t.Core.Rows); err != nil {
			return err
		}
	}
	return nil
}

package kv

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
)

// A Database is how search indexes use the actor's SQLite database. Write is called while a turn is
// sealed, after the session of its handler. If it fails, the write set is rolled back.
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

// An indexing changes search indexes at the end of a turn. They get the final state of each entry
// that the turn has touched, so it does not matter how often an entry was changed, and which
// changes were undone.
//
//  1. Tables of an index change only in the turn that changes the entries, or in one that goes on
//     with building.
//  2. If there is too much to do for one turn, or SQLite refuses it, the index falls behind, and
//     the turn succeeds.
type indexing struct {
	database *Database
	last     bool // it comes after all participants so far
	sealed   bool
	keys     map[string]bool
	ranges   []span
	all      bool   // more keys than are collected; the least of them is from
	from     string //
	build    uint64 // the index that is built on
	tried    []byte // the only key that this turn adds to it
	skipped  []byte // a key that is left out of it
	drop     []uint64
	clear    bool // all reserved tables are dropped
	err      error
}

const (
	maxIndexed = 1_000 // keys that a turn indexes
	sliceLimit = 500   // entries that one turn compares to build an index
	sliceBytes = 1 << 20
	// the pause before building goes on after SQLite refused it, doubled each further time
	indexPause  = time.Minute
	maxPauses   = 16     // of these
	matchOpen   = "\x02" // around words that match, in snippets; no text that is indexed has them
	matchClose  = "\x03"
	cleared     = "\x00" + matchOpen + matchClose
	tablePrefix = "cairn_kv_"
)

// indexes returns the work on indexes at the end of the turn.
//
// REQUIRES: h.K.Mu, or no handler that runs
func (h *Turn) indexes() *indexing {
	for _, p := range h.K.Participants() {
		if x, is := p.(*indexing); is && !x.sealed {
			return x
		}
	}
	x := &indexing{database: &kernel.PartOf[*Part](h.K.Actor.Kernel).database}
	h.K.Enlist(x)
	return x
}

// index records that a key has changed, for the indexes that have it. The removal of an entry that
// had expired is a change, too.
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

// indexRange records that entries of a range were removed.
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
	x.sealed = true
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
		t.Actor.Kernel.Logger.LogAttrs(t, slog.LevelWarn,
			"search indexes cannot be updated, and fall behind", t.Actor.Attrs(slog.Any("error", err))...)
		large := public.Code == host.TooLarge || errors.Is(err, &engine.LimitError{})
		changed = x.late(list, public.Code == host.Internal, large, now)
	} else if x.skipped != nil {
		t.Actor.Kernel.Logger.LogAttrs(t, slog.LevelWarn,
			"an entry is not in a search index, because it is too much for one turn",
			t.Actor.Attrs(slog.String("key", keyspace.Format(keyspace.UserKV.Append(nil, x.skipped))))...)
	}
	for i := range changed {
		memoryOf(t.Core).indexes = indexes{}
		if err := changed[i].Put(rows); err != nil {
			return err
		}
	}
	return nil
}

// late returns the indexes that the turn would have changed, as behind. damaged: SQLite finds a
// table damaged. large: it would be too much for a turn.
func (x *indexing) late(list []*kvrows.Index, damaged, large bool, now int64) (late []kvrows.Index) {
	for _, p := range list {
		ix := *p
		touched, built := x.touches(&ix), x.build == ix.ID
		due := now + indexPause.Milliseconds()
		if built {
			due = now + indexPause.Milliseconds()*min(int64(1)<<min(ix.Failed, 16), maxPauses)
		}
		switch {
		case !touched && !built:
			continue
		case damaged:
			failed := ix.Failed
			ix.Renew(due)
			ix.Failed = failed
		case touched:
			ix.FallBehind([]byte(x.least()), due)
		default:
			ix.Due = due
		}
		if built {
			ix.Failed++
		}
		if built && large {
			ix.Most, ix.Skip = 1, x.tried
		}
		late = append(late, ix)
	}
	return late
}

// touches reports whether the turn has changed an entry that the index may have.
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

// tidy drops tables that belong to no index.
func (x *indexing) tidy(db *sql.DB) error {
	for _, id := range x.drop {
		if err := dropTables(db, id); err != nil {
			return err
		}
	}
	if !x.clear {
		return nil
	}
	return dropNamed(db, "")
}

// update applies the changes of the turn to one index.
func (x *indexing) update(w *indexer) error {
	switch ix := &w.ix; {
	case x.all && string(ix.End()) > x.from:
		w.fallBehind([]byte(x.from))
	case ix.Fresh: // building reaches all entries
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
		err := w.slice()
		x.tried, x.skipped = w.tried, w.skipped
		return err
	}
	return nil
}

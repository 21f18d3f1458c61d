package kv

import (
	"cmp"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/match"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/where"
)

// definition checks the definition of an index.
func definition(in *kv.SetIndexInput) (ix kvrows.Index, err error) {
	if ix.Prefix, err = scopePrefix(in.Prefix); err != nil {
		return ix, err
	}
	switch n := len(in.Fields); {
	case n == 0:
		return ix, host.Errorf(host.InvalidArgument, "an index has at least one field").With("field", "fields")
	case n > kv.MaxIndexFields:
		return ix, host.OverLimit("fields", kv.MaxIndexFields, int64(n)).With("field", "fields")
	}
	for i, f := range in.Fields {
		if f.Weight == 0 {
			f.Weight = 1
		}
		_, err := where.ParsePath(f.Path)
		switch {
		case len(f.Path) > kv.MaxFieldPath:
			return ix, at("fields", i,
				host.OverLimit("path", kv.MaxFieldPath, int64(len(f.Path))).With("field", "path"))
		case err != nil:
			return ix, at("fields", i, host.Errorf(host.InvalidArgument, "%s", err).With("field", "path"))
		case strings.ContainsAny(f.Path, " \t\r\n\"():"):
			return ix, at("fields", i,
				host.Errorf(host.InvalidArgument,
					"the path %.40q has a character that queries need: a blank, a quote, a parenthesis or a colon", f.Path).With("field", "path"))
		case slices.Contains(ix.Paths, f.Path):
			return ix, at("fields", i,
				host.Errorf(host.InvalidArgument, "the path %.40q is that of another field",
					f.Path).With("field", "path"))
		case !(f.Weight > 0) || f.Weight > kv.MaxWeight:
			return ix, at("fields", i,
				host.Errorf(host.InvalidArgument,
					"the weight is %g; it is more than 0, and up to %d", f.Weight, kv.MaxWeight).
					With("field", "weight"))
		}
		ix.Paths, ix.Weights = append(ix.Paths, f.Path), append(ix.Weights, f.Weight)
	}
	ix.Tokenizer = cmp.Or(in.Tokenizer, "unicode61")
	if tokenizers[ix.Tokenizer] == "" {
		return ix, host.Errorf(host.InvalidArgument,
			"the tokenizer is %.40q; it is unicode61, porter, ascii or trigram", ix.Tokenizer).
			With("field", "tokenizer")
	}
	return ix, nil
}

// setIndex implements kv.set_index. When the turn ends, the index has the entries of one slice.
func setIndex(_ *kernel.Core, t *kernel.Turn, _ host.Codec, in *kv.SetIndexInput) (kv.Index, error) {
	ix, err := definition(in)
	if err != nil {
		return kv.Index{}, err
	}
	list, err := indexesOf(t.Core)
	if err != nil {
		return kv.Index{}, err
	}
	ix.ID, ix.Created = 1, t.Start.UnixMilli()
	found := slices.IndexFunc(list, func(other *kvrows.Index) bool { return string(other.Prefix) == string(ix.Prefix) })
	for _, other := range list {
		ix.ID = max(ix.ID, other.ID+1)
	}
	h := TurnOf(t)
	switch {
	case found < 0 && len(list) >= kv.MaxIndexes:
		return kv.Index{}, host.OverLimit("indexes", kv.MaxIndexes, int64(len(list)+1)).With("field", "prefix")
	case found < 0:
	case slices.Equal(list[found].Paths, ix.Paths) &&
		slices.Equal(list[found].Weights, ix.Weights) && list[found].Tokenizer == ix.Tokenizer:
		return indexOf(list[found])
	default:
		h.indexes().drop = append(h.indexes().drop, list[found].ID)
	}
	ix.Renew(max(t.Start.UnixMilli(), 1))
	if err := ix.Put(t.Core.Rows); err != nil {
		return kv.Index{}, fault.Limit(err)
	}
	memoryOf(t.Core).indexes = indexes{}
	h.indexes().build = ix.ID
	return indexOf(&ix)
}

// removeIndex implements kv.remove_index.
func removeIndex(_ *kernel.Core, t *kernel.Turn, _ host.Codec,
	in *kv.RemoveIndexInput) (out kv.RemoveIndexOutput, err error) {
	prefix, err := scopePrefix(in.Prefix)
	if err != nil {
		return out, err
	}
	ix, there, err := kvrows.FindIndex(t.Core.Rows, prefix)
	if err != nil || !there {
		return out, err
	}
	memoryOf(t.Core).indexes = indexes{}
	x := TurnOf(t).indexes()
	x.drop = append(x.drop, ix.ID)
	return kv.RemoveIndexOutput{Removed: true}, ix.Remove(t.Core.Rows)
}

// indexOf returns an index for callers, without the count of its documents.
func indexOf(ix *kvrows.Index) (kv.Index, error) {
	parts, err := tuple.Unpack(ix.Prefix)
	out := kv.Index{Prefix: kv.Key(parts), Tokenizer: ix.Tokenizer, Status: "ready",
		Created: clock.TimeMS(ix.Created).UTC()}
	if ix.Behind {
		out.Status = "building"
	}
	for i, path := range ix.Paths {
		f := kv.IndexField{Path: path}
		if ix.Weights[i] != 1 {
			f.Weight = ix.Weights[i]
		}
		out.Fields = append(out.Fields, f)
	}
	return out, err
}

// A searcher reads the search indexes of one commit; q is nil if there is no actor.
type searcher struct {
	q     *call.Query
	codec host.Codec
	now   time.Time
}

// rows reads rows of the commit.
func (s *searcher) rows(read func(engine.Reader) error) error {
	if s.q == nil {
		return read(nothing{})
	}
	rows, done, err := s.q.Rows()
	if err != nil {
		return err
	}
	defer done()
	return read(rows)
}

// searches binds a method that reads search indexes. A missing actor has none, which is no error.
func searches[In, Out any](m method.Typed[In, Out], f func(s *searcher, in *In) (Out, error)) *call.Method {
	return searchesAny(m.Row, untyped(f))
}

func searchesAny(m *method.Row, f func(s *searcher, in any) (out any, err error)) *call.Method {
	b := call.Unwoken(call.AskAny(m,
		func(q *call.Query, codec host.Codec, in any) (any, error) { return f(&searcher{q, codec, q.Now()}, in) }))
	b.Missing = func(_ *kernel.Type, req *host.Request, notFound error) ([]byte, error) {
		if req.Existing {
			return nil, notFound
		}
		return b.Answer(req, func(in any) (any, error) { return f(&searcher{codec: req.Codec}, in) })
	}
	return b
}

// indexes implements kv.indexes.
func (p *Part) indexes(s *searcher, _ *kv.IndexesInput) (out kv.IndexesOutput, err error) {
	var list []*kvrows.Index
	if err := s.rows(func(rows engine.Reader) error { list, err = kvrows.Indexes(rows); return err }); err != nil {
		return out, err
	}
	if s.q != nil {
		if g := token.Of(s.q.Context); g != nil {
			list = slices.DeleteFunc(list, func(ix *kvrows.Index) bool { return !g.Packed(ix.Prefix) })
		}
	}
	out.Indexes = make([]kv.Index, len(list))
	made := false
	for i, ix := range list {
		if out.Indexes[i], err = indexOf(ix); err != nil {
			return out, err
		}
		made = made || !ix.Fresh
	}
	if !made {
		return out, nil
	}
	return out, p.database.Read(s.q, func(db *sql.DB) error {
		for i, ix := range list {
			if ix.Fresh {
				continue
			}
			if err := db.QueryRowContext(s.q, "SELECT count(*) FROM main."+table(ix)+"_map").
				Scan(&out.Indexes[i].Documents); err != nil {
				return err
			}
		}
		return nil
	})
}

// search implements kv.search.
func (p *Part) search(s *searcher, in *kv.SearchInput) (out kv.SearchOutput, err error) {
	prefix, err := scopePrefix(in.Prefix)
	if err != nil {
		return out, err
	}
	if n := len(in.Query); n > kv.MaxQuery {
		return out, host.OverLimit("query", kv.MaxQuery, int64(n)).With("field", "query")
	}
	filter, text, err := compile(s.codec, in.Where, s.now)
	if err != nil {
		return out, of("where", err)
	}
	f := finding{searcher: s, in: in, filter: filter, mark: listingOf([]byte("search"), prefix, []byte(in.Query), text)}
	if in.Cursor != "" {
		skip, err := after(in.Cursor, f.mark, nil, nil)
		if err != nil {
			return out, err
		}
		if f.at, err = strconv.ParseInt(string(skip), 10, 64); err != nil || f.at < 0 {
			return out, errCursor
		}
	}
	there := false
	if err := s.rows(func(rows engine.Reader) error { f.ix, there, err = kvrows.FindIndex(rows, prefix); return err }); err != nil {
		return out, err
	}
	var paths []string
	if there {
		paths, f.tokenizer = f.ix.Paths, f.ix.Tokenizer
	}
	if f.query, err = match.Compile(in.Query, paths, f.tokenizer); err != nil &&
		(there || !strings.Contains(in.Query, ":")) {
		return out, host.Errorf(host.InvalidArgument, "the query %s", err).With("field", "query")
	}
	if !there {
		return out, host.Errorf(host.NotFound, "there is no index with this prefix").With("field", "prefix")
	}
	f.out = kv.SearchOutput{Entries: []kv.Hit{}, Partial: f.ix.Behind}
	if f.ix.Fresh {
		return f.out, nil
	}
	err = p.database.Read(s.q, f.find)
	return f.out, err
}

// A finding is one search.
type finding struct {
	*searcher
	in               *kv.SearchInput
	ix               *kvrows.Index
	filter           *where.Filter
	query, tokenizer string
	mark             uint64
	at               int64 // rows of the table before the page
	out              kv.SearchOutput
	ids              []int64 // of the entries
}

// find makes the page.
func (f *finding) find(db *sql.DB) error {
	name, limit := table(f.ix), cmp.Or(f.in.Limit, kv.DefaultHits)
	most := int64(-1)
	if f.filter == nil { // a row behind the page means that there is a next one
		most = int64(limit) + 1
	}
	// A column of rank would be computed again for each row that is returned. The columns key and
	// version, which follow those of the fields, are read from the table that FTS5 keeps them in,
	// which is quicker than through FTS5. SQLite compiles a statement again when a parameter of
	// LIMIT or OFFSET is bound.
	key := len(f.ix.Paths)
	rows, err := db.QueryContext(f.q, fmt.Sprintf("SELECT t.id, t.c%d, t.c%d, best.rank FROM "+
		"(SELECT rowid AS id, bm25(%[3]s%[4]s) AS rank FROM main.%[3]s WHERE %[3]s MATCH ? ORDER BY 2, 1 LIMIT %[5]d OFFSET %[6]d) AS best "+
		"CROSS JOIN main.%[3]s_content AS t ON t.id = best.id ORDER BY best.rank, best.id", key, key+1, name, f.weights(), most, f.at), f.query)
	if err != nil {
		return err
	}
	defer rows.Close()
	read, size, scanned, began := 0, 0, 0, time.Now()
	for ; rows.Next(); scanned++ {
		if len(f.out.Entries) == limit || size >= pageBytes || scanned > 0 &&
			(scanned >= scanEntries || read >= scanBytes || time.Since(began) > scanTime) {
			f.more(scanned)
			break
		}
		var id, version int64
		var key []byte
		var rank float64
		if err := rows.Scan(&id, &key, &version, &rank); err != nil {
			return err
		}
		n, err := f.add(id, version, key, -rank)
		if err != nil {
			return err
		}
		read += n
		if len(f.ids) > 0 && f.ids[len(f.ids)-1] == id {
			size += n
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if int64(scanned) == most { // some have expired, or the index is behind
		f.more(scanned)
	}
	if err := rows.Close(); err != nil || f.in.Snippet == 0 || len(f.ids) == 0 {
		return err
	}
	return f.snippets(db)
}

// more records that the next page begins after so many rows of this one.
func (f *finding) more(scanned int) {
	f.out.Cursor = cursorOf(f.mark, strconv.AppendInt(nil, f.at+int64(scanned), 10))
}

// weights returns the arguments of bm25 that make some fields count for more.
func (f *finding) weights() string {
	if !slices.ContainsFunc(f.ix.Weights, func(weight float64) bool { return weight != 1 }) {
		return ""
	}
	var text []byte
	for _, weight := range f.ix.Weights {
		text = strconv.AppendFloat(append(text, ", "...), weight, 'g', -1, 64)
	}
	return string(text)
}

// add adds an entry if the index has its version, and it meets the filter. It returns the bytes
// that it read.
func (f *finding) add(id, version int64, key []byte, score float64) (int, error) {
	row := keyspace.UserKV.Append(nil, key)
	var e engine.Entry
	var there bool
	err := f.rows(func(rows engine.Reader) (err error) { e, there, err = rows.Get(row); return err })
	if err != nil || !there || int64(e.Version) != version {
		return 0, err // it has expired, or the index is behind
	}
	e.Key = row
	size := len(row) + len(e.Value)
	parts, err := tuple.Unpack(key)
	if err != nil {
		return size, err
	}
	if f.filter != nil {
		if meets, err := meets(f.filter, kv.Key(parts), &e); err != nil || !meets {
			return size, err
		}
	}
	shown, err := entryOf(f.codec, kv.Key(parts), &e, true)
	if err != nil {
		return size, err
	}
	if math.IsNaN(score) {
		score = 0
	}
	f.out.Entries, f.ids = append(f.out.Entries, kv.Hit{Entry: shown, Score: score}), append(f.ids, id)
	return size, nil
}

// snippets adds the snippets to the entries. FTS5's own snippet() takes the square of what matches.
func (f *finding) snippets(db *sql.DB) error {
	name := table(f.ix)
	text := "SELECT rowid"
	for i := range f.ix.Paths {
		text += ", highlight(" + name + ", " + strconv.Itoa(i) + ", '" + matchOpen + "', '" + matchClose + "')"
	}
	text += " FROM main." + name + " WHERE " + name + " MATCH ? AND rowid IN ("
	for i, id := range f.ids {
		if i > 0 {
			text += ","
		}
		text += strconv.FormatInt(id, 10)
	}
	rows, err := db.QueryContext(f.q, text+")", f.query)
	if err != nil {
		return err
	}
	defer rows.Close()
	var id int64
	marked := make([]string, len(f.ix.Paths))
	row := []any{&id}
	for i := range marked {
		row = append(row, &marked[i])
	}
	for rows.Next() {
		if err := rows.Scan(row...); err != nil {
			return err
		}
		i, best := slices.Index(f.ids, id), 0
		for _, text := range marked {
			if parts, score := excerpt(text, f.in.Snippet); i >= 0 && score > best {
				f.out.Entries[i].Snippet, best = parts, score
			}
		}
	}
	return rows.Err()
}

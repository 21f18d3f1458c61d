package kv

import (
	"context"
	"iter"

	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// A Store is the key-value store of one actor. Made by actor.Ref.KV. Safe for concurrent use.
type Store struct {
	Reader
	line
}

// A line has the methods of stores and branches that do not read. It does not embed Reader: go doc
// would hide it.
type line struct{ of Reader }

// A Reader reads the key-value store of one actor, at present or in the past ([Store.At],
// [Store.Pin]).
type Reader struct {
	site   site.Site
	moment hostkv.Moment
}

// Get returns the entry of a key; false means that there is none.
func (r Reader) Get(ctx context.Context, key Key) (Entry, bool, error) {
	out, err := site.Ask(ctx, &r.site, method.KVGet, &hostkv.GetInput{Moment: r.moment, Key: key})
	if err != nil || out.Entry == nil {
		return Entry{}, false, err
	}
	e, err := entryOf(out.Entry, true)
	return e, err == nil, err
}

// GetMany returns the entries of up to 1,000 keys, of one commit and in the order of the keys. A
// missing entry is nil. The error code is TooLarge if their values have more than 16 MiB.
func (r Reader) GetMany(ctx context.Context, keys ...Key) ([]*Entry, error) {
	if keys == nil {
		keys = []Key{}
	}
	out, err := site.Ask(ctx, &r.site, method.KVGetMany, &hostkv.GetManyInput{Moment: r.moment, Keys: keys})
	if err != nil {
		return nil, err
	}
	entries := make([]*Entry, len(out.Entries))
	for i, e := range out.Entries {
		if e == nil {
			continue
		}
		found, err := entryOf(e, true)
		if err != nil {
			return nil, err
		}
		entries[i] = &found
	}
	return entries, nil
}

// Count counts the entries of a selection. It reads one row if a scope has the prefix, and
// otherwise the keys, with several requests if there are many.
func (r Reader) Count(ctx context.Context, of Selection) (n int64, err error) {
	for in := (hostkv.CountInput{Moment: r.moment, Selection: of}); ; {
		out, err := site.Ask(ctx, &r.site, method.KVCount, &in)
		if n += out.Count; err != nil || out.Cursor == "" {
			return n, err
		}
		in.Cursor = out.Cursor
	}
}

// A SampleConfig describes a sample.
type SampleConfig struct {
	Selection
	// N bounds the entries, 1 to 1,000; 0 is 10.
	N int
	// Seed decides the choice: the same seed chooses the same entries from the same keys.
	Seed uint64
	// KeysOnly leaves the values out.
	KeysOnly bool
}

// Sample returns entries of a selection, each with the same chance, in the order of their keys, and
// how many there were. It reads up to 1,000,000 keys, for up to a second.
func (r Reader) Sample(ctx context.Context, c SampleConfig) ([]Entry, int64, error) {
	in := hostkv.SampleInput{Moment: r.moment, Selection: c.Selection, N: c.N, Seed: c.Seed, KeysOnly: c.KeysOnly}
	out, err := site.Ask(ctx, &r.site, method.KVSample, &in)
	if err != nil {
		return nil, 0, err
	}
	entries := make([]Entry, len(out.Entries))
	for i := range out.Entries {
		if entries[i], err = entryOf(&out.Entries[i], !c.KeysOnly); err != nil {
			return nil, 0, err
		}
	}
	return entries, out.Count, nil
}

// A ListConfig selects the entries of a listing. The zero value lists all.
type ListConfig struct {
	Selection
	// Where is a filter in JSON that the entries must match: {"age":{"$gte":18}}. nil is none.
	Where []byte
	// Reverse lists from the last key to the first.
	Reverse bool
	// KeysOnly leaves the values out.
	KeysOnly bool
	// Limit bounds the entries of a page, 1 to 1,000; 0 is 100. Cursor continues after an earlier
	// page of the same selection, filter and direction. [Store.All] does not need them.
	Limit  int
	Cursor string
	// Digest asks for the page's Digest.
	Digest bool
}

// A Page is a part of a listing. Cursor continues it; "" is the end. With a filter, a page can be
// empty and still have a cursor.
type Page struct {
	Entries []Entry
	Cursor  string
	// Digest identifies the part of the selection that the page covers, for [Unchanged]: from the
	// end of the page before to its last entry, or to the end. Entries that do not match the filter
	// count too.
	Digest string
}

// List returns a page of entries in the order of their keys.
func (r Reader) List(ctx context.Context, c ListConfig) (Page, error) {
	in := hostkv.ListInput{Moment: r.moment, Selection: c.Selection, Limit: c.Limit,
		Reverse: c.Reverse, KeysOnly: c.KeysOnly, Cursor: c.Cursor, Digest: c.Digest}
	if c.Where != nil {
		in.Where, _ = JSON(c.Where).raw()
	}
	out, err := site.Ask(ctx, &r.site, method.KVList, &in)
	if err != nil {
		return Page{}, err
	}
	page := Page{Entries: make([]Entry, len(out.Entries)), Cursor: out.Cursor, Digest: out.Digest}
	for i := range out.Entries {
		if page.Entries[i], err = entryOf(&out.Entries[i], !c.KeysOnly); err != nil {
			return Page{}, err
		}
	}
	return page, nil
}

// All ranges over the entries in the order of their keys. It reads page by page: entries that are
// written meanwhile may or may not appear, and no other is skipped or repeated. An error ends the
// loop.
func (r Reader) All(ctx context.Context, c ListConfig) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for c := c; ; {
			page, err := r.List(ctx, c)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, e := range page.Entries {
				if !yield(e, nil) {
					return
				}
			}
			if c.Cursor = page.Cursor; c.Cursor == "" {
				return
			}
		}
	}
}

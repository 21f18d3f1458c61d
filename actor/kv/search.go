package kv

import (
	"context"
	"time"

	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// A Field is a part of the values that an index covers.
type Field struct {
	// Path names it: names between dots, indexes in brackets, or "$value" for the value as a whole,
	// such as a text. The index covers strings, numbers, and arrays of them.
	Path string
	// Weight is how much a word of the field counts for the score, up to 1,000; 0 is 1.
	Weight float64
}

// An IndexConfig defines a search index.
type IndexConfig struct {
	// Prefix is the prefix of the entries' keys; nil is the whole store. There is one index per
	// prefix, and an entry may be in several.
	Prefix Key
	// Fields has up to 16 fields.
	Fields []Field
	// Tokenizer defines words: "unicode61" (letters and digits, regardless of case and accents),
	// "porter" (the same, and English words by their stem), "ascii", or "trigram" (any three
	// characters, for parts of words). "" is unicode61.
	Tokenizer string
}

// An Index is a search index.
type Index struct {
	IndexConfig
	// Building is set while entries may be missing.
	Building bool
	// Documents counts the entries with text in one of the fields.
	Documents int64
	Created   time.Time
}

// SetIndex makes a search index, or replaces the one of the prefix. The same definition again
// changes nothing. It creates a missing actor. Present entries are added in the background, a few
// hundred in one turn; later changes of entries change the index in the same commit. An actor has
// up to 16 indexes, which are in its SQLite database.
func (s Store) SetIndex(ctx context.Context, c IndexConfig) (Index, error) {
	in := hostkv.SetIndexInput{Prefix: c.Prefix, Tokenizer: c.Tokenizer}
	if in.Prefix == nil {
		in.Prefix = Key{}
	}
	for _, f := range c.Fields {
		in.Fields = append(in.Fields, hostkv.IndexField(f))
	}
	out, err := site.Ask(ctx, &s.site, method.KVSetIndex, &in)
	if err != nil {
		return Index{}, err
	}
	return indexOf(&out), nil
}

// RemoveIndex removes a search index, and reports whether there was one.
func (s Store) RemoveIndex(ctx context.Context, prefix Key) (bool, error) {
	if prefix == nil {
		prefix = Key{}
	}
	out, err := site.Ask(ctx, &s.site, method.KVRemoveIndex, &hostkv.RemoveIndexInput{Prefix: prefix})
	return out.Removed, err
}

// Indexes returns the search indexes, in the order of their prefixes.
func (s Store) Indexes(ctx context.Context) ([]Index, error) {
	out, err := site.Ask(ctx, &s.site, method.KVIndexes, &hostkv.IndexesInput{})
	if err != nil {
		return nil, err
	}
	list := make([]Index, len(out.Indexes))
	for i := range out.Indexes {
		list[i] = indexOf(&out.Indexes[i])
	}
	return list, nil
}

func indexOf(ix *hostkv.Index) Index {
	out := Index{
		IndexConfig: IndexConfig{Prefix: ix.Prefix,
			Tokenizer: ix.Tokenizer}, Building: ix.Status == "building", Documents: ix.Documents, Created: ix.Created,
	}
	for _, f := range ix.Fields {
		out.Fields = append(out.Fields, Field(f))
	}
	return out
}

// A SearchConfig describes a search.
type SearchConfig struct {
	// Prefix is the prefix of the index; nil is the whole store.
	Prefix Key
	// Query has words, "phrases", prefix*, OR, NOT or -, NEAR(a b, 5), field:word and parentheses.
	// Words without an operator must all match. It has up to 1,000 bytes.
	Query string
	// Where is a filter in JSON that the entries must also match; nil is none.
	Where []byte
	// Limit bounds the entries, 1 to 1,000; 0 is 20. Cursor continues after an earlier page for the
	// same index, query and filter.
	Limit  int
	Cursor string
	// Snippet bounds the words returned of each entry, 1 to 64; 0 is none.
	Snippet int
}

// A SearchPage is a part of the matching entries, the best first.
type SearchPage struct {
	Hits []Hit
	// Cursor continues the search; "" is the end. With a filter, a page can be empty and still have
	// a cursor.
	Cursor string
	// Partial is set while the index is being built: entries may be missing.
	Partial bool
}

// A Hit is an entry that matches.
type Hit struct {
	Entry
	// Score is greater the better the entry matches.
	Score float64
	// Snippet is part of the text of a field, in pieces.
	Snippet []SnippetPart
}

// A SnippetPart is a piece of a snippet.
type SnippetPart struct {
	Text string
	// Match is set if the query matches this piece.
	Match bool
}

// Search returns the entries of an index that match a query. The error code is NotFound if there is
// no index with the prefix, and InvalidArgument if the query is malformed or has no word.
func (s Store) Search(ctx context.Context, c SearchConfig) (SearchPage, error) {
	in := hostkv.SearchInput{Prefix: c.Prefix, Query: c.Query, Limit: c.Limit, Cursor: c.Cursor, Snippet: c.Snippet}
	if in.Prefix == nil {
		in.Prefix = Key{}
	}
	if c.Where != nil {
		in.Where, _ = JSON(c.Where).raw()
	}
	out, err := site.Ask(ctx, &s.site, method.KVSearch, &in)
	if err != nil {
		return SearchPage{}, err
	}
	page := SearchPage{Hits: make([]Hit, len(out.Entries)), Cursor: out.Cursor, Partial: out.Partial}
	for i := range out.Entries {
		h := &out.Entries[i]
		if page.Hits[i].Entry, err = entryOf(&h.Entry, true); err != nil {
			return SearchPage{}, err
		}
		page.Hits[i].Score = h.Score
		for _, p := range h.Snippet {
			page.Hits[i].Snippet = append(page.Hits[i].Snippet, SnippetPart(p))
		}
	}
	return page, nil
}

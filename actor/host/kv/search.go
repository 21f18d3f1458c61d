package kv

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// The bounds of search.
const (
	MaxIndexes      = 16    // of an actor
	MaxIndexFields  = 16    // of an index
	MaxFieldPath    = 256   // bytes of the path of a field
	MaxWeight       = 1_000 // of a field
	MaxQuery        = 1_000 // bytes of a query
	DefaultHits     = 20    // entries of kv.search, unless the caller names another number
	MaxSnippetWords = 64    // of a snippet
)

// An IndexField is a part of the values that an index covers.
type IndexField struct {
	// Path names it: names between dots, indexes in brackets, or $value for the value as a whole.
	// The index covers strings, numbers, and arrays of them.
	Path string `json:"path"`
	// Weight is how much a word of the field counts for the score, up to 1,000; absent means 1.
	Weight float64 `json:"weight,omitempty"`
}

// SetIndexInput makes a search index, or replaces the one of the prefix. The same definition again
// changes nothing.
type SetIndexInput struct {
	// Prefix is the prefix of the entries' keys; [] is the whole store.
	Prefix Key          `json:"prefix"`
	Fields []IndexField `json:"fields" max:"16"`
	// Tokenizer defines words: unicode61 (letters and digits, regardless of case and accents),
	// porter (the same, and English words by their stem), ascii, or trigram (any three characters,
	// for parts of words). Absent means unicode61.
	Tokenizer string `json:"tokenizer,omitempty"`
}

// An Index is a search index.
type Index struct {
	Prefix    Key          `json:"prefix"`
	Fields    []IndexField `json:"fields"`
	Tokenizer string       `json:"tokenizer"`
	// Status is ready, or building as long as entries may be missing.
	Status string `json:"status"`
	// Documents counts the entries with text in one of the fields.
	Documents int64     `json:"documents"`
	Created   time.Time `json:"created"`
}

// RemoveIndexInput names an index.
type RemoveIndexInput struct {
	Prefix Key `json:"prefix"`
}

// RemoveIndexOutput says whether there was one.
type RemoveIndexOutput struct {
	Removed bool `json:"removed"`
}

// IndexesInput asks for the indexes of an actor.
type IndexesInput struct{}

// IndexesOutput has all indexes in the order of their prefixes.
type IndexesOutput struct {
	Indexes []Index `json:"indexes"`
}

// SearchInput asks for the entries of an index that match a query, the best first.
type SearchInput struct {
	// Prefix is the prefix of the index.
	Prefix Key `json:"prefix"`
	// Query has words, "phrases", prefix*, OR, NOT or -, NEAR(a b, 5), field:word and parentheses.
	// Words without an operator must all match.
	Query string `json:"query"`
	// Where is a filter that the entries must also meet. With a filter, a page may be short or
	// empty and still have a cursor.
	Where host.Raw `json:"where,omitempty"`
	// Limit bounds the entries; absent means DefaultHits.
	Limit int `json:"limit,omitempty" range:"1,1000"`
	// Cursor continues after an earlier answer for the same index, query and filter. Any other
	// cursor is refused.
	Cursor string `json:"cursor,omitempty"`
	// Snippet bounds the words returned of each entry around the matches; absent for none.
	Snippet int `json:"snippet,omitempty" range:"1,64"`
}

// SearchOutput has the entries in the order of their scores. Cursor is absent at the end.
type SearchOutput struct {
	Entries []Hit  `json:"entries"`
	Cursor  string `json:"cursor,omitempty"`
	// Partial is set while the index is being built: entries may be missing.
	Partial bool `json:"partial,omitempty"`
}

// A Hit is an entry that matches.
type Hit struct {
	Entry
	// Score is greater the better the entry matches, by BM25 with the weights of the fields.
	Score float64 `json:"score"`
	// Snippet is part of the text of a field, in pieces.
	Snippet []SnippetPart `json:"snippet,omitempty"`
}

// A SnippetPart is a piece of a snippet.
type SnippetPart struct {
	Text string `json:"text"`
	// Match is set if the query matches this piece.
	Match bool `json:"match,omitempty"`
}

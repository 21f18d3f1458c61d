package cell

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// The bounds of one page of a listing.
const (
	// DefaultLimit is the number of entries of a page unless the caller sets another, up to
	// MaxLimit.
	DefaultLimit = 100
	MaxLimit     = 1000
	// PageBytes ends a page early, after the entry with which keys and values reach this size.
	PageBytes = 1 << 20
)

// A ListInput selects entries. All fields are optional.
type ListInput struct {
	// Prefix selects the keys that begin with these whole parts.
	Prefix Key `json:"prefix,omitempty"`
	// Limit is 1 to MaxLimit; absent means DefaultLimit.
	Limit *int `json:"limit,omitempty"`
	// Reverse lists from the last key to the first.
	Reverse bool `json:"reverse,omitempty"`
	// Cursor is the Cursor of an earlier result, to continue with the same prefix and direction. It
	// names the last entry of the page. Entries that are written or deleted meanwhile may be seen
	// or not; no other entry is skipped or repeated.
	Cursor string `json:"cursor,omitempty"`
}

// A ListResult is one page of entries in the order of their keys. Cursor is "" at the end.
type ListResult struct {
	Entries []Listed `json:"entries"`
	Cursor  string   `json:"cursor,omitempty"`
}

// A Listed is one entry of a listing.
type Listed struct {
	Key     Key             `json:"key"`
	Value   json.RawMessage `json:"value"`
	Version uint64          `json:"version"`
	Created time.Time       `json:"created"`
	Updated time.Time       `json:"updated"`
	// Expires is when the entry ceases to exist; zero for never.
	Expires time.Time `json:"expires,omitzero"`
}

func (c Cell) list(ctx *actor.ReadContext, in ListInput) (ListResult, error) {
	limit := DefaultLimit
	if in.Limit != nil {
		limit = *in.Limit
	}
	if limit < 1 || limit > MaxLimit {
		return ListResult{},
			actor.Errorf(actor.InvalidArgument, "the limit is %d; it must be a number from 1 to %d",
				limit, MaxLimit).With("field", "limit")
	}
	prefix, err := in.Prefix.Tuple()
	if err != nil {
		return ListResult{}, of("prefix", err)
	}
	after, err := parseCursor(in.Cursor, prefix)
	if err != nil {
		return ListResult{}, err
	}

	// One more entry than the page shows whether there is another page. A forward continuation
	// begins with the last entry of the page before.
	opts := []actor.ListOption{actor.Limit(limit + 1)}
	if in.Reverse {
		opts = append(opts, actor.Reverse())
	}
	entries := ctx.KV().List(prefix, opts...)
	switch {
	case after != nil && in.Reverse:
		entries = ctx.KV().Range(prefix, after, opts...)
	case after != nil:
		opts[0] = actor.Limit(limit + 2)
		entries = ctx.KV().Range(after, nil, opts...)
	}
	page := ListResult{Entries: []Listed{}}
	bytes := 0
	var last tuple.Tuple
	for e, err := range entries {
		if err != nil {
			return ListResult{}, err
		}
		key, err := e.Key.Unpack()
		switch {
		case err != nil:
			return ListResult{}, err
		case !begins(key, prefix):
			return page, nil
		case after != nil && tuple.Compare(key, after) == 0:
			continue
		case len(page.Entries) == limit || bytes >= PageBytes:
			page.Cursor, err = formatCursor(last)
			return page, err
		}
		document, err := shown(&e)
		if err != nil {
			return ListResult{}, err
		}
		page.Entries = append(page.Entries,
			Listed{Key(key), document, e.Version, e.Created().UTC(), e.Updated().UTC(), utc(e.Expire())})
		packed, err := key.Pack()
		if err != nil {
			return ListResult{}, err
		}
		bytes += len(packed) + len(e.Value)
		last = key
	}
	return page, nil
}

// begins reports whether a key begins with the parts of prefix.
func begins(key, prefix tuple.Tuple) bool {
	return len(key) >= len(prefix) && tuple.Compare(key[:len(prefix)], prefix) == 0
}

// A cursor is the packed key of the last entry of a page, in unpadded base64url.
func formatCursor(last tuple.Tuple) (string, error) {
	packed, err := last.Pack()
	return base64.RawURLEncoding.EncodeToString(packed), err
}

// parseCursor returns nil for "". A cursor of a listing with another prefix is refused.
func parseCursor(s string, prefix tuple.Tuple) (tuple.Tuple, error) {
	if s == "" {
		return nil, nil
	}
	packed, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		var after tuple.Tuple
		if after, err = tuple.Unpack(slices.Clip(packed)); err == nil && len(after) > 0 && begins(after, prefix) {
			return after, nil
		}
	}
	return nil, actor.Errorf(actor.InvalidArgument,
		"the cursor does not belong to a listing of this prefix").With("field", "cursor")
}

package keyval

import (
	"bytes"
	"strconv"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
)

// The bounds of one list.
const (
	maxPages  = 100      // of kv.list or kv.search; each reads up to 10,000 entries for a filter
	listBytes = 32 << 20 // of keys and values
)

// limitOf reads a limit. A limit above maxLimit counts as maxLimit, as clients expect.
func limitOf(text string, given bool) (int, error) {
	if !given {
		return defaultLimit, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n != n || n < 1 {
		return 0, kvrest.Wrong("limit", "limit is %.40q; it is a positive number", text)
	}
	return int(min(n, maxLimit)), nil
}

func flagOf(params map[string]string, name string, otherwise bool) (bool, error) {
	switch text, given := params[name]; {
	case !given:
		return otherwise, nil
	case text == "true":
		return true, nil
	case text == "false":
		return false, nil
	default:
		return false, kvrest.Wrong(name, "%s is %.40q; it is true or false", name, text)
	}
}

// list answers GET api/keys.
func list(r *kvrest.Request) (any, error) {
	params, err := r.Params("prefix", "start", "end", "limit", "reverse")
	if err != nil {
		return nil, err
	}
	within := kv.Key{}
	var start, end kv.Key
	for name, to := range map[string]*kv.Key{"prefix": &within, "start": &start, "end": &end} {
		if text := params[name]; text != "" {
			if *to, err = paramKey(text, name); err != nil {
				return nil, err
			}
		}
	}
	var in kv.ListInput
	if in.Reverse, err = flagOf(params, "reverse", false); err != nil {
		return nil, err
	}
	text, given := params["limit"]
	if in.Limit, err = limitOf(text, given); err != nil {
		return nil, err
	}
	return listEntries(r, within, start, end, in)
}

// listWhere answers POST api/keys/list.
func listWhere(r *kvrest.Request) (any, error) {
	var body struct {
		Prefix  host.Raw `json:"prefix"`
		Start   host.Raw `json:"start"`
		End     host.Raw `json:"end"`
		Limit   host.Raw `json:"limit"`
		Reverse bool     `json:"reverse"`
		Where   host.Raw `json:"where"`
	}
	if err := r.Body(&body); err != nil {
		return nil, err
	}
	within, err := prefix(body.Prefix, "prefix")
	if err != nil {
		return nil, err
	}
	var start, end kv.Key
	if len(body.Start) > 0 {
		if start, err = jsonKey(body.Start, "start"); err != nil {
			return nil, err
		}
	}
	if len(body.End) > 0 {
		if end, err = jsonKey(body.End, "end"); err != nil {
			return nil, err
		}
	}
	in := kv.ListInput{Reverse: body.Reverse, Where: filter(body.Where)}
	if string(in.Where) == "{}" { // all match it
		in.Where = nil
	}
	if in.Limit, err = limitOf(string(body.Limit), len(body.Limit) > 0); err != nil {
		return nil, err
	}
	return listEntries(r, within, start, end, in)
}

// selection returns the selection of a prefix's keys from start to before end.
func selection(within, start, end kv.Key) (s kv.Selection, none bool, err error) {
	if start == nil && end == nil {
		return kv.Selection{Prefix: within}, false, nil
	}
	var from, to []byte
	if len(within) > 0 {
		if from, err = within.Pack(); err != nil {
			return s, false, err
		}
		to = append(from[:len(from):len(from)], 0xFF) // no part begins with this byte
	}
	if start != nil {
		b, err := start.Pack()
		if err != nil {
			return s, false, err
		}
		if bytes.Compare(b, from) > 0 {
			from = b
		}
	}
	if end != nil {
		b, err := end.Pack()
		if err != nil {
			return s, false, err
		}
		if to == nil || bytes.Compare(b, to) < 0 {
			to = b
		}
	}
	if from != nil {
		s.Start = kv.Key{kv.Raw(from)}
	}
	if to != nil {
		s.End = kv.Key{kv.Raw(to)}
	}
	return s, to != nil && bytes.Compare(from, to) >= 0, nil
}

// listEntries lists the entries of a prefix from start to before end. It lists all of them, in
// several pages of kv.list.
func listEntries(r *kvrest.Request, within, start, end kv.Key, in kv.ListInput) ([]entry, error) {
	s, none, err := selection(within, start, end)
	if none || err != nil {
		return []entry{}, err
	}
	in.Selection = s
	return collect(in.Limit, func(limit int) ([]kv.Entry, bool, error) {
		in.Limit = limit
		var page kv.ListOutput
		err := r.Do(host.KVList, &in, &page)
		in.Cursor = page.Cursor
		return page.Entries, in.Cursor != "", err
	})
}

// collect returns up to limit entries of pages. next reads the next page of up to limit entries,
// and reports whether there are more.
func collect(limit int, next func(limit int) (page []kv.Entry, more bool, err error)) ([]entry, error) {
	shown, size := []entry{}, 0
	for range maxPages {
		page, more, err := next(limit - len(shown))
		if err != nil {
			return nil, err
		}
		shown = append(shown, showAll(page)...)
		if !more || len(shown) == limit {
			return shown, nil
		}
		for i := range page {
			size += len(page[i].Value)
		}
		if size > listBytes {
			return nil, host.OverLimit("bytes of the entries of a list", listBytes, int64(size)).With("field", "limit")
		}
	}
	return nil, host.OverLimit("pages that a list reads", maxPages, maxPages+1).With("field", "where")
}

// count answers GET api/keys/count.
func count(r *kvrest.Request) (any, error) {
	params, err := r.Params("prefix")
	if err != nil {
		return nil, err
	}
	within := kv.Key{}
	if text := params["prefix"]; text != "" {
		if within, err = paramKey(text, "prefix"); err != nil {
			return nil, err
		}
	}
	n, err := countAll(r, within)
	return map[string]int64{"count": n}, err
}

// countAll counts all entries of a prefix.
func countAll(r *kvrest.Request, within kv.Key) (n int64, err error) {
	in := kv.CountInput{Selection: kv.Selection{Prefix: within}}
	for {
		var out kv.CountOutput
		if err := r.Do(host.KVCount, &in, &out); err != nil {
			return 0, err
		}
		n += out.Count
		if in.Cursor = out.Cursor; in.Cursor == "" {
			return n, nil
		}
	}
}

// paginate answers GET api/keys/paginate. A page may be short: it ends at the size of a page of
// kv.list.
func paginate(r *kvrest.Request) (any, error) {
	params, err := r.Params("prefix", "cursor", "limit", "reverse")
	if err != nil {
		return nil, err
	}
	in := kv.ListInput{Selection: kv.Selection{Prefix: kv.Key{}}, Cursor: params["cursor"]}
	if text := params["prefix"]; text != "" {
		if in.Prefix, err = paramKey(text, "prefix"); err != nil {
			return nil, err
		}
	}
	if in.Reverse, err = flagOf(params, "reverse", false); err != nil {
		return nil, err
	}
	text, given := params["limit"]
	if in.Limit, err = limitOf(text, given); err != nil {
		return nil, err
	}
	var page kv.ListOutput
	if err := r.Do(host.KVList, &in, &page); err != nil {
		return nil, err
	}
	out := struct {
		Entries []entry `json:"entries"`
		Cursor  *string `json:"cursor"`
		HasMore bool    `json:"hasMore"`
	}{Entries: showAll(page.Entries), HasMore: page.Cursor != ""}
	if out.HasMore {
		out.Cursor = &page.Cursor
	}
	return out, nil
}

package keyval

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
)

// indexOptions are the options of an index.
type indexOptions struct {
	Fields   []string `json:"fields" max:"10000"`
	Tokenize string   `json:"tokenize"`
}

// errBoth refuses options in two places: KeyVal documents them in a member, and its client sends
// them beside it.
var errBoth = kvrest.Wrong("options", "there are options both within the member options and beside it")

// createIndex answers POST api/indexes.
func createIndex(r *kvrest.Request) (any, error) {
	var body struct {
		Prefix  host.Raw      `json:"prefix"`
		Options *indexOptions `json:"options"`
		indexOptions
	}
	if err := r.Body(&body); err != nil {
		return nil, err
	}
	if body.Options != nil {
		if body.Fields != nil || body.Tokenize != "" {
			return nil, errBoth
		}
		body.indexOptions = *body.Options
	}
	prefix, err := indexPrefix(body.Prefix)
	if err != nil {
		return nil, err
	}
	in := kv.SetIndexInput{Prefix: prefix, Tokenizer: body.Tokenize}
	for _, path := range body.Fields {
		in.Fields = append(in.Fields, kv.IndexField{Path: path})
	}
	return written{OK: true}, r.Do(host.KVSetIndex, &in, new(kv.Index))
}

// indexPrefix reads the prefix of an index, which is required; [] means the whole store.
func indexPrefix(raw host.Raw) (kv.Key, error) {
	if string(raw) == "[]" {
		return kv.Key{}, nil
	}
	return jsonKey(raw, "prefix")
}

// prefixParam reads the prefix of an index from a parameter.
func prefixParam(params map[string]string) (kv.Key, error) {
	if params["prefix"] == "" {
		return nil, kvrest.Wrong("prefix", "Missing 'prefix' query parameter")
	}
	return paramKey(params["prefix"], "prefix")
}

// listIndexes answers GET api/indexes.
func listIndexes(r *kvrest.Request) (any, error) {
	if _, err := r.Params(); err != nil {
		return nil, err
	}
	var out kv.IndexesOutput
	if err := r.Do(host.KVIndexes, &kv.IndexesInput{}, &out); err != nil {
		return nil, err
	}
	type index struct {
		Prefix   shownKey `json:"prefix"`
		Fields   []string `json:"fields"`
		Tokenize string   `json:"tokenize"`
		Status   string   `json:"status"`
	}
	list := make([]index, len(out.Indexes))
	for i, ix := range out.Indexes {
		list[i] = index{Prefix: shownKey(ix.Prefix), Tokenize: ix.Tokenizer, Status: ix.Status}
		for _, f := range ix.Fields {
			list[i].Fields = append(list[i].Fields, f.Path)
		}
	}
	return list, nil
}

// removeIndex answers DELETE api/indexes. The prefix is a parameter or, from the client of KeyVal,
// a member of the body.
func removeIndex(r *kvrest.Request) (any, error) {
	params, err := r.Params("prefix")
	if err != nil {
		return nil, err
	}
	text, err := r.Bytes()
	if err != nil {
		return nil, err
	}
	var in kv.RemoveIndexInput
	if len(text) == 0 {
		in.Prefix, err = prefixParam(params)
	} else {
		var body struct {
			Prefix host.Raw `json:"prefix"`
		}
		if err := kvrest.Decode(text, &body); err != nil {
			return nil, err
		}
		if _, both := params["prefix"]; both {
			return nil, kvrest.Wrong("prefix", "there is a prefix both in the URL and in the body")
		}
		in.Prefix, err = indexPrefix(body.Prefix)
	}
	if err != nil {
		return nil, err
	}
	var out kv.RemoveIndexOutput
	if err := r.Do(host.KVRemoveIndex, &in, &out); err != nil {
		return nil, err
	}
	if !out.Removed {
		return nil, host.Errorf(host.NotFound, "there is no index with this prefix")
	}
	return written{OK: true}, nil
}

// search answers GET api/search.
func search(r *kvrest.Request) (any, error) {
	params, err := r.Params("prefix", "query", "limit")
	if err != nil {
		return nil, err
	}
	prefix, err := prefixParam(params)
	if err != nil {
		return nil, err
	}
	text, given := params["limit"]
	limit, err := limitOf(text, given)
	if err != nil {
		return nil, err
	}
	return searchEntries(r, limit, kv.SearchInput{Prefix: prefix, Query: params["query"]})
}

// searchOptions are the options of a search beside its query.
type searchOptions struct {
	Limit host.Raw `json:"limit"`
	Where host.Raw `json:"where"`
}

// searchWhere answers POST api/search.
func searchWhere(r *kvrest.Request) (any, error) {
	var body struct {
		Prefix  host.Raw       `json:"prefix"`
		Query   string         `json:"query"`
		Options *searchOptions `json:"options"`
		searchOptions
	}
	if err := r.Body(&body); err != nil {
		return nil, err
	}
	if body.Options != nil {
		if body.Limit != nil || body.Where != nil {
			return nil, errBoth
		}
		body.searchOptions = *body.Options
	}
	prefix, err := indexPrefix(body.Prefix)
	if err != nil {
		return nil, err
	}
	limit, err := limitOf(string(body.Limit), len(body.Limit) > 0)
	if err != nil {
		return nil, err
	}
	in := kv.SearchInput{Prefix: prefix, Query: body.Query, Where: filter(body.Where)}
	if string(in.Where) == "{}" { // all match it
		in.Where = nil
	}
	return searchEntries(r, limit, in)
}

// searchEntries returns up to limit entries that match, the best first.
func searchEntries(r *kvrest.Request, limit int, in kv.SearchInput) ([]entry, error) {
	if in.Query == "" {
		return nil, kvrest.Wrong("query", "query is missing or empty")
	}
	return collect(limit, func(limit int) ([]kv.Entry, bool, error) {
		in.Limit = limit
		var page kv.SearchOutput
		if err := r.Do(host.KVSearch, &in, &page); err != nil {
			return nil, false, err
		}
		entries := make([]kv.Entry, len(page.Entries))
		for i := range page.Entries {
			entries[i] = page.Entries[i].Entry
		}
		in.Cursor = page.Cursor
		return entries, in.Cursor != "", nil
	})
}

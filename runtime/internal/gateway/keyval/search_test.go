package keyval_test

import (
	"fmt"
	"strings"
	"testing"
)

const ok = `{"ok":true}`

// The examples of the document.
func TestSearch(t *testing.T) {
	s := open(t)
	s.exactly(`[]`, "GET", "indexes", "")
	s.exactly(ok, "POST", "indexes", `{"prefix":["products"],"options":{"fields":["name","description","category"],"tokenize":"porter"}}`)
	s.put("products/1", `{"name":"Red smartphone","price":300,"inStock":true}`, "products/2",
		`{"name":"Smartphones","price":900,"inStock":true}`,
		"products/3", `{"name":"Case","description":"for a smartphone","price":9007199254740993,"inStock":false}`, "products", `{"name":"smartphone"}`)
	s.exactly(`[{"key":["products",1],"value":{"name":"Red smartphone","price":300,"inStock":true},"versionstamp":"STAMP"}]`, "POST", "search",
		`{"prefix":["products"],"query":"smartphone","options":{"limit":50,"where":{"price":{"$lt":500},"inStock":{"$eq":true}}}}`)
	s.want(200, `{"__type":"bigint","value":"9007199254740993"}`, "POST", "search",
		`{"prefix":["products"],"query":"case","options":{"where":{"price":{"$eq":{"__type":"bigint","value":"9007199254740993"}}}}}`)
	got := s.want(200, "", "GET", "search?prefix=products&query=smartphone", "")
	errorIf(t, strings.Count(got, `"key"`) != 4, "%v", got)
	if got := s.want(200, "", "GET", "search?prefix=products&query=smartphone&limit=2", ""); strings.Count(got, `"key"`) != 2 {
		t.Error(got)
	}
	s.exactly(`[]`, "GET", "search?prefix=products&query=nothing", "")
	s.exactly(`[{"prefix":["products"],"fields":["name","description","category"],"tokenize":"porter","status":"ready"}]`, "GET", "indexes", "")

	// The filter applies before the limit, even if many entries do not match it.
	for i := range 20 {
		s.put(fmt.Sprintf("many/%d", i), fmt.Sprintf(`{"t":"apple","n":{"of":"red %d"}}`, i))
	}
	s.exactly(ok, "POST", "indexes", `{"prefix":["many"],"options":{"fields":["t","n.of"]}}`) // has old entries, and dotted fields
	s.exactly(`[{"key":["many",19],"value":{"t":"apple","n":{"of":"red 19"}},"versionstamp":"STAMP"}]`, "POST", "search",
		`{"prefix":["many"],"query":"apple","options":{"limit":1,"where":{"n.of":"red 19"}}}`)
	if got := s.want(200, "", "GET", "search?prefix=many&query=red", ""); strings.Count(got, `"key"`) != 20 {
		t.Error(got)
	}
	s.exactly(ok, "DELETE", "indexes", `{"prefix":["many"]}`)

	// As the client of KeyVal sends it.
	s.exactly(ok, "POST", "indexes", `{"prefix":["products"],"fields":["name"],"tokenize":"ascii"}`) // replaces the one before
	s.exactly(`[{"key":["products",3],"value":{"name":"Case","description":"for a smartphone","price":{"__type":"bigint","value":"9007199254740993"},"inStock":false},"versionstamp":"STAMP"}]`,
		"POST", "search", `{"prefix":["products"],"query":"case","limit":5,"where":{"inStock":false}}`)
	s.exactly(`[{"prefix":["products"],"fields":["name"],"tokenize":"ascii","status":"ready"}]`, "GET", "indexes", "")
	s.exactly(ok, "DELETE", "indexes", `{"prefix":["products"]}`)
	s.want(404, "no index", "GET", "search?prefix=products&query=case", "")
	s.want(404, "no index", "DELETE", "indexes?prefix=products", "")

	// Keys are those of JavaScript, and [] is the whole store.
	s.exactly(ok, "POST", "indexes", `{"prefix":["products",3],"options":{"fields":["name"]}}`)
	s.exactly(ok, "POST", "indexes", `{"prefix":[],"options":{"fields":["name"]}}`)
	if got := s.want(200, "", "GET", "search?prefix=products%2F3&query=case", ""); strings.Count(got, `"key"`) != 1 {
		t.Error(got)
	}
	if got := s.want(200, "", "POST", "search", `{"prefix":[],"query":"case","options":{"where":{}}}`); strings.Count(got, `"key"`) != 1 {
		t.Error(got)
	}
	if got := s.Call("kv.indexes", `{}`); !strings.Contains(got, `"prefix":["products",3.0]`) {
		t.Error(got)
	}
	s.exactly(ok, "DELETE", "indexes?prefix=products%2F3", "")
	s.exactly(ok, "DELETE", "indexes", `{"prefix":[]}`)
}

func TestFaultySearches(t *testing.T) {
	s := open(t)
	s.want(404, "", "DELETE", "indexes?prefix=p", "") // there is no actor
	s.want(404, "", "GET", "search?prefix=p&query=x", "")
	s.exactly(ok, "POST", "indexes", `{"prefix":["p"],"options":{"fields":["a"]}}`)
	s.bodies(400, "POST", "indexes", `{"options":{"fields":["a"]}}`, "prefix is missing",
		`{"prefix":null,"options":{"fields":["a"]}}`, "prefix is no array", `{"prefix":["q"]}`, "at least one field",
		`{"prefix":["q"],"options":{"fields":[]}}`, "at least one field",
		`{"prefix":["q"],"options":{"fields":["a","a"]}}`, "fields[1]",
		`{"prefix":["q"],"options":{"fields":["a b"]}}`, "fields[0]",
		`{"prefix":["q"],"options":{"fields":[1]}}`, "fields",
		`{"prefix":["q"],"options":{"fields":["a"],"tokenize":"latin"}}`, "the tokenizer",
		`{"prefix":["q"],"options":{"fields":["a"]},"fields":["b"]}`, "beside it",
		`{"prefix":["q"],"options":{"fields":["a"],"stem":true}}`, "stem")
	s.want(400, "prefix", "GET", "indexes?prefix=p", ``)
	s.want(400, "Missing 'prefix'", "DELETE", "indexes", ``)
	s.bodies(400, "DELETE", "indexes", `{}`, "prefix is missing", `{"prefix":`, "not JSON")
	s.want(400, "both in the URL", "DELETE", "indexes?prefix=p", `{"prefix":["q"]}`)
	s.paths(400, "GET", ``, "search?query=x", "Missing 'prefix'", "search?prefix=p", "query is missing",
		"search?prefix=p&query=%22", "query", "search?prefix=p&query=none:hi", "query",
		"search?prefix=p&query=x&limit=0", "limit", "search?prefix=p&query=x&where=y", "where")
	s.bodies(400, "POST", "search", `{"query":"x"}`, "prefix is missing", `{"prefix":["p"]}`, "query is missing",
		`{"prefix":["p"],"query":7}`, "query", `{"prefix":["p"],"query":"x","options":{"limit":-1}}`, "limit",
		`{"prefix":["p"],"query":"x","options":{"where":{"n":{"$foo":1}}}}`, "$foo",
		`{"prefix":["p"],"query":"x","options":{"limit":1},"where":{}}`, "beside it")
	s.want(405, "PUT", "PUT", "indexes", `{}`)
	s.want(405, "DELETE", "DELETE", "search", ``)
	s.exactly(`[{"prefix":["p"],"fields":["a"],"tokenize":"unicode61","status":"ready"}]`, "GET", "indexes", "")
}

package keyval_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const ok = `{"ok":true}`

// index makes an index of ["p"].
func (s *store) index(options string) {
	s.t.Helper()
	s.exactly(ok, "POST", "indexes", `{"prefix":["p"],"options":`+options+`}`)
}

// finds wants what a query finds below ["p"]: the last parts of keys in the order of the answer.
func (s *store) finds(query, want string) {
	s.t.Helper()
	var keys []string
	for _, e := range strings.Split(s.want(200, "", "GET", "search?prefix=p&query="+url.QueryEscape(query), ""), `"key":["p",`)[1:] {
		key, _, _ := strings.Cut(e, "]")
		keys = append(keys, strings.Trim(key, `"`))
	}
	if got := strings.Join(keys, " "); got != want {
		s.t.Errorf("%s finds %q, not %q", query, got, want)
	}
}

// The examples of the document.
func TestSearch(t *testing.T) {
	s := open(t)
	s.exactly(`[]`, "GET", "indexes", "")
	s.exactly(ok, "POST", "indexes", `{"prefix":["products"],"options":{"fields":["name","description","category"],"tokenize":"porter"}}`)
	s.put("products/1", `{"name":"Red smartphone","price":300,"inStock":true}`, "products/2", `{"name":"Smartphones","price":900,"inStock":true}`,
		"products/3", `{"name":"Case","description":"for a smartphone","price":9007199254740993,"inStock":false}`, "products", `{"name":"smartphone"}`)
	s.exactly(`[{"key":["products",1],"value":{"name":"Red smartphone","price":300,"inStock":true},"versionstamp":"STAMP"}]`, "POST", "search",
		`{"prefix":["products"],"query":"smartphone","options":{"limit":50,"where":{"price":{"$lt":500},"inStock":{"$eq":true}}}}`)
	s.want(200, `{"__type":"bigint","value":"9007199254740993"}`, "POST", "search", `{"prefix":["products"],"query":"case","options":{"where":{"price":{"$eq":{"__type":"bigint","value":"9007199254740993"}}}}}`)
	if got := s.want(200, "", "GET", "search?prefix=products&query=smartphone", ""); strings.Count(got, `"key"`) != 4 {
		t.Error(got)
	}
	if got := s.want(200, "", "GET", "search?prefix=products&query=smartphone&limit=2", ""); strings.Count(got, `"key"`) != 2 {
		t.Error(got)
	}
	s.exactly(`[]`, "GET", "search?prefix=products&query=nothing", "")
	s.exactly(`[{"prefix":["products"],"fields":["name","description","category"],"tokenize":"porter","status":"ready"}]`, "GET", "indexes", "")

	// As the client of KeyVal sends it.
	s.exactly(ok, "POST", "indexes", `{"prefix":["products"],"fields":["name"],"tokenize":"ascii"}`) // in place of the one before
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
	if got := s.call("kv.indexes", `{}`); !strings.Contains(got, `"prefix":["products",3.0]`) {
		t.Error(got)
	}
	s.exactly(ok, "DELETE", "indexes?prefix=products%2F3", "")
	s.exactly(ok, "DELETE", "indexes", `{"prefix":[]}`)
}

func TestFaultySearches(t *testing.T) {
	s := open(t)
	s.want(404, "", "DELETE", "indexes?prefix=p", "") // there is no actor
	s.want(404, "", "GET", "search?prefix=p&query=x", "")
	s.index(`{"fields":["a"]}`)
	for _, c := range []struct {
		status                 int
		verb, path, body, text string
	}{
		{400, "POST", "indexes", `{"options":{"fields":["a"]}}`, "prefix is missing"},
		{400, "POST", "indexes", `{"prefix":null,"options":{"fields":["a"]}}`, "prefix is no array"},
		{400, "POST", "indexes", `{"prefix":["q"]}`, "at least one field"},
		{400, "POST", "indexes", `{"prefix":["q"],"options":{"fields":[]}}`, "at least one field"},
		{400, "POST", "indexes", `{"prefix":["q"],"options":{"fields":["a","a"]}}`, "fields[1]"},
		{400, "POST", "indexes", `{"prefix":["q"],"options":{"fields":["a b"]}}`, "fields[0]"},
		{400, "POST", "indexes", `{"prefix":["q"],"options":{"fields":[1]}}`, "fields"},
		{400, "POST", "indexes", `{"prefix":["q"],"options":{"fields":["a"],"tokenize":"latin"}}`, "the tokenizer"},
		{400, "POST", "indexes", `{"prefix":["q"],"options":{"fields":["a"]},"fields":["b"]}`, "beside it"},
		{400, "POST", "indexes", `{"prefix":["q"],"options":{"fields":["a"],"stem":true}}`, "stem"},
		{400, "GET", "indexes?prefix=p", ``, "prefix"},
		{400, "DELETE", "indexes", ``, "Missing 'prefix'"},
		{400, "DELETE", "indexes", `{}`, "prefix is missing"},
		{400, "DELETE", "indexes", `{"prefix":`, "not JSON"},
		{400, "DELETE", "indexes?prefix=p", `{"prefix":["q"]}`, "both in the URL"},
		{400, "GET", "search?query=x", ``, "Missing 'prefix'"},
		{400, "GET", "search?prefix=p", ``, "query is missing"},
		{400, "GET", "search?prefix=p&query=x&limit=0", ``, "limit"},
		{400, "GET", "search?prefix=p&query=x&where=y", ``, "where"},
		{400, "POST", "search", `{"query":"x"}`, "prefix is missing"},
		{400, "POST", "search", `{"prefix":["p"]}`, "query is missing"},
		{400, "POST", "search", `{"prefix":["p"],"query":7}`, "query"},
		{400, "POST", "search", `{"prefix":["p"],"query":"x","options":{"limit":-1}}`, "limit"},
		{400, "POST", "search", `{"prefix":["p"],"query":"x","options":{"where":{"n":{"$foo":1}}}}`, "$foo"},
		{400, "POST", "search", `{"prefix":["p"],"query":"x","options":{"limit":1},"where":{}}`, "beside it"},
		{405, "PUT", "indexes", `{}`, "PUT"},
		{405, "DELETE", "search", ``, "DELETE"},
	} {
		s.want(c.status, c.text, c.verb, c.path, c.body)
	}
	s.exactly(`[{"prefix":["p"],"fields":["a"],"tokenize":"unicode61","status":"ready"}]`, "GET", "indexes", "")
}

func TestK15CommitsUpdateTheIndex(t *testing.T) {
	s := open(t)
	s.index(`{"fields":["t"]}`)
	s.want(200, ok[:9], "POST", "atomic", `{"mutations":[{"type":"set","key":["p","a"],"value":{"t":"red apple"}},{"type":"set","key":["p","b"],"value":{"t":"red pear"}}]}`)
	s.finds("apple", "a")
	s.want(200, ok[:9], "POST", "atomic", `{"mutations":[{"type":"set","key":["p","a"],"value":{"t":"plum"}},{"type":"delete","key":["p","b"]}]}`)
	s.finds("red", "")
	s.finds("plum", "a")
	s.want(200, `{"ok":false}`, "POST", "atomic", `{"checks":[{"key":["p","a"],"versionstamp":null}],"mutations":[{"type":"set","key":["p","c"],"value":{"t":"plum"}}]}`)
	s.finds("plum", "a")
}

func TestK16AnIndexHasWhatIsThereAndDottedFields(t *testing.T) {
	s := open(t)
	s.put("p/a", `{"details":{"manufacturer":{"name":"Acme"}}}`, "p/b", `{"details.manufacturer.name":"Acme"}`)
	s.index(`{"fields":["details.manufacturer.name"]}`)
	s.finds("acme", "a")
	s.exactly(`[{"prefix":["p"],"fields":["details.manufacturer.name"],"tokenize":"unicode61","status":"ready"}]`, "GET", "indexes", "")
}

func TestK17AQueryIsNoSyntaxOfTheDatabase(t *testing.T) {
	s := open(t)
	s.put("p/a", `{"t":"say \"hi\" it's","u":"other"}`)
	s.index(`{"fields":["t","u"]}`)
	for _, query := range []string{`"`, `hi"`, `(`, `*`, `none:hi`, `AND`} {
		s.want(400, "query", "GET", "search?prefix=p&query="+url.QueryEscape(query), "")
	}
	s.finds(`it's`, "a")
	s.finds(`hi'; DROP TABLE x; --`, "")
	s.finds(`"say hi"`, "a")
	s.finds(`t:other`, "")
}

func TestK18WhereIsBeforeLimit(t *testing.T) {
	s := open(t)
	s.index(`{"fields":["t"]}`)
	for i := range 20 {
		s.put(fmt.Sprintf("p/%d", i), fmt.Sprintf(`{"t":"apple","n":%d}`, i))
	}
	s.exactly(`[{"key":["p",19],"value":{"t":"apple","n":19},"versionstamp":"STAMP"}]`, "POST", "search", `{"prefix":["p"],"query":"apple","options":{"limit":1,"where":{"n":19}}}`)
	if got := s.want(200, "", "POST", "search", `{"prefix":["p"],"query":"apple","options":{"limit":5,"where":{"n":{"$gte":10}}}}`); strings.Count(got, `"key"`) != 5 {
		t.Error(got)
	}
}

// Deleting a prefix, expiry, and queries of several words.
func TestB22TheIndexIsTrue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		s.index(`{"fields":["t","u"]}`)
		s.put("p/a", `{"t":"red apple"}`, "p/a/x", `{"t":"green apple"}`, "p/b?expiresIn=900", `{"t":"old apple"}`, "p/c", `{"t":"red","u":"apple"}`, "pp/d", `{"t":"apple"}`)
		s.want(200, `"old apple"`, "GET", "search?prefix=p&query=old", "")
		time.Sleep(900 * time.Millisecond)
		s.finds("old", "")
		s.finds("t:(red apple)", "a")
		s.exactly(`{"deletedCount":2}`, "DELETE", "keys/p/a", "")
		s.finds("apple", "c")
		s.exactly(`{"deletedCount":1}`, "POST", "keys/delete-batch", `{"keys":[["p"]],"where":{"t":"red"}}`)
		s.finds("apple", "")
		if left := s.keys(""); left != `["pp","d"]` {
			t.Error(left)
		}
	})
}

package keyval_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// The examples of the document.
func TestExamples(t *testing.T) {
	s := open(t)
	s.put("users/123", `{"name":"Alice","age":30}`, "users/7", `{"status":"active"}`, "users/42/profile", `1`,
		"metrics/2024-01-01/cpu", `0.5`)
	s.exactly(`{"key":["users",123],"value":{"name":"Alice","age":30},"versionstamp":"STAMP"}`, "GET", "keys/users/123", "")
	s.exactly(`[{"key":["users",7],"value":{"status":"active"},"versionstamp":"STAMP"}]`, "POST", "keys/list",
		`{"prefix":["users"],"where":{"status":{"$eq":"active"}}}`)
	s.exactly(`[{"key":["metrics","2024-01-01","cpu"],"value":0.5,"versionstamp":"STAMP"}]`, "GET", "keys?prefix=metrics", "")
	s.put("tasks/a", `{"status":"completed"}`, "tasks/b", `{"status":"open"}`)
	s.exactly(`{"deletedCount":1}`, "DELETE", "keys/tasks", `{"where":{"status":"completed"}}`)
	update := `{"checks":[{"key":["users",123],"versionstamp":"` + s.stamp("users/123") + `"}],
		"mutations":[{"type":"set","key":["users",123],"value":{"name":"Alice","age":31}},{"type":"sum","key":["counters","updates"],"value":1}]}`
	s.exactly(`{"ok":true,"versionstamp":"STAMP"}`, "POST", "atomic", update)
	s.exactly(`{"ok":false}`, "POST", "atomic", update)
	s.exactly(`{"key":["counters","updates"],"value":1,"versionstamp":"STAMP"}`, "GET", "keys/counters/updates", "")
	s.exactly(`[{"key":["users",7],"value":{"status":"active"},"versionstamp":"STAMP"},{"key":["users","7"],"value":null,"versionstamp":null}]`,
		"POST", "keys/batch", `{"keys":[["users",7],["users","7"]]}`)
	s.exactly(`{"count":3}`, "GET", "keys/count?prefix=users", "")
	s.exactly(`{"count":6}`, "GET", "keys/count", "")
	s.exactly(`{"deletedCount":3}`, "POST", "keys/delete-batch", `{"keys":[["users"],["users",7],["none"]]}`)
	s.exactly(`{"count":3}`, "GET", "keys/count?prefix=", "")
	// Versionstamps are in the order of commits, and equal those of the native interface. null is
	// not absence.
	last := s.stamp("tasks/b")
	s.put("tasks/b", `null`)
	stamp := s.stamp("tasks/b")
	version, err := strconv.ParseUint(stamp[:16], 16, 64)
	native := s.Call("kv.get", `{"key":["tasks","b"]}`)
	errorIf(t, err != nil || stamp <= last || !strings.Contains(native, fmt.Sprint(`"version":`, version)),
		"%s follows %s, and is %s", stamp, last, native)
	s.exactly(`{"key":["tasks","b"],"value":null,"versionstamp":"STAMP"}`, "GET", "keys/tasks/b", "")
}

// The table of what is deleted.
func TestDelete(t *testing.T) {
	for _, c := range []struct{ path, body, deleted, left string }{
		{"keys/a", ``, "3", `["ab"] [1]`}, {"keys/a", `{}`, "3", `["ab"] [1]`},
		{"keys/a", `{"exact":false}`, "3", `["ab"] [1]`},
		{"keys/a", `{"exact":true}`, "1", `["a","b"] ["a",1] ["ab"] [1]`},
		{"keys/a", `{"where":{"n":{"$gte":2}}}`, "2", `["a"] ["ab"] [1]`},
		{"keys/a", `{"exact":true,"where":{"n":{"$gte":2}}}`, "0", `["a"] ["a","b"] ["a",1] ["ab"] [1]`},
		{"keys/a", `{"exact":true,"where":{"n":1}}`, "1", `["a","b"] ["a",1] ["ab"] [1]`},
		{"keys/1", ``, "1", `["a"] ["a","b"] ["a",1] ["ab"]`},
		{"keys/none", ``, "0", `["a"] ["a","b"] ["a",1] ["ab"] [1]`},
	} {
		s := open(t)
		s.exactly(`{"deletedCount":0}`, "DELETE", c.path, c.body)
		s.put("a", `{"n":1}`, "a/b", `{"n":2}`, "a/1", `{"n":3}`, "ab", `{"n":4}`, "1", `{"n":5}`)
		s.exactly(`{"deletedCount":`+c.deleted+`}`, "DELETE", c.path, c.body)
		left := s.keys("")
		errorIf(t, left != c.left, "%s %s: %s", c.path, c.body, left)
	}
	s := open(t)
	s.put("a/1", `1`, "b/1", `2`, "c", `3`)
	// deletes nothing
	for _, body := range []string{`{"exact":true`, `exact`, `{"exact":"true"}`, `{"exact":null}`, "\x00", `{"exact":true}{}`} {
		s.want(400, "", "DELETE", "keys/a", body)
	}
	s.want(400, "keys[1]", "POST", "keys/delete-batch", `{"keys":[["c"],[null]]}`)
	before := len(s.Node.Requests())
	s.exactly(`{"deletedCount":2}`, "POST", "keys/delete-batch", `{"keys":[["a"],["b",1]],"exact":false}`)
	if calls := s.Node.Requests()[before:]; len(calls) != 1 || calls[0].Method != "kv.commit" { // a batch is one commit
		t.Error(calls)
	}
	s.exactly(`{"count":1}`, "GET", "keys/count", "")
}

func TestListAndPaginate(t *testing.T) {
	s := open(t)
	for i := range 5 {
		s.put(fmt.Sprintf("n/%d", i), fmt.Sprint(i))
	}
	s.put("n", `"own"`, "m/1", `1`, "o", `1`)
	for query, want := range map[string]string{
		"n&limit=2":                    `["n"] ["n",0]`,
		"n&limit=2&reverse=true":       `["n",4] ["n",3]`,
		"n&limit=2.9&reverse=false":    `["n"] ["n",0]`,
		"n&start=n%2F1&end=n%2F3":      `["n",1] ["n",2]`,
		"&start=m&end=n":               `["m",1]`,
		"n&start=m":                    `["n"] ["n",0] ["n",1] ["n",2] ["n",3] ["n",4]`,
		"n&end=z":                      `["n"] ["n",0] ["n",1] ["n",2] ["n",3] ["n",4]`,
		"n&start=o":                    ``,
		"n&end=n":                      ``,
		"&start=n%2F3":                 `["n",3] ["n",4] ["o"]`,
		"&end=n":                       `["m",1]`,
		"&limit=100000000000000000000": `["m",1] ["n"] ["n",0] ["n",1] ["n",2] ["n",3] ["n",4] ["o"]`,
	} {
		same(t, s.keys(query), want, query)
	}
	s.exactly(`[{"key":["n",3],"value":3,"versionstamp":"STAMP"}]`, "POST", "keys/list",
		`{"prefix":["n"],"start":["n",3],"end":["n",4],"limit":5,"reverse":true,"where":{}}`)
	for _, reverse := range []string{"", "&reverse=true"} {
		var got []string
		for cursor := ""; ; {
			var page struct {
				Entries []struct{ Key json.RawMessage }
				Cursor  *string
				HasMore bool
			}
			s.decode(s.want(200, "", "GET", "keys/paginate?prefix=n&limit=2"+reverse+cursor, ""), &page)
			for _, e := range page.Entries {
				got = append(got, string(e.Key))
			}
			errorIf(t, page.HasMore != (page.Cursor != nil), "%v", page)
			if !page.HasMore {
				break
			}
			s.want(400, "cursor", "GET", "keys/paginate?prefix=m&cursor="+*page.Cursor, "")
			cursor = "&cursor=" + *page.Cursor
		}
		text := strings.Join(got, " ")
		errorIf(t, reverse == "" && text != `["n"] ["n",0] ["n",1] ["n",2] ["n",3] ["n",4]` || len(got) != 6, "%v", got)
	}
	s.exactly(`{"entries":[],"cursor":null,"hasMore":false}`, "GET", "keys/paginate?prefix=none", "")
}

// A list with a filter that few entries match reads until it has all.
func TestAListOfWhatFewMeet(t *testing.T) {
	s := open(t)
	for i := 0; i < 11_000; i += 1_000 {
		var b strings.Builder
		for j := range 1_000 {
			fmt.Fprintf(&b, `,{"op":"put","key":["n",%d.0],"value":{"n":%d}}`, i+j, i+j)
		}
		s.Call("kv.commit", `{"mutations":[`+b.String()[1:]+`]}`)
	}
	s.exactly(`[{"key":["n",10999],"value":{"n":10999},"versionstamp":"STAMP"}]`, "POST", "keys/list",
		`{"prefix":["n"],"where":{"n":10999}}`)
	s.exactly(`[{"key":["n",5],"value":{"n":5},"versionstamp":"STAMP"},{"key":["n",10999],"value":{"n":10999},"versionstamp":"STAMP"}]`,
		"POST", "keys/list", `{"prefix":["n"],"where":{"n":{"$in":[5,10999]}}}`)
	got := s.want(200, "", "GET", "keys?limit=5000", "")
	errorIf(t, strings.Count(got, `"key"`) != 1000, "%d entries", strings.Count(got, `"key"`))
	s.want(413, "limit of 10000", "DELETE", "keys/n", `{"where":{"n":1}}`)
	s.exactly(`{"count":11000}`, "GET", "keys/count?prefix=n", "")
}

func TestKeys(t *testing.T) {
	s := open(t)
	for path, want := range map[string]string{
		"users/7":                 `["users",7.0]`,
		"users/-7":                `["users",-7.0]`,
		"users/007":               `["users",7.0]`,
		"users/9007199254740991":  `["users",9007199254740991.0]`,
		"users/9007199254740993":  `["users","9007199254740993"]`,
		"users/1.5":               `["users","1.5"]`,
		"users/true":              `["users","true"]`,
		"a%2Fb/c%20d/%C3%A9/~-/-": `["a/b","c d","é","~-","-"]`,
	} {
		s.put(path, `1`)
		got := s.Call("kv.get", `{"key":`+want+`}`)
		errorIf(t, !strings.Contains(got, `"value":1`), "%s is not %s", path, want)
		s.want(200, `"value":1`, "GET", "keys/"+path, "")
	}
	s.exactly(`{"count":1}`, "GET", "keys/count?prefix=a%252Fb", "") // a path in a parameter is encoded twice
	s.exactly(`{"count":0}`, "GET", "keys/count?prefix=a%2Fb", "")
	for key, want := range map[string]string{
		`["k",7]`:                               `["k",7.0]`,
		`["k",7.5]`:                             `["k",7.5]`,
		`["k","7"]`:                             `["k","7"]`,
		`["k",true]`:                            `["k",true]`,
		`["k",{"__type":"bigint","value":"7"}]`: `["k",7]`,
		`["k",{"__type":"bigint","value":"-123456789012345678901"}]`: `["k",-123456789012345678901]`,
		`["k",{"$bytes":"AP8="}]`:                                    `["k",{"$bytes":"AP8="}]`,
		`["k",1e+21]`:                                                `["k",1e21]`,
	} {
		s.commit(`{"type":"set","key":` + key + `,"value":2}`)
		got := s.Call("kv.get", `{"key":`+want+`}`)
		errorIf(t, !strings.Contains(got, `"value":2`), "%s is not %s", key, want)
		s.exactly(`[{"key":`+key+`,"value":2,"versionstamp":"STAMP"}]`, "POST", "keys/batch", `{"keys":[`+key+`]}`) // as written
	}
	const order = `["k",{"$bytes":"AP8="}] ["k","7"] ["k",{"__type":"bigint","value":"-123456789012345678901"}] ["k",{"__type":"bigint","value":"7"}] ` +
		`["k",7] ["k",7.5] ["k",1e+21] ["k",true]`
	same(t, s.keys("k"), order)
}

func TestPlaceholders(t *testing.T) {
	s := open(t)
	got := s.want(200, "", "POST", "atomic",
		`{"mutations":[{"type":"set","key":["by-id",{"$uuidv7":true}],"value":{"id":{"$uuidv7":true}}}]}`)
	var out struct {
		Resolved map[string]string
	}
	s.decode(got, &out)
	s.want(200, `"value":{"id":"`+out.Resolved["uuidv7"]+`"}`, "GET", "keys/by-id/"+out.Resolved["uuidv7"], "")
	s.want(400, "", "POST", "keys/batch", `{"keys":[["by-id",{"$uuidv7":true}]]}`)
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		s.put("at", `{"at":{"$now":true},"later":{"$now":true,"$offset":5},"sooner":{"offset":-5,"$now":true},"other":{"$now":true,"x":1},"text":"{\"$now\":true}"}`)
		ms := time.Now().UnixMilli()
		s.want(200, fmt.Sprintf(`"value":{"at":%d,"later":%d,"sooner":%d,"other":{"$now":true,"x":1},"text":"{\"$now\":true}"}`, ms, ms+5, ms-5), "GET", "keys/at", "")
	})
}

func TestMutations(t *testing.T) {
	s := open(t)
	for _, c := range []struct{ before, mutations, after string }{
		{``, `{"type":"set","key":["k"],"value":1}`, `1`}, {`1`, `{"type":"delete","key":["k"]}`, ``},
		{``, `{"type":"sum","key":["k"],"value":2}`, `2`},
		{`1`, `{"type":"sum","key":["k"],"value":2},{"type":"sum","key":["k"],"value":"3"}`, `6`},
		{`9007199254740991`, `{"type":"sum","key":["k"],"value":1},{"type":"sum","key":["k"],"value":1}`,
			`{"__type":"bigint","value":"9007199254740993"}`},
		{`9007199254740993`, `{"type":"sum","key":["k"],"value":{"__type":"bigint","value":"100000000000000000000"}}`,
			`{"__type":"bigint","value":"100009007199254740993"}`},
		{``, `{"type":"sum","key":["k"],"value":{"__type":"bigint","value":"2"}},{"type":"sum","key":["k"],"value":1}`,
			`{"__type":"bigint","value":"3"}`},
		{`1`, `{"type":"sum","key":["k"],"value":0.5}`, `1.5`},
		{`1`, `{"type":"max","key":["k"],"value":2},{"type":"min","key":["k"],"value":5}`, `2`},
		{`1`, `{"type":"min","key":["k"],"value":-2}`, `-2`},
		{`[{"x":1},true]`,
			`{"type":"append","key":["k"],"value":[[2],null]},{"type":"prepend","key":["k"],"value":[false]}`, `[false,{"x":1},true,[2],null]`},
		{``, `{"type":"append","key":["k"],"value":[2,3]}`, `[2,3]`},
		{``, `{"type":"prepend","key":["k"],"value":[]}`, `[]`}, {`1`, ``, `1`},
	} {
		s.Send("DELETE", "keys/k", "")
		if c.before != "" {
			s.put("k", c.before)
		}
		s.commit(c.mutations)
		if c.after == "" {
			s.want(404, "Key not found", "GET", "keys/k", "")
			continue
		}
		s.exactly(`{"key":["k"],"value":`+c.after+`,"versionstamp":"STAMP"}`, "GET", "keys/k", "")
	}
	s.Send("DELETE", "keys/k", "")
	create := `{"checks":[{"key":["k"],"versionstamp":null}],"mutations":[{"type":"set","key":["k"],"value":1}]}`
	s.exactly(`{"ok":true,"versionstamp":"STAMP"}`, "POST", "atomic", create)
	s.exactly(`{"ok":false}`, "POST", "atomic", create)
	for _, stamp := range []string{"00000001", "", "x", strings.Repeat("0", 20), "00000000000000020001"} { // no entry has it
		s.exactly(`{"ok":false}`, "POST", "atomic", `{"checks":[{"key":["k"],"versionstamp":"`+stamp+`"}],"mutations":[]}`)
		s.exactly(`{"ok":false}`, "POST", "atomic", `{"checks":[{"key":["none"],"versionstamp":"`+stamp+`"}],"mutations":[]}`)
	}
}

func TestBigints(t *testing.T) {
	s := open(t)
	for value, want := range map[string]string{
		`{"__type":"bigint","value":"5"}`:                                  `{"__type":"bigint","value":"5"}`,
		`{ "value" : "-00012345678901234567890" , "__type":"bigint" }`:     `{"__type":"bigint","value":"-12345678901234567890"}`,
		`{"n":{"__type":"bigint","value":"5"}}`:                            `{"n":5}`,
		`[9007199254740991,-9007199254740992,1e30,0.12345678901234567890]`: `[9007199254740991,{"__type":"bigint","value":"-9007199254740992"},1e30,0.12345678901234567890]`,
		`{"9007199254740993":"9007199254740993 \"9007199254740993"}`:       `{"9007199254740993":"9007199254740993 \"9007199254740993"}`,
		// Other objects are values as they are.
		`{"__type":"bigint","value":"5","x":1}`:     `{"__type":"bigint","value":"5","x":1}`,
		`{"__type":"bigint","value":5}`:             `{"__type":"bigint","value":5}`,
		`{"__type":"bigint","value":"5.5"}`:         `{"__type":"bigint","value":"5.5"}`,
		`"{\"__type\":\"bigint\",\"value\":\"5\"}"`: `"{\"__type\":\"bigint\",\"value\":\"5\"}"`,
	} {
		s.put("k", value)
		s.exactly(`{"key":["k"],"value":`+want+`,"versionstamp":"STAMP"}`, "GET", "keys/k", "")
	}
}

func TestEntriesExpireAtTheirMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		for ms, path := range map[time.Duration]string{1: "a", 900: "b", 1999: "c"} {
			s.put(fmt.Sprintf("%s?expiresIn=%d", path, ms), `1`)
			s.commit(fmt.Sprintf(`{"type":"set","key":[%q],"value":1,"expiresIn":%d}`, path+path, ms))
			time.Sleep((ms - 1) * time.Millisecond)
			s.exactly(`{"count":2}`, "GET", "keys/count", "")
			time.Sleep(time.Millisecond)
			s.exactly(`{"count":0}`, "GET", "keys/count", "")
		}
		s.put("n?expiresIn=1000", `1`)
		s.commit(`{"type":"sum","key":["n"],"value":1}`) // keeps the time to live
		time.Sleep(time.Second)
		s.want(404, "", "GET", "keys/n", "")
	})
}

func TestFiltersMeanWhatTheySay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		s.put("a", fmt.Sprintf(`{"s":"😀x","n":null,"at":%d}`, time.Now().Add(-30*time.Minute).UnixMilli()), "b",
			`{"n":5,"at":0}`, "other/c", `{"s":"1"}`)
		for where, want := range map[string]string{
			`{"s":{"$startsWith":"😀"}}`:                                            "a",
			`{"n":{"$eq":null}}`:                                                   "a other",
			`{"n":{"$eq":{"__type":"bigint","value":"5"}}}`:                        "b",
			`{"n":{"$gt":{"value":"4","__type":"bigint"}}}`:                        "b",
			`{"at":{"$lt":{"$now":true,"offset":-3600000}}}`:                       "b",
			`{"at":{"$lt":{"$now":true,"$offset":-60000}}}`:                        "a b",
			`{"at":{"$between":[{"$now":true,"$offset":-3600000},{"$now":true}]}}`: "a",
			`{"s') IS NULL OR ('1":"1"}`:                                           "",
			`{"$or":[]}`:                                                           "",
			`{"s":{"$lt":5}}`:                                                      "", // types are not compared
		} {
			var got []string
			for _, key := range []string{"a", "b", "other"} {
				if s.want(200, "", "POST", "keys/list", `{"prefix":["`+key+`"],"where":`+where+`}`) != "[]" {
					got = append(got, key)
				}
			}
			errorIf(t, strings.Join(got, " ") != want, "%s: %s, not %s", where, got, want)
		}
	})
}

func TestFaultyRequests(t *testing.T) {
	s := open(t)
	s.put("a/1", `{"n":1}`, "text", `"abc"`)
	before := s.Call("kv.list", `{}`)
	long, deep := strings.Repeat("x", 1025), strings.TrimSuffix(strings.Repeat("x/", 21), "/")
	many := `[` + strings.TrimSuffix(strings.Repeat(`["a"],`, 1001), ",") + `]`
	mutate := func(members string) string { return `{"mutations":[{"key":["m"],` + members + `}]}` }
	s.paths(404, "GET", ``, "keys/none", "Key not found", "nothing", "nothing at this path")
	s.want(405, "DELETE", "DELETE", "keys", ``)
	s.want(405, "POST", "POST", "keys", `{}`)
	s.want(405, "PATCH", "PATCH", "keys/a", ``)
	s.paths(400, "DELETE", ``, "keys/a/", "empty segment", "keys//a", "empty segment")
	s.paths(400, "GET", ``, "keys/"+deep, "the limit is 20", "keys/"+long, "the limit is 1024", "keys/a?x=1", "x")
	s.want(400, "the body is missing", "PUT", "keys/a", ``)
	s.bodies(400, "PUT", "keys/a", `{`, "not JSON", `{"a":1,"a":2}`, "twice")
	s.want(413, "value: ", "PUT", "keys/a", `"`+strings.Repeat("x", 1<<20)+`"`)
	s.paths(400, "PUT", `1`, "keys/a?expiresIn=0", "expiresIn", "keys/a?expiresIn=1.5", "expiresIn",
		"keys/a?expiresIn=3153600000001", "expiresIn", "keys/a?expiresIn=1&expiresIn=2", "2 times")
	s.bodies(400, "DELETE", "keys/a", `null`, "not an object", `{"where":null}`, "no filter",
		`{"where":{}}`, "at least one condition", `{"where":{"n":{"$equals":1}}}`, "$equals", `{"exakt":true}`, "exakt")
	s.bodies(400, "POST", "keys/delete-batch", `{}`, "keys is missing", `{"keys":[]}`, "keys is missing",
		`{"keys":[[]]}`, "keys[0] has no parts", `{"keys":["a"]}`, "keys[0]",
		`{"keys":`+many+`}`, "the limit is 1000", `{"keys":[["a"]],"where":{}}`, "at least one condition")
	s.bodies(400, "POST", "keys/batch", `{"keys":`+many+`}`, "the limit is 1000",
		`{"keys":[["a"],["a",null]]}`, "keys[1][1] is null", `{"keys":[["a",{"b":1}]]}`, "keys[0][1]",
		`{"keys":[["a",1e999]]}`, "keys[0][1]", `{"keys":[["\ud800"]]}`, "keys[0][0]",
		`{"keys":[["`+long+`"]]}`, "keys[0][0] has 1025 characters")
	s.paths(400, "GET", ``, "keys?limit=0", "limit", "keys?limit=x", "limit", "keys?limit=NaN", "limit",
		"keys?reverse=yes", "reverse", "keys?prefix=a%2F%2Fb", "empty segment", "keys?prefix=50%25", "percent-encoded",
		"keys?start=a&offset=1", "offset", "keys/paginate?cursor=x", "cursor")
	s.bodies(400, "POST", "keys/list", `{"where":{"n":{"$foo":1}}}`, "$foo", `{"where":{"n":{}}}`, "n: ",
		`{"where":5}`, "object of conditions", `{"limit":0}`, "limit", `{"limit":"5"}`, "limit",
		`{"prefix":"a"}`, "prefix")
	s.want(400, "not JSON", "POST", "atomic", ``)
	s.bodies(400, "POST", "atomic", `{}`, "mutations is missing",
		`{"mutations":[{}]}`, "mutations[0].key is missing", mutate(`"type":"multiply","value":1`), "mutations[0].type",
		mutate(`"type":"set"`), "mutations[0].value is missing",
		mutate(`"type":"sum"`), "mutations[0].value is missing",
		mutate(`"type":"sum","value":true`), "mutations[0].value is true",
		mutate(`"type":"sum","value":"0x10"`), "mutations[0].value",
		mutate(`"type":"append","value":1`), "must be an array",
		mutate(`"type":"set","value":1,"expiresIn":0`), "mutations[0].expiresIn",
		mutate(`"type":"delete","expiresIn":5`), "mutations[0].expiresIn",
		mutate(`"type":"set","value":1,"ttl":5`), "ttl",
		`{"checks":[{"key":["a"]}],"mutations":[]}`, "checks[0].versionstamp",
		`{"checks":[{"key":["a"],"versionstamp":7}],"mutations":[]}`, "checks[0].versionstamp",
		`{"checks":[`+strings.Repeat(`{},`, 100)+`{}],"mutations":[]}`, "the limit is 100",
		`{"mutations":[`+strings.Repeat(`{},`, 1000)+`{}]}`, "the limit is 1000",
		`{"mutations":[{"type":"set","key":["m"],"value":1},{"type":"sum","key":["text"],"value":1}]}`, "mutations[1]",
		`{"mutations":[{"type":"append","key":["text"],"value":[1]}]}`, "mutations[0]")
	w := s.Send("DELETE", "keys/a", `{"exact":true}`, "Content-Type: text/plain")
	errorIf(t, w.Code != 415, "%d %s", w.Code, w.Body)
	same(t, s.Call("kv.list", `{}`), before)
}

func FuzzBodies(f *testing.F) {
	for _, seed := range [][2]string{
		{"atomic", `{"checks":[{"key":["a"],"versionstamp":null}],"mutations":[{"type":"set","key":["a",{"__type":"bigint","value":"5"}],"value":{"at":{"$now":true,"$offset":-5}}}]}`},
		{"keys/list", `{"prefix":["a"],"start":["a",1],"where":{"n":{"$in":[{"__type":"bigint","value":"5"}]}},"limit":5,"reverse":true}`},
		{"keys/batch", `{"keys":[["a",{"$bytes":"AP8="},true,1.5,"\ud83d\ude00"]]}`},
		{"keys/delete-batch", `{"keys":[["a"]],"exact":true,"where":{"a":1}}`},
		{"indexes", `{"prefix":["a"],"options":{"fields":["n","a.b"],"tokenize":"porter"}}`},
		{"search", `{"prefix":["a"],"query":"\"x y\" OR n:z*","options":{"limit":5,"where":{"n":1}}}`},
		{"queue/enqueue", `{"value":1,"options":{"delay":5,"backoffSchedule":[1],"keysIfUndelivered":[["a",1]]}}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, path, body string) {
		switch path {
		case "atomic", "keys/list", "keys/batch", "keys/delete-batch", "queue/enqueue", "indexes", "search":
		default:
			return
		}
		s := open(t)
		s.put("a/1", `{"n":12345678901234567890,"a":[1e400,"\"5"]}`)
		for _, w := range []*httptest.ResponseRecorder{s.Send("POST", path, body), s.Send("GET", "keys", "")} {
			errorIf(t, w.Code >= 500 || !json.Valid(w.Body.Bytes()), "%d %s", w.Code, w.Body)
		}
	})
}

// The scripts of package gateway test streams. The tests here have large ones.

// follow returns the output of a stream in a second of virtual time.
func (s *store) follow(path string) string {
	ctx, cancel := context.WithTimeout(s.T.Context(), time.Second)
	defer cancel()
	w := httptest.NewRecorder()
	s.Gateway.ServeHTTP(w, s.Request("GET", path, "").WithContext(ctx))
	return w.Body.String()
}

// The limit bounds the first entries even if they come in several events.
func TestTheLimitOfAWatchIsOfAllThatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		large := `"` + strings.Repeat("x", 1<<20-2) + `"`
		for i := range 20 {
			s.put(fmt.Sprint("n/", i), large)
		}
		text := s.follow("watch/prefix?prefix=n&limit=18")
		if n, events := strings.Count(text, `"key":`), strings.Count(text, "event: change"); n != 18 || events < 2 {
			t.Errorf("%d entries in %d events", n, events)
		}
	})
}

// A listener that settles nothing gets only as many messages as it may hold.
func TestAListenerHoldsSoMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		for range 70 {
			s.want(200, "", "POST", "queue/enqueue", `{"value":1}`)
		}
		same(t, strings.Count(s.follow("queue/listen"), "event: message"), 64)
		s.exactly(`{"pending":6,"processing":64,"dlq":0,"total":70}`, "GET", "queue/stats", "")
	})
}

func TestFaultyWatches(t *testing.T) {
	s := openWith(t, serve.Options{Limits: serve.Limits{Streams: 1}})
	many := strings.TrimSuffix(strings.Repeat("a,", 1001), ",")
	s.paths(400, "GET", "", "watch", "Missing 'keys' query parameter",
		"watch?keys=", "Missing 'keys' query parameter", "watch?keys=a,", "empty segment",
		"watch?keys="+many, "the limit is 1000", "watch?keys=a&initial=1", "initial", "watch?keys=a&limit=1", "limit",
		"watch/prefix", "Missing 'prefix' query parameter", "watch/prefix?prefix=a&prefixes=b", "both",
		"watch/prefix?prefixes="+many[:33], "the limit is 16", "watch/prefix?prefix=a&limit=0", "limit",
		"watch/poll", "Missing 'keys' query parameter",
		"watch/poll?keys=a&versionstamps=1,2", "2 versionstamps for 1 keys",
		"watch/prefix/poll", "Missing 'prefix' query parameter", "watch/prefix/poll?prefix=a&limit=x", "limit",
		"watch/prefix/poll?prefix=a&versionstamps=a%2500%25FF:00000000000000020000", "versionstamps",
		"watch/prefix/poll?prefix=a&versionstamps=a%2500b:00000000000000020000", "versionstamps",
		"watch/prefix/poll?prefix=a&versionstamps=a", "versionstamps",
		"watch/prefix/poll?prefix=a&versionstamps=a//b:1", "versionstamps")
	s.want(405, "HEAD", "HEAD", "watch?keys=a", "")
}

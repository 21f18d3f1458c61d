package keyval_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The defects of the original are counted as in the study of it. K15 to K18 are in search_test.go.

func TestK1APrefixIsNotItsSiblings(t *testing.T) {
	s := open(t)
	s.put("user", `0`, "user/1", `1`, "users/1", `2`)
	s.exactly(`{"count":2}`, "GET", "keys/count?prefix=user", "")
	if got := s.keys("user"); got != `["user"] ["user",1]` {
		t.Error(got)
	}
	s.exactly(`{"deletedCount":2}`, "DELETE", "keys/user", "")
	if got := s.keys(""); got != `["users",1]` {
		t.Error(got)
	}
}

func TestK2SegmentsAreDecoded(t *testing.T) {
	s := open(t)
	s.put("a%2Fb/c", `1`)
	s.exactly(`{"key":["a/b","c"],"value":1,"versionstamp":"STAMP"}`, "GET", "keys/a%2Fb/c", "")
	s.exactly(`{"count":1}`, "GET", "keys/count?prefix=a%252Fb", "") // a path in a parameter is encoded once more
	s.exactly(`{"count":0}`, "GET", "keys/count?prefix=a%2Fb", "")
}

func TestK3AnUnknownOperatorIsRefused(t *testing.T) {
	s := open(t)
	s.put("a/1", `{"s":1}`, "a/2", `{"s":2}`)
	s.want(400, "$equals", "DELETE", "keys/a", `{"where":{"s":{"$equals":1}}}`)
	s.want(400, "$equals", "POST", "keys/list", `{"where":{"s":{"$equals":1}}}`)
	s.exactly(`{"count":2}`, "GET", "keys/count", "")
}

func TestK4AMalformedBodyDeletesNothing(t *testing.T) {
	s := open(t)
	s.put("a", `0`, "a/1", `1`)
	for _, body := range []string{`{"exact":true`, `exact`, `"exact"`, `{"exact":"true"}`, `{"exact":null}`, "\x00", `{"exact":true}{}`} {
		s.want(400, "", "DELETE", "keys/a", body)
	}
	s.exactly(`{"count":2}`, "GET", "keys/count", "")
}

func TestK5AnEmptyOrIsFalse(t *testing.T) {
	s := open(t)
	s.put("a", `{"s":1}`)
	s.exactly(`[]`, "POST", "keys/list", `{"where":{"$or":[]}}`)
	s.exactly(`{"deletedCount":0}`, "DELETE", "keys/a", `{"where":{"$or":[]}}`)
}

func TestK7BigintsAreRead(t *testing.T) {
	s := open(t)
	for value, want := range map[string]string{
		`{"__type":"bigint","value":"5"}`:                                  `{"__type":"bigint","value":"5"}`,
		`{ "value" : "-00012345678901234567890" , "__type":"bigint" }`:     `{"__type":"bigint","value":"-12345678901234567890"}`,
		`{"n":{"__type":"bigint","value":"9007199254740993"}}`:             `{"n":{"__type":"bigint","value":"9007199254740993"}}`,
		`{"n":{"__type":"bigint","value":"5"}}`:                            `{"n":5}`,
		`[9007199254740991,-9007199254740992,1e30,0.12345678901234567890]`: `[9007199254740991,{"__type":"bigint","value":"-9007199254740992"},1e30,0.12345678901234567890]`,
		`{"9007199254740993":"9007199254740993 \"9007199254740993"}`:       `{"9007199254740993":"9007199254740993 \"9007199254740993"}`,
		// Any other object is what it is.
		`{"__type":"bigint","value":"5","x":1}`:     `{"__type":"bigint","value":"5","x":1}`,
		`{"__type":"bigint","value":5}`:             `{"__type":"bigint","value":5}`,
		`{"__type":"bigint","value":"5.5"}`:         `{"__type":"bigint","value":"5.5"}`,
		`"{\"__type\":\"bigint\",\"value\":\"5\"}"`: `"{\"__type\":\"bigint\",\"value\":\"5\"}"`,
	} {
		s.put("k", value)
		s.exactly(`{"key":["k"],"value":`+want+`,"versionstamp":"STAMP"}`, "GET", "keys/k", "")
	}
}

func TestK8SumsAreExact(t *testing.T) {
	s := open(t)
	s.put("k", `9007199254740991`)
	for range 2 {
		s.exactly(`{"ok":true,"versionstamp":"STAMP"}`, "POST", "atomic", `{"mutations":[{"type":"sum","key":["k"],"value":1}]}`)
	}
	s.want(200, `"value":{"__type":"bigint","value":"9007199254740993"}`, "GET", "keys/k", "")
	s.exactly(`{"ok":true,"versionstamp":"STAMP"}`, "POST", "atomic",
		`{"mutations":[{"type":"sum","key":["k"],"value":{"__type":"bigint","value":"100000000000000000000"}},{"type":"sum","key":["b"],"value":{"__type":"bigint","value":"2"}},{"type":"sum","key":["b"],"value":1}]}`)
	s.want(200, `"value":{"__type":"bigint","value":"100009007199254740993"}`, "GET", "keys/k", "")
	s.want(200, `"value":{"__type":"bigint","value":"3"}`, "GET", "keys/b", "")
}

func TestK9ASumOfATextIsRefused(t *testing.T) {
	s := open(t)
	s.put("k", `"abc"`)
	s.want(400, "not a number", "POST", "atomic", `{"mutations":[{"type":"sum","key":["k"],"value":1}]}`)
	s.want(200, `"value":"abc"`, "GET", "keys/k", "")
}

func TestK10ElementsOfArraysKeepTheirTypes(t *testing.T) {
	s := open(t)
	s.put("k", `[{"x":1},true,[1]]`)
	s.exactly(`{"ok":true,"versionstamp":"STAMP"}`, "POST", "atomic", `{"mutations":[{"type":"append","key":["k"],"value":[{"y":2},false,null]}]}`)
	s.want(200, `"value":[{"x":1},true,[1],{"y":2},false,null]`, "GET", "keys/k", "")
}

func TestK11AppendingToATextIsRefused(t *testing.T) {
	s := open(t)
	s.put("k", `"abc"`)
	s.want(400, "", "POST", "atomic", `{"mutations":[{"type":"append","key":["k"],"value":[1]}]}`)
	s.want(200, `"value":"abc"`, "GET", "keys/k", "")
}

func TestK12OneOfManyCreatorsWins(t *testing.T) {
	s := open(t)
	var won atomic.Int32
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			w := s.send("POST", "atomic", `{"checks":[{"key":["k"],"versionstamp":null}],"mutations":[{"type":"set","key":["k"],"value":1}]}`)
			if strings.Contains(w.Body.String(), `"ok":true`) {
				won.Add(1)
			}
		})
	}
	wait.Wait()
	if won.Load() != 1 {
		t.Errorf("%d won", won.Load())
	}
}

func TestK13TTLIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		for ms, path := range map[time.Duration]string{1: "a", 900: "b", 1999: "c"} {
			s.put(fmt.Sprintf("%s?expiresIn=%d", path, ms), `1`)
			s.exactly(`{"ok":true,"versionstamp":"STAMP"}`, "POST", "atomic", fmt.Sprintf(`{"mutations":[{"type":"set","key":[%q],"value":1,"expiresIn":%d}]}`, path, ms))
			if ms > 1 {
				time.Sleep((ms - 1) * time.Millisecond)
			}
			s.want(200, "", "GET", "keys/"+path, "")
			time.Sleep(time.Millisecond)
			s.want(404, "", "GET", "keys/"+path, "")
			s.exactly(`{"count":0}`, "GET", "keys/count", "")
		}
		s.put("n?expiresIn=1000", `1`)
		s.exactly(`{"ok":true,"versionstamp":"STAMP"}`, "POST", "atomic", `{"mutations":[{"type":"sum","key":["n"],"value":1}]}`) // keeps it
		time.Sleep(time.Second)
		s.want(404, "", "GET", "keys/n", "")
	})
}

func TestK14NullIsNotAbsence(t *testing.T) {
	s := open(t)
	s.put("k", `null`)
	s.exactly(`{"key":["k"],"value":null,"versionstamp":"STAMP"}`, "GET", "keys/k", "")
	s.exactly(`[{"key":["k"],"value":null,"versionstamp":"STAMP"},{"key":["none"],"value":null,"versionstamp":null}]`, "POST", "keys/batch", `{"keys":[["k"],["none"]]}`)
}

// Also of the filters of the study: $eq of null, $ne of what is absent, $startsWith beyond the BMP, an injection, offsets.
func TestK19FiltersMeanWhatTheySay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		s.put("a", fmt.Sprintf(`{"s":"😀x","n":null,"at":%d}`, time.Now().Add(-30*time.Minute).UnixMilli()), "b", `{"n":5,"at":0}`, "other/c", `{"s":"1"}`)
		for where, want := range map[string]string{
			`{"s":{"$endsWith":""}}`:                                               "a other",
			`{"s":{"$startsWith":"😀"}}`:                                            "a",
			`{"n":{"$eq":null}}`:                                                   "a other",
			`{"n":{"$ne":5}}`:                                                      "a other",
			`{"n":{"$eq":{"__type":"bigint","value":"5"}}}`:                        "b",
			`{"n":{"$gt":{"value":"4","__type":"bigint"}}}`:                        "b",
			`{"at":{"$lt":{"$now":true,"offset":-3600000}}}`:                       "b",
			`{"at":{"$lt":{"$now":true,"$offset":-60000}}}`:                        "a b",
			`{"at":{"$between":[{"$now":true,"$offset":-3600000},{"$now":true}]}}`: "a",
			`{"s":{"$null":true}}`:                                                 "b",
			`{"n":{"$empty":true}}`:                                                "a other",
			`{"s":{"$notContains":"x"}}`:                                           "other",
			`{"$not":{"s":{"$notEmpty":true}}}`:                                    "b",
			`{"s') IS NULL OR ('1":"1"}`:                                           "",
		} {
			var got []string
			for _, key := range []string{"a", "b", "other"} {
				if s.want(200, "", "POST", "keys/list", `{"prefix":["`+key+`"],"where":`+where+`}`) != "[]" {
					got = append(got, key)
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s: %s, not %s", where, got, want)
			}
		}
	})
}

func TestK22AnUnknownMutationIsRefused(t *testing.T) {
	s := open(t)
	s.want(400, "mutations[1].type", "POST", "atomic", `{"mutations":[{"type":"set","key":["k"],"value":1},{"type":"multiply","key":["k"],"value":2}]}`)
	s.want(404, "", "GET", "keys/k", "")
}

func TestK24TypesAreNotCompared(t *testing.T) {
	s := open(t)
	s.put("k", `{"v":"2020"}`)
	s.exactly(`[]`, "POST", "keys/list", `{"where":{"v":{"$gt":5}}}`)
}

func TestK21WatchingTellsNoLiesAboutKeys(t *testing.T) {
	s := open(t)
	// The first keys move on, and the ones behind them are not deleted by that.
	s.put("n/b", `1`, "n/c", `2`)
	poll := func(known string) (entries, next string) {
		t.Helper()
		text := s.want(200, "", "GET", "watch/prefix/poll?prefix=n&limit=2&versionstamps="+url.QueryEscape(known), "")
		var out struct {
			Entries       json.RawMessage
			Versionstamps string
		}
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		return masked(string(out.Entries)), out.Versionstamps
	}
	entries, known := poll("")
	if entries != `[`+is(`"n","b"`, `1`)+`,`+is(`"n","c"`, `2`)+`]` {
		t.Fatal(entries)
	}
	s.put("n/a", `3`, "n/1", `4`)
	if entries, known = poll(known); entries != `[`+is(`"n","a"`, `3`)+`]` {
		t.Fatal(entries)
	}
	if entries, known = poll(known); entries != `[]` {
		t.Fatal(entries)
	}
	s.send("DELETE", "keys/n/c", "")
	s.send("DELETE", "keys/n/a", "")
	if entries, known = poll(known); entries != `[`+gone(`"n","c"`)+`,`+gone(`"n","a"`)+`,`+is(`"n",1`, `4`)+`]` { // a number is one
		t.Fatal(entries)
	}
	s.send("DELETE", "keys/n/1", "")
	if entries, _ = poll(known); entries != `[`+gone(`"n",1`)+`]` {
		t.Fatal(entries)
	}
}

func TestB2KeysAreInOneOrder(t *testing.T) {
	s := open(t)
	big := func(n string) string { return `{"__type":"bigint","value":"` + n + `"}` }
	order := []string{
		`{"$bytes":"AP8="}`, `"a"`, `"a\u0000"`, `"ab"`, `"z"`, big("-1" + strings.Repeat("0", 300)), big("-256"), big("-255"), big("-1"), big("0"), big("256"),
		`-1.5`, `0`, `1`, `10`, `false`, `true`,
	}
	for i := range order {
		part := order[(i*7)%len(order)]
		s.exactly(`{"ok":true,"versionstamp":"STAMP"}`, "POST", "atomic", `{"mutations":[{"type":"set","key":["k",`+part+`],"value":`+fmt.Sprint(i)+`}]}`)
	}
	if got, want := s.keys("k"), `["k",`+strings.Join(order, `] ["k",`)+`]`; got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
}

func TestB8ABatchIsOneCommit(t *testing.T) {
	s := open(t)
	s.put("a/1", `1`, "b/1", `2`, "c", `3`)
	before := len(s.node.Requests())
	s.exactly(`{"deletedCount":2}`, "POST", "keys/delete-batch", `{"keys":[["a"],["b",1]],"exact":false}`)
	if calls := s.node.Requests()[before:]; len(calls) != 1 || calls[0].Method != "kv.commit" {
		t.Error(calls)
	}
	s.want(400, "keys[1]", "POST", "keys/delete-batch", `{"keys":[["c"],[null]]}`)
	s.exactly(`{"count":1}`, "GET", "keys/count", "")
}

func TestB15VersionstampsAreInTheOrderOfCommits(t *testing.T) {
	s := open(t)
	last := ""
	for i := range 300 {
		s.put("k", fmt.Sprint(i))
		stamp := s.stamp("k")
		if stamp <= last {
			t.Fatalf("%s does not follow %s", stamp, last)
		}
		last = stamp
	}
	if native := s.call("kv.get", `{"key":["k"]}`); !strings.Contains(native, `"version":`+fmt.Sprint(must(strconv.ParseUint(last[:16], 16, 64)))) {
		t.Errorf("%s is %s", last, native)
	}
}

func must(n uint64, err error) uint64 {
	if err != nil {
		panic(err)
	}
	return n
}

package strata_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

func TestEveryCommandOfKeys(t *testing.T) {
	s := open(t)
	s.want(`{"BatchResults":[{"version":3,"error":null},{"version":3,"error":null},{"version":3,"error":null}]}`,
		`{"KvBatchPut":{"entries":[{"key":"a","value":1},{"key":"b","value":[1.0,"x"]},{"key":"ab","value":null}]}}`)
	s.want(`{"Bool":true}`, `{"KvExists":{"key":"ab"}}`)
	s.want(`{"Bool":false}`, `{"KvExists":{"key":"c"}}`)
	s.want(`{"KvScanResult":[["a",{"Int":1}],["ab","Null"],["b",{"Array":[{"Float":1.0},{"String":"x"}]}]]}`, `{"KvScan":{}}`)
	s.want(`{"KvScanResult":[["ab","Null"]],"cursor":"b"}`, `{"KvScan":{"start":"aa","limit":1}}`)
	s.want(`{"KvScanResult":[["b",{"Array":[{"Float":1.0},{"String":"x"}]}]]}`, `{"KvScan":{"start":"b","limit":1}}`)
	s.want(`{"Uint":3}`, `{"KvCount":{}}`)
	s.want(`{"Uint":2}`, `{"KvCount":{"prefix":"a"}}`)
	s.want(`{"SampleResult":{"total_count":2,"items":[{"key":"a","value":{"Int":1}},{"key":"ab","value":"Null"}]}}`,
		`{"KvSample":{"prefix":"a"}}`)
	if status, got := s.do(`{"KvSample":{"count":1}}`); status != 200 ||
		!strings.HasPrefix(got, `{"SampleResult":{"total_count":3,"items":[{"key":"`) || strings.Count(got, `"key"`) != 1 {
		t.Error(status, got)
	}
	s.shows(`{"BatchGetResults":[{"value":"Null","version":N,"timestamp":N},{},{"value":{"Int":1},"version":N,"timestamp":N},{"error":"keys[3] must not be empty"}]}`, `{"KvBatchGet":{"keys":["ab","c","a",""]}}`)
	s.want(`{"BoolList":[true,false,true]}`, `{"KvBatchExists":{"keys":["a","c","a"]}}`)
	s.want(`{"BatchResults":[{"version":4,"error":null},{"version":null,"error":null},{"version":null,"error":null},`+
		`{"version":null,"error":"keys[3] must not start with \"_strata/\", which is reserved"}]}`, `{"KvBatchDelete":{"keys":["a","c","a","_strata/x"]}}`)
	s.want(`{"Keys":["ab","b"]}`, `{"KvList":{}}`)
	s.want(`{"Keys":["ab","b"]}`, `{"KvList":{"prefix":null}}`)
	s.want(`{"Uint":2}`, `{"KvCount":{"prefix":""}}`)
	s.shows(`{"VersionHistory":[{"op":"delete","version":N,"timestamp":N},{"op":"set","version":N,"timestamp":N,"value":{"Int":1}}]}`, `{"KvGetv":{"key":"a"}}`)
	s.want(`{"VersionHistory":null}`, `{"KvGetv":{"key":"never"}}`)
	// Spaces are separate.
	s.want(`{"Version":6}`, `{"KvPut":{"space":"other","key":"a","value":true}}`)
	s.want(`{"Maybe":{"Bool":true}}`, `{"KvGet":{"space":"other","key":"a"}}`)
	s.want(`{"Keys":["a"]}`, `{"KvList":{"space":"other"}}`)
	s.want(`{"Maybe":null}`, `{"KvGet":{"space":"default","key":"a"}}`)
}

func TestListsHaveLimitsAndCursors(t *testing.T) {
	s := open(t)
	var b strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&b, `,{"key":"k%04d","value":%d}`, i, i)
	}
	s.ok(`{"KvBatchPut":{"entries":[` + b.String()[1:] + `]}}`)
	s.want(`{"Uint":1001}`, `{"KvCount":{}}`)
	// A list of up to 1,000 keys is complete. A longer one has a cursor.
	for _, c := range []string{`{}`, `{"prefix":"k"}`, `{"limit":1000}`} {
		if _, got := s.do(`{"KvList":` + c + `}`); !strings.HasPrefix(got, `{"Keys":["k0000",`) ||
			!strings.HasSuffix(got, `"k0999"],"cursor":"k0999"}`) {
			t.Errorf("%s: %.60s ... %s", c, got, got[max(len(got)-60, 0):])
		}
	}
	s.want(`{"Keys":["k1000"]}`, `{"KvList":{"cursor":"k0999"}}`)
	s.want(`{"Keys":["k0000","k0001"],"cursor":"k0001"}`, `{"KvList":{"limit":2}}`)
	all := s.Node.Requests()
	errorIf(t, all[len(all)-1].Method != host.KVList || !strings.Contains(string(all[len(all)-1].Input), "limit\x03"),
		"a list reads more than its limit: %q", all[len(all)-1].Input)
	s.want(`{"Keys":["k0010"],"cursor":"k0010"}`, `{"KvList":{"limit":1,"prefix":"k001","cursor":"k001"}}`)
	s.want(`{"Keys":["k0018","k0019"]}`, `{"KvList":{"limit":2,"prefix":"k001","cursor":"k0017"}}`)
	s.want(`{"Keys":[]}`, `{"KvList":{"cursor":"z"}}`)
	s.ok(`{"KvDelete":{"key":"k1000"}}`)
	if _, got := s.do(`{"KvList":{}}`); strings.Contains(got, "cursor") || strings.Count(got, `"k`) != 1000 {
		t.Errorf("%d keys ... %s", strings.Count(got, `"k`), got[max(len(got)-60, 0):])
	}
	s.fails(400, "InvalidInput", "cursor does not belong to this prefix", `{"KvList":{"prefix":"k1","cursor":"k0"}}`)
	for _, limit := range []string{"0", "1001"} {
		for _, command := range []string{`"KvList":{"limit"`, `"KvScan":{"limit"`, `"KvSample":{"count"`, `"KvGetv":{"key":"a","limit"`} {
			s.fails(400, "InvalidInput", "t is "+limit+"; it is 1 to 1000", `{`+command+`:`+limit+`}}`)
		}
	}
}

// The prefix of a list need not end at a key part. Other interfaces may have stored other keys
// below the name of the space.
func TestPrefixesAreOfLetters(t *testing.T) {
	s := open(t)
	for _, key := range []string{"a", "ab", "ab/c", "b", "é", "éa"} {
		s.ok(`{"KvPut":{"key":"` + key + `","value":1}}`)
	}
	s.Call("kv.commit", `{"mutations":[{"op":"put","key":["default"],"value":1},{"op":"put","key":["default","ab","x"],"value":1},{"op":"put","key":["default",7],"value":1},{"op":"put","key":["defaults","ab"],"value":1}]}`)
	s.want(`{"Keys":["ab","ab/c"]}`, `{"KvList":{"prefix":"ab"}}`)
	s.want(`{"Keys":["a","ab","ab/c","b","é","éa"]}`, `{"KvList":{"prefix":""}}`)
	s.want(`{"Keys":["é","éa"]}`, `{"KvList":{"prefix":"é"}}`)
	s.want(`{"Keys":["b"],"cursor":"b"}`, `{"KvList":{"cursor":"ab/c","limit":1}}`)
	s.want(`{"Keys":["ab/c","b","é","éa"]}`, `{"KvList":{"cursor":"ab"}}`)
	s.want(`{"KvScanResult":[["ab/c",{"Int":1}],["b",{"Int":1}]],"cursor":"é"}`, `{"KvScan":{"start":"ab/","limit":2}}`)
}

func TestKeyRules(t *testing.T) {
	s := open(t)
	long := strings.Repeat("k", 1024)
	s.want(`{"Version":3}`, `{"KvPut":{"key":"`+long+`","value":1}}`)
	s.want(`{"Keys":["`+long+`"]}`, `{"KvList":{"prefix":"`+long+`"}}`)
	for _, key := range []string{"_strata", "_stratax/", "a/b c\\n", " "} {
		s.ok(`{"KvPut":{"key":"` + key + `","value":1}}`)
	}
	before := s.Call("kv.list", `{}`)
	for key, text := range map[string]string{
		`""`: "must not be empty", `"a\u0000b"`: "must not contain NUL bytes", `"_strata/x"`: `must not start with \"_strata/\"`,
		`"_strata/"`: "must not start with", `"` + long +
			`k"`: "has 1025 bytes; it must not have more than 1024", `"é` + long[1:] + `"`: "has 1025 bytes",
	} {
		for _, command := range []string{`"KvPut":{"value":1,"key":`, `"KvGet":{"key":`, `"KvDelete":{"key":`,
			`"KvExists":{"key":`, `"KvGetv":{"key":`} {
			s.fails(400, "InvalidInput", "key "+text, `{`+command+key+`}}`)
		}
		if key == `""` { // selects all
			continue
		}
		for _, command := range []string{`"KvList":{"prefix":`, `"KvCount":{"prefix":`, `"KvSample":{"prefix":`,
			`"KvList":{"cursor":`, `"KvScan":{"start":`} {
			s.fails(400, "InvalidInput", " "+text, `{`+command+key+`}}`)
		}
		_, got := s.do(`{"KvBatchPut":{"entries":[{"key":` + key + `,"value":1}]}}`)
		errorIf(t, !strings.Contains(got, `{"version":null,"error":"key `+text), "%v", got)
	}
	same(t, s.Call("kv.list", `{}`), before)
}

func TestFaultyRequests(t *testing.T) {
	s := open(t)
	s.want(`{"Version":3}`, `{"KvPut":{"key":"k","value":1}}`)
	before := s.Call("kv.list", `{}`)
	many := strings.Repeat(`"a",`, 1000) + `"a"`
	s.bodies(400, "InvalidInput", ``, "not JSON", `{"command":{"KvPut":{"key":"k","value":NaN}}}`, "not JSON",
		`null`, "not an object", ` "KvList"`, "an object is expected", `{}`, "command is missing",
		`{"comand":{"KvList":{}}}`, `unknown field \"comand\"`,
		`{"session":"","command":"TxnInfo"}`, "session has 0 bytes",
		`{"session":"`+strings.Repeat("s", 256)+`","command":"TxnInfo"}`, "session has 256 bytes",
		`{"command":7}`, "command is an object with one member",
		`{"command":{}}`, "command is an object with one member",
		`{"command":{"KvList":{},"KvCount":{}}}`, "command is an object with one member",
		`{"command":{"KvList":{},"KvList":{}}}`, "given twice",
		`{"command":{"KvPut":{"key":"a","value":{"x":1,"x":2}}}}`, "given twice",
		`{"command":{"KvDrop":{}}}`, `command \"KvDrop\" is not known; known are: BranchCreate, BranchDelete`,
		`{"command":"\u003cb>"}`, `is not known`, `{"command":{"KvList":[]}}`, "command.KvList is not an object",
		`{"command":{"KvPut":{"key":"k","value":1,"ttl":5}}}`, `unknown field \"ttl\"`,
		`{"command":{"KvBatchPut":{"entries":[{"key":"k","value":1,"ttl":5}]}}}`, `unknown field \"entries[0].ttl\"`,
		`{"command":{"KvPut":{"value":1}}}`, "key must not be empty",
		`{"command":{"KvPut":{"key":"k"}}}`, "value is missing",
		`{"command":{"KvGet":{"key":7}}}`, `KvGet: the value of \"key\" does not fit`,
		`{"command":{"KvBatchGet":{"keys":["a",null]}}}`, `\"keys[1]\" does not fit`,
		`{"command":{"KvGet":{"branch":"","key":"k"}}}`, "branch has 0 bytes",
		`{"command":{"KvGet":{"space":"","key":"k"}}}`, "space has 0 bytes",
		`{"command":{"KvList":{"space":"`+strings.Repeat("s", 256)+`"}}}`, "space has 256 bytes",
		`{"command":{"KvList":{"space":"a\u0000"}}}`, "space must not contain NUL")
	s.bodies(404, "BranchNotFound", `{"command":{"KvGet":{"branch":"nowhere","key":"k"}}}`, `\"nowhere\"`,
		`{"command":{"TxnBegin":{"branch":"nowhere"}}}`, `\"nowhere\"`)
	s.bodies(400, "InvalidInput", `{"command":{"KvList":{"limit":1.5}}}`, "limit",
		`{"command":{"KvGet":{"key":"k","at_version":0}}}`, "at_version is 0",
		`{"command":{"KvGet":{"key":"k","at_version":99}}}`, "at_version",
		`{"command":{"KvGet":{"key":"k","at_version":1,"as_of":1}}}`, "both given",
		`{"command":{"KvBatchExists":{"keys":["a",""]}}}`, "keys[1] must not be empty")
	s.bodies(413, "CapacityExceeded", `{"command":{"KvBatchGet":{"keys":[`+many+`]}}}`, "1000",
		`{"command":{"KvBatchDelete":{"keys":[`+many+strings.Repeat(","+many, 9)+`]}}}`, "10000",
		`{"command":{"KvPut":{"key":"k","value":"`+strings.Repeat("x", 1<<20)+`"}}}`, "bytes of the value")
	s.bodies(409, "TransactionNotActive", `{"command":"TxnCommit"}`, "TxnBegin")
	s.bodies(400, "InvalidInput", `{"command":{"TxnCommit":{"x":1}}}`, `unknown field \"x\"`,
		`{"command":{"TxnBegin":{"options":{"read_only":1}}}}`, "options")
	for _, c := range []struct {
		status     int
		verb, path string
	}{{404, "POST", ""}, {404, "POST", "exec"}, {404, "POST", "execute/x"}, {405, "GET", "execute"}, {405, "PUT",
		"execute"}, {400, "POST", "execute/"}} {
		if code, got := s.request(c.verb, c.path, `{"command":{"KvList":{}}}`); code != c.status || !errorForm.MatchString(got) {
			t.Errorf("%s %s: %d %s", c.verb, c.path, code, got)
		}
	}
	if code, got := s.request("POST", "execute", `{"command":{"KvList":{}}}`,
		"Content-Type: text/plain"); code != 415 || !errorForm.MatchString(got) {
		t.Error(code, got)
	}
	same(t, s.Call("kv.list", `{}`), before)
	scopes := s.Call("kv.scopes", `{}`)
	errorIf(t, strings.Count(scopes, `"prefix"`) != 1, "%v", scopes)
}

func TestAnActorThatIsNotThere(t *testing.T) {
	s := open(t)
	s.want(`{"Maybe":null}`, `{"KvGet":{"key":"k"}}`)
	s.want(`{"Bool":false}`, `{"KvExists":{"key":"k"}}`)
	s.want(`{"Bool":false}`, `{"KvDelete":{"key":"k"}}`)
	s.want(`{"BatchResults":[{"version":null,"error":null}]}`, `{"KvBatchDelete":{"keys":["k"]}}`)
	s.want(`{"Keys":[]}`, `{"KvList":{}}`)
	s.want(`{"KvScanResult":[]}`, `{"KvScan":{}}`)
	s.want(`{"Uint":0}`, `{"KvCount":{}}`)
	s.want(`{"VersionHistory":null}`, `{"KvGetv":{"key":"k"}}`)
	s.want(`{"SampleResult":{"total_count":0,"items":[]}}`, `{"KvSample":{}}`)
	s.fails(400, "InvalidInput", "key must not be empty", `{"KvPut":{"key":"","value":1}}`)
	s.fails(400, "InvalidInput", "value is missing", `{"KvPut":{"key":"a"}}`)
	for _, command := range []string{`"KvPut":{"branch":"x","key":"a","value":1}`,
		`"KvDelete":{"branch":"x","key":"a"}`, `"KvGet":{"branch":"x","key":"a"}`,
		`"BranchDelete":{"branch":"x"}`, `"BranchFork":{"source":"x","destination":"y"}`, `"BranchMerge":{"source":"x","target":"default","strategy":"Strict"}`} {
		s.fails(404, "BranchNotFound", "", `{`+command+`}`)
	}
	s.want(`{"Branches":[{"id":"default","parent":null,"version":0,"created_at":0}]}`, `"BranchList"`)
	s.want(`{"Bool":true}`, `{"BranchExists":{"branch":"default"}}`)
	s.want(`{"Bool":false}`, `{"BranchExists":{"branch":"x"}}`)
	s.in("s").want(`{"Session":"s"}`, `{"TxnBegin":{}}`)
	_, err := s.Node.Lookup(t.Context(), host.Address{Type: "room", Key: []string{"a"}})
	errorIf(t, host.CodeOf(err) != host.NotFound, "the actor was made: %v", err)
}

func TestAuthorizeIsAskedAboutEachMethod(t *testing.T) {
	var asked []string
	deny := ""
	s := openWith(t, serve.Options{Authorize: func(_ context.Context, r serve.AuthRequest) error {
		asked = append(asked, string(r.Operation)+" "+r.Method)
		if r.Method == deny {
			return host.Errorf(host.PermissionDenied, "no")
		}
		return nil
	}})
	s.want(`{"Version":3}`, `{"KvPut":{"key":"k","value":1}}`)
	same(t, strings.Join(asked, ", "), "call kv.get, call kv.scopes, call kv.set_scope, call kv.commit")
	deny = host.KVCommit
	s.fails(403, "AccessDenied", "no", `{"KvPut":{"key":"k","value":2}}`)
	s.want(`{"Maybe":{"Int":1}}`, `{"KvGet":{"key":"k"}}`)
	deny = host.KVGet
	s.fails(403, "AccessDenied", "no", `{"KvList":`) // before the body is parsed
	asked = nil
	deny = ""
	s.of("closed/a").want(`{"Maybe":null}`, `{"KvGet":{"key":"k"}}`)
	same(t, strings.Join(asked, ", "), "operate kv.get, operate kv.get_many")
}

func TestHistoryIsBounded(t *testing.T) {
	s := open(t)
	for i := range 20 {
		s.want(fmt.Sprintf(`{"Version":%d}`, i+3), fmt.Sprintf(`{"KvPut":{"key":"a","value":%d}}`, i))
	}
	_, got := s.do(`{"KvGetv":{"key":"a"}}`)
	// the last and 16 before
	if n := strings.Count(got, `"op":"set"`); n != 17 ||
		!strings.HasPrefix(got, `{"VersionHistory":[{"op":"set","version":22,`) || !strings.HasSuffix(got, `"value":{"Int":3}}]}`) {
		t.Error(n, got)
	}
	s.want(`{"Maybe":{"Int":3}}`, `{"KvGet":{"key":"a","at_version":6}}`)
	s.fails(409, "HistoryTrimmed", `only from version 6 on","earliest":"6"`, `{"KvGet":{"key":"a","at_version":5}}`) // not an older value
	s.shows(`{"VersionHistory":[{"op":"set","version":N,"timestamp":N,"value":{"Int":19}},{"op":"set","version":N,"timestamp":N,"value":{"Int":18}}],"next":21}`, `{"KvGetv":{"key":"a","limit":2}}`)
	_, second := s.do(`{"KvGetv":{"key":"a","limit":1,"before":21}}`)
	errorIf(t, !strings.Contains(second, `"version":20,`) || !strings.HasSuffix(second, `"next":20}`), "%v", second)
}

// A read as of a time reads the last version committed by then. The clock does not determine the
// order.
func TestATimeIsThatOfAVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		s.want(`{"Version":3}`, `{"KvPut":{"key":"a","value":1}}`)
		first := time.Now()
		time.Sleep(time.Second)
		s.want(`{"Version":4}`, `{"KvPut":{"key":"a","value":2}}`)
		s.want(`{"Version":5}`, `{"KvPut":{"key":"b","value":2}}`)
		second := time.Now()
		time.Sleep(time.Second)
		s.want(`{"Bool":true}`, `{"KvDelete":{"key":"a"}}`)
		for _, c := range []struct {
			at      time.Time
			version int
			a, keys string
		}{
			{first, 3, `{"Int":1}`, `"a"`}, {first.Add(999 * time.Millisecond), 3, `{"Int":1}`, `"a"`}, {second, 5, `{"Int":2}`, `"a","b"`},
			{second.Add(time.Second), 6, `null`, `"b"`}, {second.Add(time.Hour), 6, `null`, `"b"`},
		} { // an answer about the past has the usual form
			for _, at := range []string{fmt.Sprintf(`,"as_of":%d`, c.at.UnixMicro()), fmt.Sprintf(`,"at_version":%d`, c.version)} {
				s.want(`{"Maybe":`+c.a+`}`, `{"KvGet":{"key":"a"`+at+`}}`)
				s.want(`{"Keys":[`+c.keys+`]}`, `{"KvList":{"prefix":null`+at+`}}`)
				s.want(fmt.Sprintf(`{"Uint":%d}`, strings.Count(c.keys, `"`)/2), `{"KvCount":{"prefix":""`+at+`}}`)
				s.want(fmt.Sprintf(`{"Bool":%v}`, c.a != "null"), `{"KvExists":{"key":"a"`+at+`}}`)
				s.want(fmt.Sprintf(`{"BoolList":[%v,false]}`, c.a != "null"), `{"KvBatchExists":{"keys":["a","c"]`+at+`}}`)
				if c.a != "null" {
					s.want(`{"KvScanResult":[["a",`+c.a+`]]`+
						map[string]string{`"a"`: `}`, `"a","b"`: `,"cursor":"b"}`}[c.keys], `{"KvScan":{"limit":1`+at+`}}`)
				}
			}
		}
		s.want(fmt.Sprintf(`{"VersionHistory":[{"op":"set","version":3,"timestamp":%d,"value":{"Int":1}}]}`,
			first.UnixMicro()), fmt.Sprintf(`{"KvGetv":{"key":"a","as_of":%d}}`, first.UnixMicro()))
		s.fails(409, "HistoryTrimmed", "1999-12-31T23:59:59.999Z is not known, only from version 2 on",
			fmt.Sprintf(`{"KvGet":{"key":"a","as_of":%d}}`, first.Add(-time.Microsecond).UnixMicro()))
		s.fails(400, "InvalidInput", "no time in microseconds", `{"KvGet":{"key":"a","as_of":18446744073709551615}}`)
		time.Sleep(26 * time.Hour)                                 // longer than it is kept, and until it is purged
		s.want(`{"Version":8}`, `{"KvPut":{"key":"c","value":1}}`) // after the purge
		s.fails(409, "HistoryTrimmed", "is not known", fmt.Sprintf(`{"KvGet":{"key":"a","as_of":%d}}`, first.UnixMicro()))
		s.want(`{"Maybe":null}`, fmt.Sprintf(`{"KvGet":{"key":"a","as_of":%d}}`, time.Now().Add(-time.Hour).UnixMicro()))
	})
}

// An existing policy stays, also one for the whole store.
func TestHistoryOfOperatorsGoesFirst(t *testing.T) {
	s := open(t)
	s.Call("kv.set_scope", `{"prefix":["default"],"max_keys":2}`)
	s.want(`{"Version":3}`, `{"KvPut":{"key":"a","value":1}}`)
	s.want(`{"Version":4}`, `{"KvPut":{"key":"b","value":1}}`)
	s.fails(413, "CapacityExceeded", "room for 2 keys", `{"KvPut":{"key":"c","value":1}}`)
	s.fails(409, "HistoryTrimmed", "not known", `{"KvGet":{"key":"a","at_version":2}}`)
	all := s.of("room/b")
	all.Call("kv.set_scope", `{"prefix":[],"keep_versions":50}`)
	all.want(`{"Version":3}`, `{"KvPut":{"key":"a","value":1}}`)
	got := all.Call("kv.scopes", `{}`)
	errorIf(t, strings.Count(got, `"prefix"`) != 1, "%v", got)
}

// The transactions of one actor leave room for another.
func TestOneActorDoesNotTakeAllTheRoom(t *testing.T) {
	s := open(t)
	s.want(`{"Version":3}`, `{"KvPut":{"key":"a","value":1}}`)
	w := s.tok(`{"rights":["write"]}`)
	// counts as half a megabyte
	many := `{"KvBatchPut":{"entries":[` + strings.Repeat(`{"key":"a","value":1},`, 999) + `{"key":"a","value":1}]}}`
	refused := ""
	for i := range 9 { // more than the limit for all
		tx := w.in(fmt.Sprint("x", i))
		tx.want(fmt.Sprintf(`{"Session":"x%d"}`, i), `{"TxnBegin":{}}`)
		for code := 200; code == 200; {
			code, refused = tx.do(many)
		}
	}
	errorIf(t, !strings.Contains(refused, "the transactions of this caller take"), "the actor has room for %s", refused)
	b := s.of("room/b").in("y")
	b.want(`{"Session":"y"}`, `{"TxnBegin":{}}`)
	for range 3 {
		b.want(`{"Version":null}`, `{"KvPut":{"key":"a","value":"`+strings.Repeat("v", 500_000)+`"}}`)
	}
}

package strata_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestHistoryIsBounded(t *testing.T) {
	s := open(t)
	for i := range 20 {
		s.want(fmt.Sprintf(`{"Version":%d}`, i+3), fmt.Sprintf(`{"KvPut":{"key":"a","value":%d}}`, i))
	}
	_, got := s.do(`{"KvGetv":{"key":"a"}}`)
	if n := strings.Count(got, `"op":"set"`); n != 17 || !strings.HasPrefix(got, `{"VersionHistory":[{"op":"set","version":22,`) || !strings.HasSuffix(got, `"value":{"Int":3}}]}`) { // the last and 16 before
		t.Error(n, got)
	}
	s.want(`{"Maybe":{"Int":3}}`, `{"KvGet":{"key":"a","at_version":6}}`)
	s.fails(409, "HistoryTrimmed", `only from version 6 on","earliest":"6"`, `{"KvGet":{"key":"a","at_version":5}}`) // never an older value
	s.shows(`{"VersionHistory":[{"op":"set","version":N,"timestamp":N,"value":{"Int":19}},{"op":"set","version":N,"timestamp":N,"value":{"Int":18}}],"next":21}`, `{"KvGetv":{"key":"a","limit":2}}`)
	_, second := s.do(`{"KvGetv":{"key":"a","limit":1,"before":21}}`)
	errorIf(t, !strings.Contains(second, `"version":20,`) || !strings.HasSuffix(second, `"next":20}`), "%v", second)
}

// A read as of a time is one of the last version that was committed by then. The clock decides about no order.
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
		} { // an answer of the past has the form of one of now
			for _, at := range []string{fmt.Sprintf(`,"as_of":%d`, c.at.UnixMicro()), fmt.Sprintf(`,"at_version":%d`, c.version)} {
				s.want(`{"Maybe":`+c.a+`}`, `{"KvGet":{"key":"a"`+at+`}}`)
				s.want(`{"Keys":[`+c.keys+`]}`, `{"KvList":{"prefix":null`+at+`}}`)
				s.want(fmt.Sprintf(`{"Uint":%d}`, strings.Count(c.keys, `"`)/2), `{"KvCount":{"prefix":""`+at+`}}`)
				s.want(fmt.Sprintf(`{"Bool":%v}`, c.a != "null"), `{"KvExists":{"key":"a"`+at+`}}`)
				s.want(fmt.Sprintf(`{"BoolList":[%v,false]}`, c.a != "null"), `{"KvBatchExists":{"keys":["a","c"]`+at+`}}`)
				if c.a != "null" {
					s.want(`{"KvScanResult":[["a",`+c.a+`]]`+map[string]string{`"a"`: `}`, `"a","b"`: `,"cursor":"b"}`}[c.keys], `{"KvScan":{"limit":1`+at+`}}`)
				}
			}
		}
		s.want(fmt.Sprintf(`{"VersionHistory":[{"op":"set","version":3,"timestamp":%d,"value":{"Int":1}}]}`, first.UnixMicro()), fmt.Sprintf(`{"KvGetv":{"key":"a","as_of":%d}}`, first.UnixMicro()))
		s.fails(409, "HistoryTrimmed", "1999-12-31T23:59:59.999Z is not known, only from version 2 on", fmt.Sprintf(`{"KvGet":{"key":"a","as_of":%d}}`, first.Add(-time.Microsecond).UnixMicro()))
		s.fails(400, "InvalidInput", "no time in microseconds", `{"KvGet":{"key":"a","as_of":18446744073709551615}}`)
		time.Sleep(26 * time.Hour)                                 // more than it is kept, and until it is purged
		s.want(`{"Version":8}`, `{"KvPut":{"key":"c","value":1}}`) // behind the purge
		s.fails(409, "HistoryTrimmed", "is not known", fmt.Sprintf(`{"KvGet":{"key":"a","as_of":%d}}`, first.UnixMicro()))
		s.want(`{"Maybe":null}`, fmt.Sprintf(`{"KvGet":{"key":"a","as_of":%d}}`, time.Now().Add(-time.Hour).UnixMicro()))
	})
}

// A policy that is there already stays, and so does one for all.
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

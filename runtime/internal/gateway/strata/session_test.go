package strata_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

func TestATransactionReadsItsOwnWrites(t *testing.T) {
	s := open(t)
	s.want(`{"Version":3}`, `{"KvPut":{"key":"a","value":1}}`)
	s.want(`{"Version":4}`, `{"KvPut":{"key":"b","value":2}}`)
	tx := s.in("mine")
	tx.want(`{"Bool":false}`, `"TxnIsActive"`)
	tx.want(`{"TxnInfo":null}`, `"TxnInfo"`)
	tx.want(`{"Session":"mine"}`, `{"TxnBegin":{}}`)
	tx.want(`{"Bool":true}`, `"TxnIsActive"`)
	tx.shows(`{"TxnInfo":{"id":"mine","status":"Active","started_at":N,"branch":"default"}}`, `"TxnInfo"`)
	tx.want(`{"Version":null}`, `{"KvPut":{"key":"a","value":10}}`)
	tx.want(`{"Version":null}`, `{"KvPut":{"key":"c","value":3}}`)
	tx.want(`{"Bool":true}`, `{"KvDelete":{"key":"b"}}`)
	tx.want(`{"Bool":false}`, `{"KvDelete":{"key":"b"}}`)
	tx.want(`{"Bool":false}`, `{"KvDelete":{"key":"none"}}`)
	tx.want(`{"Maybe":{"Int":10}}`, `{"KvGet":{"key":"a"}}`)
	tx.want(`{"Maybe":null}`, `{"KvGet":{"key":"b"}}`)
	tx.want(`{"Bool":true}`, `{"KvExists":{"key":"c"}}`)
	tx.want(`{"Keys":["a","c"]}`, `{"KvList":{}}`)
	tx.want(`{"Keys":["a"],"cursor":"a"}`, `{"KvList":{"limit":1}}`)
	tx.want(`{"Keys":["c"]}`, `{"KvList":{"cursor":"a"}}`)
	tx.want(`{"Uint":2}`, `{"KvCount":{}}`)
	tx.want(`{"KvScanResult":[["c",{"Int":3}]]}`, `{"KvScan":{"start":"b"}}`)
	tx.want(`{"BatchResults":[{"version":null,"error":null},{"version":null,"error":"key must not be empty"}]}`,
		`{"KvBatchPut":{"entries":[{"key":"d","value":4},{"key":"","value":5}]}}`)
	tx.want(`{"BatchGetResults":[{"value":{"Int":4}},{}]}`, `{"KvBatchGet":{"keys":["d","b"]}}`)
	tx.want(`{"BatchResults":[{"version":null,"error":null}]}`, `{"KvBatchDelete":{"keys":["d"]}}`)
	tx.want(`{"BoolList":[false,true]}`, `{"KvBatchExists":{"keys":["d","c"]}}`)
	// Others do not see it.
	s.want(`{"Keys":["a","b"]}`, `{"KvList":{}}`)
	s.want(`{"Maybe":{"Int":1}}`, `{"KvGet":{"key":"a"}}`)
	s.in("other").want(`{"Maybe":{"Int":1}}`, `{"KvGet":{"key":"a"}}`) // a session without a transaction
	tx.want(`{"Version":5}`, `"TxnCommit"`)
	s.want(`{"KvScanResult":[["a",{"Int":10}],["c",{"Int":3}]]}`, `{"KvScan":{}}`)
	tx.want(`{"Bool":false}`, `"TxnIsActive"`)
	tx.fails(409, "TransactionNotActive", "TxnBegin begins one", `"TxnCommit"`)
	// The session continues without one, and may begin another.
	tx.want(`{"Version":6}`, `{"KvPut":{"key":"a","value":11}}`)
	tx.want(`{"Session":"mine"}`, `{"TxnBegin":{"branch":"default","options":null}}`)
	tx.want(`{"Version":null}`, `{"KvPut":{"key":"a","value":12}}`)
	tx.want(`{"Unit":null}`, `{"TxnRollback":null}`)
	s.want(`{"Maybe":{"Int":11}}`, `{"KvGet":{"key":"a"}}`)
	// A transaction without changes, and with at most one read, makes no commit.
	tx.want(`{"Session":"mine"}`, `{"TxnBegin":{}}`)
	tx.want(`{"Maybe":{"Int":11}}`, `{"KvGet":{"key":"a"}}`)
	tx.want(`{"Version":null}`, `{"TxnCommit":{}}`)
}

// A key that appears in a listed, counted or scanned range is a conflict. So is one that goes.
func TestAPhantomIsAConflict(t *testing.T) {
	for _, read := range []string{`{"KvList":{"prefix":"p"}}`, `{"KvCount":{"prefix":"p"}}`, `{"KvScan":{"start":"p"}}`,
		`{"KvList":{"prefix":"p","limit":1}}`, `{"KvGet":{"key":"p2"}}`, `{"KvBatchExists":{"keys":["p2"]}}`} {
		s := open(t)
		s.want(`{"Version":3}`, `{"KvPut":{"key":"p1","value":1}}`)
		tx := s.in("s")
		tx.want(`{"Session":"s"}`, `{"TxnBegin":{}}`)
		tx.ok(read)
		tx.want(`{"Version":null}`, `{"KvPut":{"key":"other","value":1}}`)
		s.want(`{"Version":4}`, `{"KvPut":{"key":"p2","value":1}}`)
		tx.fails(409, "TransactionConflict", "", `"TxnCommit"`)
		s.want(`{"Maybe":null}`, `{"KvGet":{"key":"other"}}`)
	}
}

// No command bypasses a transaction: one that cannot be part of it fails. Spaces may be mixed.
func TestNoCommandBypassesATransaction(t *testing.T) {
	s := open(t)
	s.want(`{"Version":3}`, `{"KvPut":{"key":"a","value":1}}`)
	tx := s.in("s")
	tx.want(`{"Session":"s"}`, `{"TxnBegin":{}}`)
	for _, command := range []string{`{"KvGet":{"key":"a","at_version":3}}`, `{"KvList":{"at_version":3}}`,
		`{"KvGetv":{"key":"a"}}`, `{"KvSample":{}}`, `{"KvScan":{"at_version":3}}`, `{"KvCount":{"as_of":3}}`} {
		tx.fails(400, "InvalidInput", "no part of a transaction", command)
	}
	tx.fails(409, "TransactionAlreadyActive", "commit or roll it back", `{"TxnBegin":{}}`)
	tx.fails(400, "InvalidInput", `the transaction is on \"default\"`, `{"KvGet":{"branch":"other","key":"a"}}`)
	tx.want(`{"Version":null}`, `{"KvPut":{"space":"two","key":"a","value":2}}`)
	tx.want(`{"Version":null}`, `{"KvPut":{"key":"a","value":3}}`)
	tx.ok(`"TxnCommit"`)
	s.want(`{"Maybe":{"Int":2}}`, `{"KvGet":{"space":"two","key":"a"}}`)
	s.want(`{"Maybe":{"Int":3}}`, `{"KvGet":{"key":"a"}}`)
	got := s.Call("kv.scopes", `{}`)
	errorIf(t, strings.Count(got, `"keep_versions":16,"keep_for_ms":86400000`) != 2, "%v", got)
}

func TestATransactionThatOnlyReads(t *testing.T) {
	s := open(t)
	s.want(`{"Version":3}`, `{"KvPut":{"key":"a","value":1}}`)
	tx := s.in("s")
	tx.want(`{"Session":"s"}`, `{"TxnBegin":{"options":{"read_only":true}}}`)
	tx.fails(409, "AccessDenied", "only reads", `{"KvPut":{"key":"a","value":2}}`)
	tx.fails(409, "AccessDenied", "only reads", `{"KvBatchDelete":{"keys":["a"]}}`)
	tx.want(`{"Maybe":{"Int":1}}`, `{"KvGet":{"key":"a"}}`)
	tx.want(`{"Version":null}`, `"TxnCommit"`)
}

// A session that is idle for 30 s ends, and its commands are never done outside of the transaction.
func TestAnIdleTransactionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		s.want(`{"Version":3}`, `{"KvPut":{"key":"a","value":1}}`)
		tx := s.in("s")
		tx.want(`{"Session":"s"}`, `{"TxnBegin":{}}`)
		for range 4 { // each command extends it by 30 s
			time.Sleep(30 * time.Second)
			tx.want(`{"Bool":true}`, `"TxnIsActive"`)
		}
		tx.want(`{"Version":null}`, `{"KvPut":{"key":"a","value":2}}`)
		time.Sleep(30*time.Second + time.Millisecond)
		tx.fails(409, "TransactionNotActive", "rested for more than 30s, and nothing of it was done", `{"KvPut":{"key":"a","value":3}}`)
		tx.fails(409, "TransactionNotActive", "rested", `{"KvGet":{"key":"a"}}`)
		tx.fails(409, "TransactionNotActive", "rested", `{"KvGetv":{"key":"a"}}`)
		tx.want(`{"Bool":false}`, `"TxnIsActive"`)
		tx.want(`{"TxnInfo":null}`, `"TxnInfo"`)
		tx.fails(409, "TransactionNotActive", "rested", `"TxnCommit"`)
		// The commit returned the error, so the session may be used again.
		tx.want(`{"Maybe":{"Int":1}}`, `{"KvGet":{"key":"a"}}`)
		tx.want(`{"Session":"s"}`, `{"TxnBegin":{}}`)
		time.Sleep(time.Minute)
		tx.want(`{"Session":"s"}`, `{"TxnBegin":{}}`) // works as well
		tx.want(`{"Version":null}`, `{"KvPut":{"key":"a","value":4}}`)
		tx.want(`{"Version":4}`, `"TxnCommit"`)
	})
}

// A session that TxnBegin made has no other use than its transaction, and belongs to its actor.
func TestASessionOfTxnBegin(t *testing.T) {
	s := open(t)
	begin := func() *store {
		_, got := s.do(`{"TxnBegin":{}}`)
		name := strings.TrimSuffix(strings.TrimPrefix(got, `{"Session":"`), `"}`)
		errorIf(t, !strings.HasPrefix(name, "txn:") || len(name) < 20, "%v", got)
		return s.in(name)
	}
	tx := begin()
	tx.want(`{"Version":null}`, `{"KvPut":{"key":"a","value":1}}`)
	for _, command := range []string{`{"KvPut":{"key":"a","value":2}}`, `{"KvGet":{"key":"a"}}`, `"TxnCommit"`, `"TxnIsActive"`} {
		tx.of("room/b").fails(409, "TransactionNotActive", "belongs to another actor", command)
		tx.of("closed/a").fails(409, "TransactionNotActive", "belongs to another actor", command)
	}
	tx.want(`{"Version":3}`, `"TxnCommit"`)
	tx.fails(409, "TransactionNotActive", "has ended", `{"KvPut":{"key":"a","value":2}}`)
	s.in("txn:x").fails(400, "InvalidInput", "session must not begin with", `{"TxnBegin":{}}`)
	other := begin()
	other.want(`{"Maybe":{"Int":1}}`, `{"KvGet":{"key":"a"}}`)
	other.want(`{"Unit":null}`, `"TxnRollback"`)
}

// Each actor has its own names of sessions.
func TestSessionsOfTwoActors(t *testing.T) {
	s := open(t).of("room/a%00b").in("s")
	b := s.of("room/a/b")
	s.want(`{"Session":"s"}`, `{"TxnBegin":{}}`)
	s.want(`{"Version":null}`, `{"KvPut":{"key":"k","value":"a"}}`)
	b.want(`{"Maybe":null}`, `{"KvGet":{"key":"k"}}`)
	b.want(`{"Version":3}`, `{"KvPut":{"key":"k","value":"b"}}`) // no transaction there
	b.want(`{"Session":"s"}`, `{"TxnBegin":{}}`)
	b.want(`{"Version":null}`, `{"KvPut":{"key":"k","value":"bb"}}`)
	s.want(`{"Version":3}`, `"TxnCommit"`)
	b.want(`{"Unit":null}`, `"TxnRollback"`)
	s.want(`{"Maybe":{"String":"a"}}`, `{"KvGet":{"key":"k"}}`)
	b.want(`{"Maybe":{"String":"b"}}`, `{"KvGet":{"key":"k"}}`)
}

// A session belongs to its token: another token must not see the reads of a transaction.
func TestSessionsOfTwoTokens(t *testing.T) {
	s := open(t)
	s.want(`{"Version":3}`, `{"KvPut":{"key":"k","value":"secret"}}`)
	one, two := s.in("s").tok(`{"rights":["read","write"],"prefix":["default"]}`),
		s.in("s").tok(`{"rights":["read","write"],"prefix":["other"]}`)
	one.want(`{"Session":"s"}`, `{"TxnBegin":{}}`)
	one.want(`{"Maybe":{"String":"secret"}}`, `{"KvGet":{"key":"k"}}`)
	two.want(`{"Bool":false}`, `"TxnIsActive"`)
	two.fails(403, "AccessDenied", "does not allow", `{"KvGet":{"key":"k"}}`)
	two.want(`{"Session":"s"}`, `{"TxnBegin":{}}`)
	two.fails(403, "AccessDenied", "does not allow", `{"KvGet":{"key":"k"}}`)
	two.want(`{"Version":null}`, `{"KvPut":{"space":"other","key":"k","value":1}}`)
	two.want(`{"Version":null}`, `{"KvPut":{"key":"k","value":1}}`)
	two.fails(403, "AccessDenied", "does not allow", `"TxnCommit"`)
	one.want(`{"Version":null}`, `{"KvPut":{"key":"k","value":"seen"}}`)
	one.ok(`"TxnCommit"`)
	s.want(`{"Maybe":{"String":"seen"}}`, `{"KvGet":{"key":"k"}}`)
	s.want(`{"Maybe":null}`, `{"KvGet":{"space":"other","key":"k"}}`)
}

func TestTransactionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		for i := range 100 {
			s.in(fmt.Sprint("s", i)).want(fmt.Sprintf(`{"Session":"s%d"}`, i), `{"TxnBegin":{}}`)
		}
		s.in("more").fails(429, "CapacityExceeded", "this caller has 100 transactions", `{"TxnBegin":{}}`)
		s.of("room/b").in("more").want(`{"Session":"more"}`, `{"TxnBegin":{}}`)
		s.in("s7").want(`{"Unit":null}`, `"TxnRollback"`)
		s.in("more").want(`{"Session":"more"}`, `{"TxnBegin":{}}`)
		s.in("s7").fails(429, "CapacityExceeded", "", `{"TxnBegin":{}}`)
		time.Sleep(31 * time.Second)
		s.in("s7").want(`{"Session":"s7"}`, `{"TxnBegin":{}}`)
		// The bytes that a transaction has read and will write are bounded, too.
		tx, big := s.in("s7"), strings.Repeat("x", 1<<20-100)
		for i := range 7 {
			tx.want(`{"Version":null}`, fmt.Sprintf(`{"KvPut":{"key":"k%d","value":"%s"}}`, i, big))
		}
		tx.fails(413, "CapacityExceeded", "bytes of a transaction", `{"KvPut":{"key":"k","value":["`+big+`"]}}`)
		tx.want(`{"Unit":null}`, `"TxnRollback"`)
		tx.want(`{"Session":"s7"}`, `{"TxnBegin":{}}`)
		tx.want(`{"Version":null}`, `{"KvPut":{"key":"k","value":["`+big+`"]}}`)
	})
}

// A caller leaves transactions and memory for others, with any headers.
func TestCallersShareTransactions(t *testing.T) {
	s := open(t)
	s.want(`{"Version":3}`, `{"KvPut":{"key":"k","value":1}}`)
	greedy := s.tok(`{"rights":["read"]}`)
	many := `{"KvBatchGet":{"keys":[` + strings.Repeat(`"k",`, 999) + `"k"]}}` // counts as half a megabyte
	begun, full := 0, 0
	for i := range 102 {
		status, got := greedy.request("POST", "execute", fmt.Sprintf(`{"session":"s%d","command":{"TxnBegin":{}}}`, i),
			fmt.Sprint("Cookie: c=", i))
		if status == 200 {
			begun++
		} else {
			greedy.failed(status, got, 429, "CapacityExceeded", "this caller has 100 transactions", "TxnBegin")
		}
		for range 13 { // more would exceed the reads of one transaction
			if full > 0 || status != 200 {
				break
			}
			if status, got = greedy.in(fmt.Sprint("s", i)).do(many); strings.Contains(got, "the transactions of this caller take") {
				full++ // the transaction has ended
			}
		}
	}
	errorIf(t, begun-full != 100 || full != 1, "one caller has %d transactions, and %d did not get room", begun-full, full)
	other := s.tok(`{"rights":["read","write"]}`)
	for i := range 50 {
		other.in(fmt.Sprint("s", i)).want(fmt.Sprintf(`{"Session":"s%d"}`, i), `{"TxnBegin":{}}`)
	}
	other.in("more").fails(429, "CapacityExceeded", "this caller has 50 transactions", `{"TxnBegin":{}}`)
	for i := range 60 { // even if the others have taken the shared part
		late := s.tok(`{"rights":["read"]}`).in("s")
		late.want(`{"Session":"s"}`, `{"TxnBegin":{}}`)
		if i > 50 {
			late.in("t").fails(429, "CapacityExceeded", "this caller has 1 transactions", `{"TxnBegin":{}}`)
		}
	}
	tx := other.in("s0")
	for i := range 7 {
		tx.want(`{"Version":null}`, fmt.Sprintf(`{"KvPut":{"key":"k","value":"%d%s"}}`, i, strings.Repeat("x", 1<<20-100)))
	}
	tx.ok(`"TxnCommit"`)
}

// Requests of one session run one by one, and sessions run at once. Each increment is counted once.
func TestSessionsAtOnce(t *testing.T) {
	s := open(t)
	s.want(`{"Version":3}`, `{"KvPut":{"key":"n","value":0}}`)
	var all sync.WaitGroup
	var committed atomic.Int64
	for i := range 4 {
		all.Go(func() {
			tx := s.in(fmt.Sprint("s", i))
			for range 30 {
				tx.do(`{"TxnBegin":{}}`)
				_, got := tx.do(`{"KvGet":{"key":"n"}}`)
				n := 0
				_, err := fmt.Sscanf(got, `{"Maybe":{"Int":%d}}`, &n)
				errorIf(t, err != nil, "%v", got)
				tx.do(fmt.Sprintf(`{"KvPut":{"key":"n","value":%d}}`, n+1))
				if status, got := tx.do(`"TxnCommit"`); status == 200 {
					committed.Add(1)
				} else if !strings.Contains(got, "TransactionConflict") {
					t.Error(status, got)
				}
			}
		})
		all.Go(func() { // many requests use and end this session
			for range 30 {
				for _, command := range []string{`{"TxnBegin":{}}`, `{"KvPut":{"key":"other","value":1}}`,
					`{"KvList":{}}`, `"TxnRollback"`} {
					s.in("shared").do(command)
				}
			}
		})
	}
	all.Wait()
	s.want(fmt.Sprintf(`{"Maybe":{"Int":%d}}`, committed.Load()), `{"KvGet":{"key":"n"}}`)
	errorIf(t, committed.Load() == 0, "no commit succeeded")
}

func TestATransactionKeepsTheHistoryOfItsSpaces(t *testing.T) {
	s := open(t)
	tx := s.in("s")
	tx.want(`{"Session":"s"}`, `{"TxnBegin":{}}`)
	tx.want(`{"Version":null}`, `{"KvPut":{"space":"new","key":"k","value":1}}`)
	tx.ok(`"TxnCommit"`)
	// A write with kv.commit alone would keep no history.
	s.Call(host.KVCommit, `{"mutations":[{"op":"put","key":["new","k"],"value":2}]}`)
	_, got := s.do(`{"KvGetv":{"space":"new","key":"k"}}`)
	errorIf(t, strings.Count(got, `"op":"set"`) != 2, "%v", got)
}

// A caller without the right to commit cannot commit through the session of another.
func TestACallerMayNotUseTheSessionOfAnother(t *testing.T) {
	s := openWith(t, serve.Options{Authorize: func(_ context.Context, r serve.AuthRequest) error {
		if r.Header.Get("User") == "reader" && r.Method == "kv.commit" {
			return host.Errorf(host.PermissionDenied, "readers do not write")
		}
		return nil
	}})
	a := s.in("mine")
	a.want(`{"Session":"mine"}`, `{"TxnBegin":{}}`)
	a.ok(`{"KvPut":{"key":"a","value":2}}`)
	for _, session := range []string{``, `"session":"mine",`} {
		s.request("POST", "execute", `{`+session+`"command":{"KvPut":{"key":"evil","value":666}}}`, "User: reader")
	}
	a.do(`"TxnCommit"`)
	s.want(`{"Maybe":null}`, `{"KvGet":{"key":"evil"}}`)
}

// Cookies also distinguish callers.
func TestACallerWithAnotherCookieHasOtherSessions(t *testing.T) {
	s := open(t)
	do := func(cookie, command string) string {
		_, got := s.request("POST", "execute", `{"session":"mine","command":`+command+`}`, "Cookie: "+cookie)
		return got
	}
	same(t, do("user=a", `{"TxnBegin":{}}`), `{"Session":"mine"}`)
	for cookie, want := range map[string]string{"user=a": `{"Bool":true}`, "user=b": `{"Bool":false}`} {
		same(t, do(cookie, `"TxnIsActive"`), want, cookie)
	}
}

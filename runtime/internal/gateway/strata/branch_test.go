package strata_test

import (
	"fmt"
	"strings"
	"testing"
)

// Branches, command by command.
func TestBranches(t *testing.T) {
	s := open(t)
	ok := s.ok
	ok(`{"KvPut":{"key":"a","value":1}}`)
	ok(`{"KvPut":{"key":"b","value":1}}`)
	ok(`{"KvPut":{"space":"two","key":"c","value":1}}`)
	fork := ok(`{"BranchFork":{"source":"default","destination":"feature"}}`)
	errorIf(t, !strings.HasPrefix(fork, `{"Branch":{"id":"feature","parent":"default","version":N,"created_at":1`), "%v", fork)
	same(t, ok(`{"BranchGet":{"branch":"feature"}}`), fork)
	got := ok(`"BranchList"`)
	errorIf(t, !strings.HasPrefix(got, `{"Branches":[{"id":"default","parent":null,"version":N,"created_at":0},{"id":"feature",`),
		"%v", got)
	s.want(`{"Bool":true}`, `{"BranchExists":{"branch":"feature"}}`)
	s.want(`{"Bool":false}`, `{"BranchExists":{"branch":"other"}}`)
	s.want(`{"Branch":null}`, `{"BranchGet":{"branch":"other"}}`)
	s.fails(409, "BranchExists", "feature", `{"BranchFork":{"source":"default","destination":"feature"}}`)
	s.fails(409, "BranchExists", "default", `{"BranchCreate":{"branch_id":"default"}}`)
	s.fails(404, "BranchNotFound", "other", `{"BranchFork":{"source":"other","destination":"more"}}`)
	s.fails(400, "InvalidInput", "source is missing", `{"BranchFork":{"destination":"more"}}`)
	s.fails(400, "InvalidInput", "cannot be deleted", `{"BranchDelete":{"branch":"default"}}`)

	// A branch begins as a copy of its source, and changes independently.
	s.want(`{"Maybe":{"Int":1}}`, `{"KvGet":{"branch":"feature","key":"a"}}`)
	ok(`{"KvPut":{"branch":"feature","key":"a","value":2}}`)
	s.want(`{"Bool":true}`, `{"KvDelete":{"branch":"feature","key":"b"}}`)
	ok(`{"KvBatchPut":{"branch":"feature","entries":[{"key":"d","value":2}]}}`)
	ok(`{"KvPut":{"key":"e","value":1}}`)
	s.want(`{"Keys":["a","d"]}`, `{"KvList":{"branch":"feature"}}`)
	s.want(`{"Keys":["a","b","e"]}`, `{"KvList":{"branch":"default"}}`)
	s.want(`{"KvScanResult":[["a",{"Int":2}],["d",{"Int":2}]]}`, `{"KvScan":{"branch":"feature"}}`)
	s.want(`{"Uint":2}`, `{"KvCount":{"branch":"feature"}}`)
	s.want(`{"BoolList":[true,false]}`, `{"KvBatchExists":{"branch":"feature","keys":["a","b"]}}`)
	if got := ok(`{"KvGetv":{"branch":"feature","key":"a"}}`); !strings.HasPrefix(got,
		`{"VersionHistory":[{"op":"set","version":N,"timestamp":N,"value":{"Int":2}}`) {
		t.Error(got)
	}
	s.want(`{"BranchDiff":{"branch_a":"default","branch_b":"feature","added":[{"space":"default","key":"d","value_b":{"Int":2}}],`+
		`"removed":[{"space":"default","key":"b","value_a":{"Int":1}},{"space":"default","key":"e","value_a":{"Int":1}}],`+
		`"modified":[{"space":"default","key":"a","value_a":{"Int":1},"value_b":{"Int":2}}]}}`, `{"BranchDiff":{"branch_a":"default","branch_b":"feature"}}`)
	s.want(`{"BranchDiff":{"branch_a":"default","branch_b":"feature","added":[],"removed":[{"space":"default","key":"b","value_a":{"Int":1}}],`+
		`"modified":[{"space":"default","key":"a","value_a":{"Int":1},"value_b":{"Int":2}}],"cursor":["default","b"]}}`, `{"BranchDiff":{"branch_a":"default","branch_b":"feature","limit":2}}`)
	if got := ok(`{"BranchDiff":{"branch_a":"default","branch_b":"feature","cursor":["default","b"]}}`); strings.Contains(got, `"a","value`) || !strings.Contains(got, `"key":"e"`) || strings.Contains(got, "cursor") {
		t.Error(got)
	}
	s.fails(404, "BranchNotFound", "other", `{"BranchDiff":{"branch_a":"default","branch_b":"other"}}`)

	// A merge of changes in both is refused with the conflicts, or resolved by the strategy.
	ok(`{"KvPut":{"key":"a","value":3}}`)
	s.want(`{"BranchMerged":{"source":"feature","target":"default","keys_applied":0,"keys_deleted":0,"merge_version":null,`+
		`"conflicts":[{"space":"default","key":"a","base_value":{"Int":1},"source_value":{"Int":2},"target_value":{"Int":3}}],"total_conflicts":1}}`,
		`{"BranchMerge":{"source":"feature","target":"default","strategy":"Strict"}}`)
	s.want(`{"Keys":["a","b","e"]}`, `{"KvList":{}}`)
	s.fails(400, "InvalidInput", "Strict, LastWriterWins or Ours",
		`{"BranchMerge":{"source":"feature","target":"default","strategy":"Theirs"}}`)
	s.fails(400, "InvalidInput", "Strict, LastWriterWins or Ours", `{"BranchMerge":{"source":"feature","target":"default"}}`)
	s.fails(404, "BranchNotFound", "", `{"BranchMerge":{"source":"feature","target":"other","strategy":"Strict"}}`)
	merge := ok(`{"BranchMerge":{"source":"feature","target":"default","strategy":"Ours"}}`)
	errorIf(t, !strings.Contains(merge, `"keys_applied":1,"keys_deleted":1,"merge_version":`) ||
		strings.Contains(merge, "null") || !strings.Contains(merge, `"total_conflicts":1`),
		"%v", merge)
	s.want(`{"KvScanResult":[["a",{"Int":3}],["d",{"Int":2}],["e",{"Int":1}]]}`, `{"KvScan":{}}`)
	ok(`{"BranchCreate":{"branch_id":"again"}}`)
	ok(`{"KvPut":{"branch":"again","key":"a","value":9}}`)
	ok(`{"KvPut":{"key":"a","value":8}}`)
	if got := ok(`{"BranchMerge":{"source":"again","target":"default","strategy":"LastWriterWins"}}`); !strings.Contains(got, `"keys_applied":1`) {
		t.Error(got)
	}
	s.want(`{"Maybe":{"Int":9}}`, `{"KvGet":{"key":"a"}}`)

	// The first write to a space of a branch turns history on.
	for i := range 3 {
		ok(fmt.Sprintf(`{"KvPut":{"branch":"again","space":"new","key":"k","value":%d}}`, i))
	}
	if got := ok(`{"KvGetv":{"branch":"again","space":"new","key":"k"}}`); strings.Count(got, `"op":"set"`) != 3 {
		t.Error(got)
	}

	// A branch with forks cannot be deleted. A deleted branch takes its entries with it.
	ok(`{"BranchFork":{"source":"feature","destination":"child"}}`)
	s.fails(409, "ConstraintViolation", "child", `{"BranchDelete":{"branch":"feature"}}`)
	s.want(`{"Unit":null}`, `{"BranchDelete":{"branch":"child"}}`)
	s.want(`{"Unit":null}`, `{"BranchDelete":{"branch":"feature"}}`)
	s.fails(404, "BranchNotFound", "feature", `{"BranchDelete":{"branch":"feature"}}`)
	s.fails(404, "BranchNotFound", "feature", `{"KvGet":{"branch":"feature","key":"a"}}`)
	s.fails(404, "BranchNotFound", "feature", `{"KvPut":{"branch":"feature","key":"a","value":1}}`)
}

// A transaction is on one branch, and its reads conflict only with changes there.
func TestATransactionOnABranch(t *testing.T) {
	s := open(t)
	for _, command := range []string{`{"KvPut":{"key":"a","value":1}}`, `{"BranchFork":{"source":"default","destination":"feature"}}`} {
		s.ok(command)
	}
	tx := s.in("s")
	tx.want(`{"Session":"s"}`, `{"TxnBegin":{"branch":"feature"}}`)
	tx.want(`{"Maybe":{"Int":1}}`, `{"KvGet":{"key":"a"}}`) // of the transaction's branch
	tx.want(`{"Version":null}`, `{"KvPut":{"branch":"feature","key":"a","value":2}}`)
	tx.want(`{"Keys":["a"]}`, `{"KvList":{"branch":"feature"}}`)
	tx.fails(400, "InvalidInput", `the transaction is on \"feature\"`, `{"KvGet":{"branch":"default","key":"a"}}`)
	for _, command := range []string{`{"BranchCreate":{"branch_id":"x"}}`,
		`{"BranchFork":{"source":"default","destination":"x"}}`, `"BranchList"`, `{"BranchGet":{"branch":"x"}}`,
		`{"BranchExists":{"branch":"x"}}`, `{"BranchDelete":{"branch":"feature"}}`, `{"BranchDiff":{"branch_a":"default","branch_b":"feature"}}`, `{"BranchMerge":{"source":"feature","target":"default","strategy":"Ours"}}`} {
		tx.fails(400, "InvalidInput", "no part of a transaction", command)
	}
	s.want(`{"Maybe":{"Int":1}}`, `{"KvGet":{"branch":"feature","key":"a"}}`)
	s.ok(`{"KvPut":{"key":"a","value":7}}`) // of another branch
	tx.ok(`"TxnCommit"`)
	s.want(`{"Maybe":{"Int":2}}`, `{"KvGet":{"branch":"feature","key":"a"}}`)
	s.want(`{"Maybe":{"Int":7}}`, `{"KvGet":{"key":"a"}}`)
	tx.want(`{"Session":"s"}`, `{"TxnBegin":{"branch":"feature"}}`)
	tx.want(`{"Maybe":{"Int":2}}`, `{"KvGet":{"key":"a"}}`)
	tx.want(`{"Version":null}`, `{"KvPut":{"key":"a","value":3}}`)
	s.ok(`{"KvPut":{"branch":"feature","key":"a","value":4}}`)
	methods := s.Methods(func() { tx.fails(409, "TransactionConflict", "key [default a]", `"TxnCommit"`) })
	errorIf(t, strings.Count(methods, "kv.commit") != 1, "a transaction with a conflict is run again: %s", methods)
	tx.want(`{"Bool":false}`, `"TxnIsActive"`)
	s.want(`{"Maybe":{"Int":4}}`, `{"KvGet":{"branch":"feature","key":"a"}}`)
}

package kvrows

import (
	"bytes"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

func document(text string) value.Value {
	return value.Value{Encoding: host.EncodedJSON, Data: []byte(text)}
}

// withoutValues fails a test when a value is read.
type withoutValues struct {
	*engine.WriteSet
	t *testing.T
}

func (w withoutValues) Get([]byte) (engine.Entry, bool, error) {
	w.t.Error("the value is read")
	return engine.Entry{}, false, nil
}

func TestPutsAndChecksDoNotReadValues(t *testing.T) {
	_, rows := openRows(t)
	rows.Advance(1000)
	blind := withoutValues{rows, t}
	for range 2 {
		must(t, errOf(Apply(blind, &Commit{Mutations: []Mutation{{Key: pack("a"), Value: document("1")}, {Key: pack("a", 1), Value: document("1")}}})))
	}
	failed, err := Apply(blind, &Commit{Checks: []Check{
		{Key: pack("a"), Want: Exists}, {Key: pack("a"), Want: Absent}, {Key: pack("a"), Want: AtVersion, Version: uint64(rows.Version())}, {Key: pack("b"), Want: Exists},
	}})
	errorIf(t, err != nil || len(failed) != 2 || failed[0] != 1 || failed[1] != 3, "%v %v", failed, err)
}

// A small commit must not copy a large value thousands of times.
func TestTheWorkOfACommitIsBounded(t *testing.T) {
	_, rows := openRows(t)
	rows.Advance(1000)
	large := document(`["` + string(bytes.Repeat([]byte("x"), 100<<10)) + `"]`)
	c := &Commit{Mutations: []Mutation{{Key: pack("a"), Value: large}}}
	for range 1000 {
		c.Mutations = append(c.Mutations, Mutation{Op: Combine, Key: pack("a"), Combine: value.Append, Value: document("[]")})
	}
	_, err := Apply(rows, c)
	errorIf(t, host.CodeOf(err) != host.TooLarge, "%v", err)
}

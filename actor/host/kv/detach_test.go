package kv

import (
	"testing"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// A commit goes on when its caller has given up and uses the bytes of its keys for something else.
func TestKeysOfADetachedCommitAreItsOwn(t *testing.T) {
	t.Parallel()
	b := []byte("a")
	in := &CommitInput{Mutations: []Mutation{{Op: "delete", Key: Key{b, tuple.Tuple{b}}, Selection: Selection{End: Key{Raw(b)}}}}}
	m := &in.Detach().(*CommitInput).Mutations[0]
	b[0] = 'b'
	for _, key := range []Key{m.Key, m.End} {
		if packed, err := key.PackBound(); err != nil || string(packed) != "\x01a\x00\x05\x01a\x00\x00" && string(packed) != "a" {
			t.Errorf("the key is %q, %v", packed, err)
		}
	}
}

// Keys of inputs of queries become parts of outputs, which the caller keeps. Its own keys do not
// change.
func TestKeysOfDetachedQueriesAreTheirOwn(t *testing.T) {
	t.Parallel()
	b := []byte("a")
	keys := []Key{{b}, {b, 7}}
	for _, c := range []struct {
		in   interface{ Detach() any }
		keys func(any) []Key
	}{
		{&GetInput{Key: keys[0]}, func(in any) []Key { return []Key{in.(*GetInput).Key} }},
		{&GetManyInput{Keys: keys}, func(in any) []Key { return in.(*GetManyInput).Keys }},
	} {
		for _, own := range c.keys(c.in.Detach()) {
			own[0].([]byte)[0] = 'z'
			own[0] = "z"
		}
	}
	if _, is := keys[1][1].(int); string(b) != "a" || !is {
		t.Errorf("the keys of the caller are %v", keys)
	}
	for i, key := range keys {
		if part, is := key[0].([]byte); !is || string(part) != "a" {
			t.Errorf("key %d of the caller is %v", i, key)
		}
	}
}

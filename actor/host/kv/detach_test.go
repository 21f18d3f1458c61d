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

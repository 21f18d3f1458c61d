// Package sample makes the data of stores that are measured. It follows from numbers, so that two
// stores get the same bytes.
package sample

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/cairn-run/cairn/keyspace"
)

// words are made up. A table's compression finds each again now and then, as in real text.
var words = func() (w [1024]string) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range w {
		word := make([]byte, 3+r.IntN(7))
		for k := range word {
			word[k] = byte('a' + r.IntN(26))
		}
		w[i] = string(word)
	}
	return w
}()

// Word returns one of about a thousand words.
func Word(r *rand.Rand) string { return words[r.IntN(len(words))] }

// AppendText appends words until b has size bytes.
func AppendText(b []byte, r *rand.Rand, size int) []byte {
	for len(b) < size {
		b = append(append(b, Word(r)...), ' ')
	}
	return b[:size]
}

// ActorID returns the id of actor i. The slots are spread as the hashes of names spread them.
func ActorID(i int) keyspace.ActorID {
	r := rand.New(rand.NewPCG(uint64(i), 4))
	var random [10]byte
	binary.BigEndian.PutUint64(random[:], r.Uint64())
	return keyspace.NewActorID(uint16(r.IntN(keyspace.Slots)), 1, random)
}

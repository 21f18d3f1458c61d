package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/cairn-run/cairn/runtime/bench/internal/sample"
)

// entriesOf is how many entries each actor has in its store.
const entriesOf = 12

// A payload is what an actor keeps: the text of its state, and its entries. It follows from the
// number of the actor, so both sides store the same bytes.
type payload struct {
	text    string
	entries [entriesOf][]byte
}

// payloadOf makes the payload of an actor: a text of 45 to 185 bytes, and entries of about 200
// bytes.
func payloadOf(i int) (p payload) {
	r := rand.New(rand.NewPCG(uint64(i), 3))
	p.text = string(sample.AppendText(nil, r, 45+r.IntN(140)))
	for k := range p.entries {
		p.entries[k] = entry(r)
	}
	return p
}

func entry(r *rand.Rand) []byte {
	b := fmt.Appendf(nil, `{"id":"%016x","n":%d,"owner":"%s","note":"`, r.Uint64(), r.IntN(1_000_000), sample.Word(r))
	return append(sample.AppendText(b, r, 180+r.IntN(40)), `"}`...)
}

// bytes returns the size of the payload.
func (p *payload) bytes() int {
	n := len(p.text)
	for _, e := range p.entries {
		n += len(e)
	}
	return n
}

func keyOf(i int) string { return "account-" + strconv.Itoa(i) }

package replay

import (
	"errors"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// Bodies that are no letters are refused.
func FuzzDeliver(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0xA0})
	valid, err := rowEncoding.Marshal(&letter{Verb: verbResult, Child: make([]byte, 16), Parent: make([]byte, 16), Status: 200})
	must(f, err)
	f.Add(valid)
	f.Fuzz(func(t *testing.T, body []byte) {
		turn := &testTurn{rows: newRows(), now: at(0)}
		_ = Deliver(turn, func(string) *Program { return nil }, body)
		_ = Undeliverable(turn, &Outgoing{Body: body}, errors.New("full"))
	})
}

// Rows of obligations and of the inbox that are not what they should be are errors.
func FuzzRows(f *testing.F) {
	j := newRows()
	must(f, putObligation(j, &obligation{
		Number: 1, Entry: journal.Location{0x14}, Handler: "h", Args: []byte{1}, Attempts: 2, Due: time.UnixMilli(5),
		Failure: &Failure{Message: "m"},
	}))
	must(f, putMessage(j, &message{number: 1, location: journal.Location{0x14}, status: Completed, output: []byte{0xF6}}))
	for _, v := range j.All() {
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if o, err := decodeObligation(numbered{1, value}); err == nil {
			must(t, putObligation(newRows(), o))
		}
		if m, err := decodeMessage(numbered{1, value}); err == nil && m.status > journal.StatusLast {
			t.Fatalf("status %d", m.status)
		}
	})
}

package replay

import (
	"context"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// childDefinition is a child that does what its input says.
func childDefinition() *Function[string, string] {
	return NewFunction("child", func(ctx Context, in string) (string, error) {
		if err := mark(ctx, "did "+in); err != nil {
			return "", err
		}
		switch in {
		case "fails":
			return "", fail(ctx, "bad")
		case "waits":
			if err := Sleep(ctx, "sleep", 100*time.Hour); err != nil {
				return "", err
			}
		}
		return in + " well", Sleep(ctx, "moment", time.Second)
	})
}

func destination(name string) Destination { return Destination{Type: "test", Key: []string{name}} }

// Bodies that are no letters are refused.
func FuzzDeliver(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0xA0})
	valid, err := rowEncoding.Marshal(&letter{Verb: verbResult, Child: make([]byte, 16), Parent: make([]byte, 16), Status: 200})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(valid)
	f.Fuzz(func(t *testing.T, body []byte) {
		w := newWorld(t)
		h := w.actor("main")
		turn := h.begin()
		_ = Deliver(turn, w.lookup, body)
		_ = Undeliverable(turn, &Outgoing{Body: body}, context.Canceled)
	})
}

// Rows of obligations and of the inbox that are not what they should be are errors.
func FuzzRows(f *testing.F) {
	j := newWorld(f).actor("main")
	turn := j.begin()
	if err := putObligation(turn, &obligation{Number: 1, Entry: journal.Location{0x14}, Handler: "h", Args: []byte{1}, Attempts: 2, Due: time.UnixMilli(5), Failure: &Failure{Message: "m"}}); err != nil {
		f.Fatal(err)
	}
	if err := putMessage(turn, &message{number: 1, location: journal.Location{0x14}, status: Completed, output: []byte{0xF6}}); err != nil {
		f.Fatal(err)
	}
	for _, v := range j.rows {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if o, err := decodeObligation(numbered{1, value}); err == nil {
			h := newWorld(t).actor("main")
			if err := putObligation(h.begin(), o); err != nil {
				t.Fatal(err)
			}
		}
		if m, err := decodeMessage(numbered{1, value}); err == nil && m.status > journal.StatusLast {
			t.Fatalf("status %d", m.status)
		}
	})
}

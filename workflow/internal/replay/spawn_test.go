package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// Children within the run and in other actors end like runs, and undo what they did when they fail; the parent sees it.
func TestSpawn(t *testing.T) {
	for _, remote := range []bool{false, true} {
		everywhere(t, func(w *world) string {
			d := childDefinition()
			h := w.with(0, program(func(ctx Context) (string, error) {
				var children []*Child[string]
				for _, in := range []string{"works", "fails", "waits"} {
					var options []SpawnOption
					if remote {
						options = append(options, OnActor(destination("c "+in)))
					}
					c, err := Spawn(ctx, in, d, in, options...)
					if err != nil {
						return "", err
					}
					children = append(children, c)
				}
				text := ""
				for i, c := range children {
					if i == 2 {
						if err := c.Cancel(ctx, "enough"); err != nil {
							return "", err
						}
					}
					out, err := c.Result(ctx)
					text += out
					var ce *ChildError
					if errors.As(err, &ce) {
						text += fmt.Sprintf(" %s %s %v;", ce.Name, ce.Status, errors.Is(err, ErrCanceled))
					}
				}
				return text, pass(ctx, "end")
			}), d.Program())
			w.run()
			h.want("completed works well fails failed false; waits cancelled true;")
			for _, in := range []string{"works", "fails", "waits"} {
				state := h.state
				if remote {
					state = w.actor("c " + in).state
				}
				want := "undone"
				if in == "works" {
					want = "done"
				}
				if got := state["did "+in]; got != want {
					t.Errorf("%s: %q, want %q", in, got, want)
				}
			}
			return ""
		})
	}
}

// When the parent ends first, its children get what OnParentClose says.
func TestParentClose(t *testing.T) {
	for policy, want := range map[ParentClose]string{
		CloseAbandon:   "completed waits well",
		CloseCancel:    "cancelled",
		CloseTerminate: "terminated",
	} {
		everywhere(t, func(w *world) string {
			d := childDefinition()
			h := w.with(0, program(func(ctx Context) (string, error) {
				_, err := Spawn(ctx, "child", d, "waits", OnActor(destination("c")), OnParentClose(policy))
				if err != nil {
					return "", err
				}
				return "left", Sleep(ctx, "sleep", time.Minute)
			}), d.Program())
			w.run()
			h.want("completed left")
			if got := w.actor("c").outcome(); !strings.HasPrefix(got, want) {
				t.Errorf("policy %d: the child %s, want %s", policy, got, want)
			}
			return ""
		})
	}
	// Within the run a child cannot outlive the scope.
	everywhere(t, func(w *world) string {
		d := childDefinition()
		h := w.with(0, program(func(ctx Context) (string, error) {
			_, err := Scope(ctx, "scope", func(ctx Context) (int, error) {
				_, err := Spawn(ctx, "child", d, "waits")
				if err != nil {
					return 0, err
				}
				_, refused := Spawn(ctx, "abandoned", d, "waits", OnParentClose(CloseAbandon))
				if refused == nil {
					return 0, errors.New("it was not refused")
				}
				return 0, Sleep(ctx, "sleep", time.Minute)
			})
			return "left", err
		}), d.Program())
		start := w.now
		w.run()
		h.want("completed left")
		if h.state["did waits"] != "undone" {
			t.Errorf("state %v", h.state)
		}
		if took := w.now.Sub(start); took > time.Hour {
			t.Errorf("took %v", took)
		}
		return ""
	})
}

// A child that cannot be started, or whose actor is destroyed, is an error of the child, not a wait for ever.
func TestChildErrors(t *testing.T) {
	everywhere(t, func(w *world) string {
		d := childDefinition()
		unknown := NewFunction("unknown", func(ctx Context, in string) (string, error) { return in, nil })
		w.refuse["nowhere"] = true
		busy := w.actor("busy")
		w.programs["child"] = d.Program()
		busy.transact(func(t *rigTurn) error {
			input, err := d.Program().EncodeInput("waits")
			if err != nil {
				return err
			}
			_, err = Start(t, d.Program(), input, StartOptions{ID: [16]byte{2}})
			return err
		})
		h := w.with(0, program(func(ctx Context) (string, error) {
			text := ""
			for _, c := range []struct {
				to string
				d  *Function[string, string]
			}{{"nowhere", d}, {"busy", d}, {"other", unknown}, {"destroyed", d}} {
				child, err := Spawn(ctx, "at "+c.to, c.d, "waits", OnActor(destination(c.to)))
				if err != nil {
					return "", err
				}
				_, err = child.Result(ctx)
				var ce *ChildError
				if !errors.As(err, &ce) || ce.Status != Exhausted {
					return "", fmt.Errorf("%s: %v", c.to, err)
				}
				text += c.to + " "
			}
			return text, nil
		}))
		destroyed := w.actor("destroyed")
		done := false
		w.until(func() bool {
			if !done && destroyed.started() && strings.Contains(destroyed.history(), "sleep") && !destroyed.stale {
				done = true
				destroyed.transact(func(t *rigTurn) error { return Destroyed(t) })
				destroyed.close()
				clear(destroyed.rows)
				clear(destroyed.state)
				destroyed.keys, destroyed.ended = nil, true
			}
			return h.ended
		})
		h.want("completed nowhere busy other destroyed ")
		return ""
	})
}

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

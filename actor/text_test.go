package actor_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
)

// A nickname has its own text form.
type nickname struct{ raw string }

func (n nickname) MarshalText() ([]byte, error) { return []byte(n.raw), nil }
func (n *nickname) UnmarshalText(b []byte) error {
	n.raw = string(b)
	return nil
}
func (n nickname) MarshalBinary() ([]byte, error)  { return []byte(n.raw), nil }
func (n *nickname) UnmarshalBinary(b []byte) error { n.raw = string(b); return nil }

type profile struct {
	Name string            `json:"name"`
	Tags []string          `json:"tags"`
	Meta map[string]string `json:"meta"`
	Any  any               `json:"any"`
	Nick nickname          `json:"nick"`
	Next *profile          `json:"next"`
	Data []byte            `json:"data"`
	Raw  json.RawMessage   `json:"raw"`
}

func TestTextThatIsNotUTF8IsRefusedInOutputsAndEvents(t *testing.T) {
	typ := actor.NewType[counter]("text")
	read := actor.NewAction[actor.None, profile](typ, "read")
	seen := actor.NewEvent[profile](typ, "seen", actor.EventConfig{})
	var value profile
	emit := false
	b := actor.Define(typ, actor.Spec[counter]{}, actor.On(read, func(_ *counter, ctx *actor.Context, _ actor.None) (profile, error) {
		if emit {
			_ = seen.Emit(ctx, value)
			return profile{}, nil
		}
		return value, nil
	})).Behavior()
	const bad = "a\xffb"
	good := "\ufffd \\ufffd é 世"
	for _, c := range []struct {
		path string // "" is accepted
		v    profile
	}{
		{"Name", profile{Name: bad}},
		{"Tags[1]", profile{Tags: []string{"\ufffd", bad}}},
		{`Meta["k"]`, profile{Meta: map[string]string{"k": bad}}},
		{"Meta.key \"a", profile{Meta: map[string]string{bad: ""}}},
		{"Any[0]", profile{Any: []any{bad}}},
		{"Nick", profile{Nick: nickname{bad}}},
		{"Next.Name", profile{Next: &profile{Name: bad}}},
		{"Next.Tags[0]", profile{Next: &profile{Tags: []string{strings.Repeat("x", 100_000) + bad}}}},
		// U+FFFD that the value has, its escape, bytes, and JSON that is made elsewhere.
		{"", profile{Name: good, Tags: []string{good}, Meta: map[string]string{good: good},
			Any: map[string]any{"k": good}, Nick: nickname{good}}},
		{"", profile{Data: []byte(bad), Next: &profile{}}},
		{"", profile{Raw: json.RawMessage(`"\ufffd"`)}},
	} {
		value = c.v
		for _, as := range []host.Codec{host.JSON, host.CBOR} {
			if c.path == "Nick" && as == host.CBOR {
				continue // there it is bytes
			}
			for _, emit = range []bool{false, true} {
				_, err := b.New().Act(&stub{}, 0, as, nil, nil)
				refused := err != nil && strings.Contains(err.Error(), c.path) && strings.Contains(err.Error(), "not valid UTF-8")
				errorIf(t, refused != (c.path != "") || err != nil && !refused, "%s as %s, event %v: %v", c.path, as, emit, err)
			}
		}
	}
}

// Text that is not UTF-8 is refused in every type that may hold text.
func TestTextIsLookedForInEveryTypeThatMayHoldIt(t *testing.T) {
	type name string
	bad := name("a\xff")
	for i, act := range []func(*actor.Type[counter]) actor.Binding[counter]{
		gives(bad), gives(&bad), gives([1]name{bad}), gives(map[name]bool{bad: true}), gives(map[int]name{1: bad}), gives[any](string(bad)),
		gives(struct{ Inner struct{ N name } }{struct{ N name }{bad}}),
	} {
		typ := actor.NewType[counter]("text")
		_, err := actor.Define(typ, actor.Spec[counter]{}, act(typ)).Behavior().New().Act(&stub{}, 0, host.CBOR, nil, nil)
		errorIf(t, err == nil || !strings.Contains(err.Error(), "not valid UTF-8"), "value %d: %v", i, err)
	}
}

// gives returns the binding of an action that returns a value.
func gives[T any](v T) func(*actor.Type[counter]) actor.Binding[counter] {
	return func(typ *actor.Type[counter]) actor.Binding[counter] {
		return actor.On(actor.NewAction[actor.None, T](typ, "read"),
			func(*counter, *actor.Context, actor.None) (T, error) { return v, nil })
	}
}

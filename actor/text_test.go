package actor_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
)

// A nickname makes text of itself.
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
	try := func(as host.Codec) (string, error) {
		out, err := b.New().Act(&stub{}, 0, as, nil, nil)
		return string(out), err
	}
	for want, v := range map[string]profile{
		"Name":         {Name: bad},
		"Tags[1]":      {Tags: []string{"\ufffd", bad}},
		`Meta["k"]`:    {Meta: map[string]string{"k": bad}},
		"Meta.key \"a": {Meta: map[string]string{bad: ""}},
		"Any[0]":       {Any: []any{bad}},
		"Nick":         {Nick: nickname{bad}},
		"Next.Name":    {Next: &profile{Name: bad}},
		"Next.Tags[0]": {Next: &profile{Tags: []string{strings.Repeat("x", 100_000) + bad}}},
	} {
		value = v
		for _, as := range []host.Codec{host.JSON, host.CBOR} {
			if want == "Nick" && as == host.CBOR {
				continue // there it is bytes
			}
			for _, emit = range []bool{false, true} {
				_, err := try(as)
				if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "not valid UTF-8") {
					t.Errorf("%s as %s, event %v: %v", want, as, emit, err)
				}
			}
		}
	}
	// U+FFFD that the value has, its escape, bytes, and JSON that is made elsewhere pass.
	good := "\ufffd \\ufffd é 世"
	for _, v := range []profile{
		{Name: good, Tags: []string{good}, Meta: map[string]string{good: good}, Any: map[string]any{"k": good}, Nick: nickname{good}},
		{Data: []byte(bad), Next: &profile{}},
		{Raw: json.RawMessage(`"\ufffd"`)},
	} {
		value = v
		for _, as := range []host.Codec{host.JSON, host.CBOR} {
			for _, emit = range []bool{false, true} {
				if _, err := try(as); err != nil {
					t.Errorf("%+v as %s, event %v: %v", v, as, emit, err)
				}
			}
		}
	}
}

package bind

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
)

type input struct {
	Queue    string     `json:"queue"`
	IDs      []uint64   `json:"ids,omitempty"`
	Names    []string   `json:"names,omitempty"`
	WaitMS   int64      `json:"wait_ms,omitempty"`
	DelayMS  *int64     `json:"delay_ms,omitempty"`
	DedupID  string     `json:"dedup_id,omitempty"`
	Priority int        `json:"priority,omitempty" range:"-10,10"`
	Dead     bool       `json:"dead,omitempty"`
	After    uint64     `json:"after,omitempty"`
	At       *time.Time `json:"at,omitempty"`
	Reply    host.Raw   `json:"reply,omitempty"`
}

func TestFlagsAreMembersOfAnInput(t *testing.T) {
	flags := []Flag{
		{Member: "wait_ms"}, {Member: "delay_ms"}, {Member: "dedup_id"}, {Member: "priority", Initial: 3}, {Member: "dead"}, {Member: "after"},
		{Member: "at"}, {Member: "reply", Document: true},
	}
	document := func(s string) ([]byte, error) {
		if s == "bad" {
			return nil, errors.New("no document")
		}
		return []byte(s), nil
	}
	for _, c := range []struct{ line, want, err string }{
		{"", `{"queue":"","priority":3}`, ""},
		{"--wait=2s --delay=0s --dedup-id=x --priority=-10 --dead --after=7 --at=2027-01-01T00:00:00Z --reply=7",
			`{"queue":"","wait_ms":2000,"delay_ms":0,"dedup_id":"x","priority":-10,"dead":true,"after":7,"at":"2027-01-01T00:00:00Z","reply":7}`, ""},
		{"--wait=-1s", "", "--wait -1s: must not be negative"},
		{"--delay=1us", "", "--delay 1µs: whole milliseconds are needed"},
		{"--priority=11", "", "--priority 11: -10 to 10"},
		{"--at=tomorrow", "", `--at "tomorrow": a time such as 2027-01-01T00:00:00Z is needed`},
		{"--reply=bad", "", "no document"},
	} {
		var in input
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		check, read := Flags(set, flags, &in, document)
		if err := set.Parse(strings.Fields(c.line)); err != nil {
			t.Fatal(err)
		}
		err := check()
		if err == nil {
			err = read()
		}
		if err != nil || c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: the error is %v, want %q", c.line, err, c.err)
			}
			continue
		}
		if got, err := json.Marshal(in); err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v; want %s", c.line, got, err, c.want)
		}
	}
}

func TestKeysAreArgumentsAndFlags(t *testing.T) {
	for text, want := range map[string]kv.Key{
		"users/i~7":     {"users", int64(7)},
		"users/":        {"users"},
		`["users",7.0]`: {"users", 7.0},
		"[]":            {},
		"s~[":           {"["},
	} {
		if got, err := Key(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "/", "i~x", "[1", "[null]"} {
		if got, err := Key(text); err == nil {
			t.Errorf("%s: %#v", text, got)
		}
	}
	var get kv.GetInput
	if err := SetArguments(&get, []string{"KEY"}, []string{"a//b"}); err == nil {
		t.Error("an empty part was taken")
	}
	// The members of an embedded struct are members, and a flag may have a name of its own.
	for line, want := range map[string]string{
		"":                         `{}`,
		"--prefix=a/i~1 --keys":    `{"prefix":["a",1],"keys_only":true}`,
		"--prefix=":                "--prefix: ",
		"--prefix=x~! --keys=true": "--prefix: ",
	} {
		var in kv.ListInput
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		check, _ := Flags(set, []Flag{{Member: "prefix"}, {Member: "keys_only", Name: "keys"}}, &in, nil)
		if err := set.Parse(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
		err := check()
		text, _ := json.Marshal(in)
		if err == nil && string(text) != want || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %s, %v", line, text, err)
		}
	}
}

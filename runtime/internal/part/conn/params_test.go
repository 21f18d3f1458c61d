package conn

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestWithoutCredentials(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{``, ``},
		{`null`, ``},
		{`{`, ``},
		{`"text"`, `"text"`},
		{`{ "a": 1 }`, `{ "a": 1 }`},
		{`{"author":"x","passenger":"y"}`, `{"author":"x","passenger":"y"}`},
		{`{"API-KEY":1,"api_key":2,"x-Api-Key":3,"Authorization":4,"refresh_token":5,"clientSecret":6,"b":1}`, `{"b":1}`},
		{`{"session":1,"sessionId":2,"Cookie":3,"credentials":{"a":1},"JWT":5,"bearer":6,"auth":7,"pwd":8}`, `{}`},
		{`[{"a":{"b":[{"password":1,"c":1.50}]}}]`, `[{"a":{"b":[{"c":1.50}]}}]`},
	} {
		if got := string(withoutCredentials([]byte(c.in))); got != c.want {
			t.Errorf("of %s is stored %s, want %s", c.in, got, c.want)
		}
	}
}

func FuzzWithoutCredentials(f *testing.F) {
	f.Add([]byte(`{"token":"a","b":[{"Pass-Word":1}]}`))
	f.Fuzz(func(t *testing.T, params []byte) {
		out := withoutCredentials(params)
		if out == nil {
			return
		}
		if !json.Valid(out) && json.Valid(params) {
			t.Fatalf("%s became %s", params, out)
		}
		if again := withoutCredentials(out); json.Valid(out) && !bytes.Equal(again, out) {
			t.Fatalf("%s keeps credentials: %s", out, again)
		}
	})
}

package natspub

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

var tokenTable = []struct{ part, token string }{
	{"", "%"},
	{"_", "%5F"},
	{"__", "__"},
	{"_a", "_a"},
	{"a", "a"},
	{"ORD", "ORD"},
	{"a.b", "a%2Eb"},
	{"*", "%2A"},
	{">", "%3E"},
	{"%", "%25"},
	{"%5F", "%255F"},
	{"a b", "a%20b"},
	{"\x00", "%00"},
	{"\t\r\n", "%09%0D%0A"},
	{"\x1f\x7f", "%1F%7F"},
	{"Zürich", "Zürich"},
	{"東京", "東京"},
	{"a/b:c@d+e=f,g", "a/b:c@d+e=f,g"},
	{"$SYS", "$SYS"},
	{"\xff", "\xff"},
}

func TestTokensAreExactlyAsSpecified(t *testing.T) {
	for _, c := range tokenTable {
		if got := Token(c.part); got != c.token {
			t.Errorf("Token(%q) = %q, want %q", c.part, got, c.token)
		}
		if got, err := ParseToken(c.token); err != nil || got != c.part {
			t.Errorf("ParseToken(%q) = %q, %v, want %q", c.token, got, err, c.part)
		}
	}
}

func TestTokensThatNoKeyHasAreRefused(t *testing.T) {
	for _, token := range []string{"", "_", "a b", "*", "a.b", ">", "a%", "a%2", "%2", "%2e", "%41", "%5f", "_%", "%%", "%G0", "a%5F", "a\x00", "%20 "} {
		got, err := ParseToken(token)
		var bad *TokenError
		if !errors.As(err, &bad) || bad.Token != token || bad.Error() == "" {
			t.Errorf("ParseToken(%q) = %q, %v", token, got, err)
		}
	}
}

func TestKeysKeepTheirParts(t *testing.T) {
	for _, c := range []struct {
		key    []string
		tokens string
	}{
		{nil, "_"},
		{[]string{}, "_"},
		{[]string{""}, "%"},
		{[]string{"_"}, "%5F"},
		{[]string{"", ""}, "%.%"},
		{[]string{"eu", "room.1"}, "eu.room%2E1"},
		{[]string{"_", "a"}, "%5F.a"},
	} {
		if got := string(AppendKey(nil, c.key)); got != c.tokens {
			t.Errorf("AppendKey(%q) = %q, want %q", c.key, got, c.tokens)
		}
		if got, err := ParseKey(c.tokens); err != nil || !slices.Equal(got, c.key) {
			t.Errorf("ParseKey(%q) = %q, %v", c.tokens, got, err)
		}
	}
	for _, tokens := range []string{"", ".", "a..b", "a.", "_.a"} {
		if got, err := ParseKey(tokens); err == nil {
			t.Errorf("ParseKey(%q) = %q", tokens, got)
		}
	}
}

func TestSubjectsAreExactlyAsSpecified(t *testing.T) {
	s, err := NewSubjects("cairn")
	must(t, err)
	key := []string{"eu west", "1"}
	for got, want := range map[string]string{
		s.Event("default", "airport", "delay-bad", key):               "cairn.default.event.airport.delay-bad.eu%20west.1",
		s.Change("default", "airport", "kv", key):                     "cairn.default.change.airport.kv.eu%20west.1",
		s.Life("default", "airport", "woke", nil):                     "cairn.default.life.airport.woke._",
		s.Audit("default", "airport", "actor.pause", []string{"ORD"}): "cairn.default.audit.airport.actor%2Epause.ORD",
		s.Call("default", "airport", "arrive", []string{"ORD"}):       "cairn.default.call.airport.arrive.ORD",
		s.Calls("a.b", "airport", "arrive"):                           "cairn.a%2Eb.call.airport.arrive.>",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if s, err := NewSubjects("acme.actors"); err != nil || s.Event("d", "t", "e", nil) != "acme.actors.d.event.t.e._" {
		t.Errorf("a root of two tokens: %v", err)
	}
	for _, root := range []string{"", ".", "a.", "a..b", "a.*", ">", "a b", "$JS.x", "a\n"} {
		if _, err := NewSubjects(root); err == nil {
			t.Errorf("root %q was accepted", root)
		}
	}
}

func FuzzTokenRoundTrip(f *testing.F) {
	for _, c := range tokenTable {
		f.Add(c.part)
	}
	f.Fuzz(func(t *testing.T, part string) {
		token := Token(part)
		if token == "" || token == "_" || strings.ContainsAny(token, ".*> \t\r\n\x00\x7f") {
			t.Fatalf("%q became %q", part, token)
		}
		if got, err := ParseToken(token); err != nil || got != part {
			t.Fatalf("%q became %q became %q, %v", part, token, got, err)
		}
	})
}

func FuzzParseKeyAcceptsOnlyCanonicalSubjects(f *testing.F) {
	for _, s := range []string{"_", "%", "a.b", "%5F.%2E", "a..b", "%41", "_._"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, tokens string) {
		key, err := ParseKey(tokens)
		if err == nil && string(AppendKey(nil, key)) != tokens {
			t.Fatalf("%q was read as %q, which is written %q", tokens, key, AppendKey(nil, key))
		}
	})
}

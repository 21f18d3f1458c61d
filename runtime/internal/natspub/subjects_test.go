package natspub

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestSubjectScripts makes subjects of the parts of testdata/subjects, and reads them. What is written is read back as it was.
// `go test -run SubjectScripts -rewrite ./runtime/internal/natspub` writes the results anew.
func TestSubjectScripts(t *testing.T) {
	commands := map[string]func(t *testing.T, line string) string{
		"token": func(t *testing.T, line string) string {
			part, err := strconv.Unquote(line)
			must(t, err)
			gives(t, part, line, "is read back as")(ParseToken(Token(part)))
			return strconv.Quote(Token(part))
		},
		"read-token": func(t *testing.T, line string) string {
			text, err := strconv.Unquote(line)
			must(t, err)
			got, err := ParseToken(text)
			var bad *TokenError
			errorIf(t, !errors.As(err, &bad) || bad.Token != text, "%s is read as %q, %v", line, got, err)
			return err.Error()
		},
		"key": func(t *testing.T, line string) string {
			var key []string
			must(t, json.Unmarshal([]byte(line), &key))
			tokens := string(AppendKey(nil, key))
			if got, err := ParseKey(tokens); err != nil || !slices.Equal(got, key) {
				t.Errorf("%s is read back as %q, %v", line, got, err)
			}
			return tokens
		},
		"read-key": func(_ *testing.T, line string) string {
			key, err := ParseKey(strings.Trim(line, `"`))
			return fmt.Sprintf("%q %v", key, err)
		},
		"root": func(t *testing.T, line string) string {
			root, err := strconv.Unquote(line)
			must(t, err)
			s, err := NewSubjects(root)
			if err != nil {
				return err.Error()
			}
			key := []string{"eu west", "1"}
			return strings.Join([]string{
				s.Event("default", "airport", "delay-bad", key), s.Change("a.b", "airport", "kv", key), s.Life("default", "airport", "woke", nil),
				s.Audit("default", "airport", "actor.pause", key), s.Call("default", "airport", "arrive", key), s.Calls("a.b", "airport", "arrive"),
			}, " ")
		},
	}
	datadriven.RunTest(t, "testdata/subjects", func(t *testing.T, d *datadriven.TestData) (out string) {
		for line := range strings.Lines(d.Input) {
			line = strings.TrimSuffix(line, "\n")
			out += line + ": " + commands[d.Cmd](t, line) + "\n"
		}
		return out
	})
}

func FuzzTokenRoundTrip(f *testing.F) {
	for _, part := range []string{"", "_", "_a", "a.b", ">", "%5F", "a b", "\x00", "\x1f\x7f", "Zürich", "\xff"} {
		f.Add(part)
	}
	f.Fuzz(func(t *testing.T, part string) {
		token := Token(part)
		fatalIf(t, token == "" || token == "_" || strings.ContainsAny(token, ".*> \t\r\n\x00\x7f"), "%q became %q", part, token)
		got, err := ParseToken(token)
		fatalIf(t, err != nil || got != part, "%q became %q became %q, %v", part, token, got, err)
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

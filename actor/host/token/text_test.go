package token

import (
	"strings"
	"testing"
)

func TestATextIsParsedInOneFormOnly(t *testing.T) {
	text, id, digest := New()
	if got, d, ok := Parse(text); !ok || got != id || d != digest || !IsID(id) || len(text) != 54 {
		t.Errorf("%s: %s %t", text, got, ok)
	}
	if other, _, _ := New(); other == text {
		t.Error("two tokens are the same")
	}
	for _, bad := range []string{
		"", Prefix, strings.TrimPrefix(text, Prefix), text + "a", text[:53], strings.ToUpper(text), " " +
			text, text[:30] + "\r\n" + text[32:], text[:30] + "=" + text[31:], text[:30] + "1" + text[31:],
	} {
		if _, _, ok := Parse(bad); ok {
			t.Errorf("%q is parsed", bad)
		}
	}
	for header, want := range map[string]string{
		"Bearer " + text: text, "bearer   " + text + " ": text, text: "", "Basic " +
			text: "", "Bearer x": "", "": "", "Bearer " + Prefix: Prefix, "Bearer x" + text: "",
	} {
		if got := Bearer(header); got != want {
			t.Errorf("%q has the token %q", header, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	text, _, _ := New()
	for _, seed := range []string{text, Prefix, "", text[1:], strings.ToUpper(text), text[:20] + "\n" + text[21:]} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, digest, ok := Parse(text)
		if Bearer("Bearer "+text) != "" && !strings.HasPrefix(strings.TrimSpace(text), Prefix) {
			t.Errorf("%q is taken for a token", text)
		}
		if !ok {
			return
		}
		if !IsID(id) || text[len(Prefix):][:len(id)] != id {
			t.Errorf("%q has the id %q", text, id)
		}
		// No other text of the same length has the same secret: each character counts.
		for i := len(Prefix) + len(id); i < len(text); i++ {
			c := byte('a')
			if text[i] == c {
				c = 'b'
			}
			if _, d, ok := Parse(text[:i] + string(c) + text[i+1:]); !ok || d == digest {
				t.Errorf("the character at %d of %q does not count", i, text)
			}
		}
	})
}

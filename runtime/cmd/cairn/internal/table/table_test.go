package table

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestSizesAndCountsReadWell(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1024*1024 - 1: "1.0 MiB", 10 << 30: "10.0 GiB", math.MaxInt64: "8.0 EiB",
	} {
		if got := Size(n); got != want {
			t.Errorf("Size(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", 100000: "100,000"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
	if got := Clock(time.Time{}); got != "-" {
		t.Errorf("the zero time is %q", got)
	}
}

func TestTerminalIsSafeFromStoredText(t *testing.T) {
	for s, want := range map[string]string{
		"plain ü 日本": "plain ü 日本", "a\tb\nc": `a\tb\nc`, "\x1b[31m": `\x1b[31m`, `say "hi"` +
			"\n": `say "hi"\n`, "\xff": `\xff`, "\u202e": `\u202e`,
	} {
		if got := OneLine(s); got != want {
			t.Errorf("OneLine(%q) = %q, want %q", s, got, want)
		}
	}
	if got := Cut("日本語です", 3); got != "日本…" {
		t.Errorf("cut is %q", got)
	}
}

func TestColourKeepsColumnsAligned(t *testing.T) {
	var out strings.Builder
	tab := New(&out, true)
	for s, colour := range map[string]string{"awake": Green, "failed": Red, "asleep": Grey, "paused": Yellow} {
		tab.Row("a", tab.Paint(colour, s), "end")
	}
	tab.Row("a", tab.Paint(Bold, "STATE!!"), "end")
	tab.Flush()
	column := -1
	for line := range strings.Lines(out.String()) {
		for _, code := range []string{Red, Green, Yellow, Grey, Bold, Plain} {
			line = strings.ReplaceAll(line, code, "")
		}
		at := strings.Index(line, "end")
		if column >= 0 && at != column {
			t.Errorf("the column moved from %d to %d:\n%q", column, at, out.String())
		}
		column = at
	}
}

package shell

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTheShellOnATerminal of the command has what a person types, and what is shown.

func TestTheHistoryIsBoundedAndSkipsWhatIsNoStatement(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "history")
	var long strings.Builder
	long.WriteString("\xff\n\nbell \a\n")
	for i := range maxHistory + 5 {
		fmt.Fprintf(&long, "SELECT %d;\n", i)
	}
	if err := os.WriteFile(file, []byte(long.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	h := OpenHistory(file)
	if h.Len() != maxHistory || h.At(0) != fmt.Sprintf("SELECT %d;", maxHistory+4) || h.At(maxHistory-1) != "SELECT 5;" {
		t.Errorf("%d entries, %q to %q", h.Len(), h.At(h.Len()-1), h.At(0))
	}
	h.keep("x")
	if text, err := os.ReadFile(file); err != nil || bytes.Count(text, []byte("\n")) != maxHistory+1 {
		t.Errorf("%d lines, %v", bytes.Count(text, []byte("\n")), err)
	}
	if again := OpenHistory(file); !slices.Equal(again.entries, h.entries) {
		t.Error("what is read is not what was written")
	}
	// A place that cannot be written to is done without.
	h = OpenHistory(filepath.Join(file, "below a file"))
	h.keep("SELECT 1")
	if h.Len() != 1 || h.file != "" {
		t.Errorf("%+v", h)
	}
	if h := OpenHistory(""); h.Len() != 0 {
		t.Errorf("%+v", h)
	}
}

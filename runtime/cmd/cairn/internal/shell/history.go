package shell

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/file"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

const (
	// maxHistory bounds the statements that are kept.
	maxHistory = 1000
	// maxHistoryBytes bounds what is read of the file.
	maxHistoryBytes = 4 << 20
)

// A History is the statements that were typed, oldest first: in memory and, a line each, in a file.
// It is a term.History. A file that cannot be used is done without.
type History struct {
	entries []string
	file    string // "" for none
}

// HistoryFile is where the history is kept: in the user's configuration directory, "" if there is
// none.
func HistoryFile() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "cairn", "sql_history")
}

// OpenHistory reads the history in a file. A file that has grown too long is written anew.
func OpenHistory(name string) *History {
	h := &History{file: name}
	if name == "" {
		return h
	}
	f, err := os.Open(name)
	if err != nil {
		return h
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > maxHistoryBytes {
		_, _ = f.Seek(-maxHistoryBytes, io.SeekEnd) // if that fails, the first statements are read
	}
	text, err := io.ReadAll(io.LimitReader(f, maxHistoryBytes))
	if err != nil {
		return h
	}
	lines := bytes.Count(text, []byte("\n"))
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && utf8.ValidString(line) && table.OneLine(line) == line {
			h.entries = append(h.entries, line)
		}
	}
	h.bound()
	if lines > len(h.entries) {
		// Another shell may add a statement in between, which is then lost.
		_, _ = file.Write(name, true, func(w io.Writer) error {
			_, err := io.WriteString(w, strings.Join(h.entries, "\n")+"\n")
			return err
		})
	}
	return h
}

// bound forgets the oldest entries.
func (h *History) bound() {
	if n := len(h.entries) - maxHistory; n > 0 {
		h.entries = h.entries[n:]
	}
}

// keep adds a statement, on one line. One that is the same as the last is not added, nor one with a
// string that has several lines or characters that a terminal would obey.
func (h *History) keep(statement string) {
	line := onOneLine(statement)
	if line == "" || table.OneLine(line) != line {
		return
	}
	line += ";"
	if n := len(h.entries); n > 0 && h.entries[n-1] == line {
		return
	}
	h.entries = append(h.entries, line)
	h.bound()
	if h.file == "" {
		return
	}
	if os.MkdirAll(filepath.Dir(h.file), 0o700) != nil {
		h.file = ""
		return
	}
	f, err := os.OpenFile(h.file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		h.file = ""
		return
	}
	_, _ = f.WriteString(line + "\n")
	f.Close()
}

// Add does nothing: the terminal offers lines, and what is kept are statements.
func (h *History) Add(string) {}

// Len returns the number of entries.
func (h *History) Len() int { return len(h.entries) }

// At returns an entry; 0 is the latest.
func (h *History) At(i int) string { return h.entries[len(h.entries)-1-i] }

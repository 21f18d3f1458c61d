package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// A Console is a terminal in raw mode and what belongs to the person at it.
type Console struct {
	In      io.Reader
	Screen  io.Writer
	History *History
	Size    func() (width, height int)
	// OnScreen says that rows go to the screen too, and not to a file.
	OnScreen bool
	// Fail prints an error.
	Fail func(w io.Writer, err error)
}

// errInterrupt says that Ctrl-C was pressed while a line was typed.
var errInterrupt = errors.New("interrupted")

// Interact runs the shell on a console until it is left. An error is printed and does not end it.
func (s *Shell) Interact(ctx context.Context, at *Console) error {
	screen := rawWriter{at.Screen}
	s.Notes = rawWriter{s.Notes}
	if at.OnScreen {
		s.Out = rawWriter{s.Out}
		s.printer.w = s.Out
	}
	s.keep = at.History.keep

	keys := newKeyboard(ctx)
	defer keys.close()
	go keys.read(at.In) // it may hang in a read of the terminal, and ends with the process

	var line *term.Terminal
	begin := func() {
		line = term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{keys, at.Screen}, "")
		line.History = at.History
		line.AutoCompleteCallback = s.completion(ctx, screen)
		line.SetBracketedPasteMode(true)
	}
	begin()
	defer func() { line.SetBracketedPasteMode(false) }()
	for {
		line.SetPrompt(s.prompt())
		if width, height := at.Size(); width > 0 && height > 0 {
			_ = line.SetSize(width, height) // it fails if the screen does, and then so does the next line
		}
		text, err := line.ReadLine()
		switch {
		case err == nil || err == term.ErrPasteIndicator:
			running, cancel := context.WithCancel(ctx)
			keys.cancels(cancel)
			err := s.line(running, text)
			keys.cancels(nil)
			cancel()
			if errors.Is(err, errQuit) {
				s.farewell()
				return nil
			}
			if err != nil {
				at.Fail(s.Notes, err)
			}
		case errors.Is(err, errInterrupt):
			fmt.Fprint(screen, "^C\n")
			switch {
			case s.input.pending():
				s.input = splitter{}
			case s.group != nil:
				s.group = nil
				s.note("the transaction is given up")
			}
			begin() // the one before still has what was typed
		case ctx.Err() != nil, errors.Is(err, io.EOF):
			fmt.Fprint(screen, "\n")
			s.farewell()
			return nil
		default:
			return err
		}
	}
}

// farewell says what the person may have forgotten.
func (s *Shell) farewell() {
	if s.group != nil {
		s.note("the transaction has no COMMIT: nothing of it was done")
	}
}

// A rawWriter writes to a terminal in raw mode, which does not begin a line at its beginning by
// itself.
type rawWriter struct{ w io.Writer }

func (w rawWriter) Write(b []byte) (int, error) {
	if _, err := w.w.Write(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// maxTyped bounds the keys that wait until the shell reads them.
const maxTyped = 1 << 20

// A keyboard keeps what is typed until it is read, and notices Ctrl-C at once: while a statement
// runs that cancels it and drops what was typed before; otherwise it is an errInterrupt where the
// key was pressed.
type keyboard struct {
	ctx  context.Context
	stop func() bool // waking the readers when ctx ends

	mu      sync.Mutex
	changed sync.Cond
	typed   []byte
	err     error
	cancel  context.CancelFunc // of what runs; nil if nothing does
}

const ctrlC = 3

func newKeyboard(ctx context.Context) *keyboard {
	k := &keyboard{ctx: ctx}
	k.changed.L = &k.mu
	k.stop = context.AfterFunc(ctx, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.changed.Broadcast()
	})
	return k
}

// close ends the reading of keys, as far as it can be ended.
func (k *keyboard) close() {
	k.stop()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = io.ErrClosedPipe
	k.changed.Broadcast()
}

// cancels says what Ctrl-C cancels from now on; nil for nothing.
func (k *keyboard) cancels(cancel context.CancelFunc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cancel = cancel
}

// read takes keys from r until that ends.
func (k *keyboard) read(r io.Reader) {
	b := make([]byte, 4096)
	for {
		n, err := r.Read(b)
		if !k.add(b[:n], err) {
			return
		}
	}
}

// add takes what a read returned and reports whether there is more to come.
func (k *keyboard) add(keys []byte, err error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := bytes.LastIndexByte(keys, ctrlC); i >= 0 && k.cancel != nil {
		k.cancel()
		k.typed, keys = nil, keys[i+1:]
	}
	for len(k.typed) > maxTyped && k.err == nil && k.ctx.Err() == nil {
		k.changed.Wait()
	}
	k.typed = append(k.typed, keys...)
	if k.err == nil {
		k.err = err
	}
	k.changed.Broadcast()
	return k.err == nil && k.ctx.Err() == nil
}

// Read returns keys that were typed. It waits for one until the context ends.
func (k *keyboard) Read(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.typed) == 0 && k.err == nil && k.ctx.Err() == nil {
		k.changed.Wait()
	}
	switch {
	case k.ctx.Err() != nil:
		return 0, k.ctx.Err()
	case len(k.typed) == 0:
		return 0, k.err
	case k.typed[0] == ctrlC:
		k.typed = k.typed[1:]
		return 0, errInterrupt
	}
	plain := k.typed
	if i := bytes.IndexByte(plain, ctrlC); i >= 0 {
		plain = plain[:i]
	}
	n := copy(b, plain)
	k.typed = k.typed[n:]
	k.changed.Broadcast()
	return n, nil
}

// completion returns what completes a line at a tab: commands, and names of tables.
func (s *Shell) completion(ctx context.Context, screen io.Writer) func(string, int, rune) (string, int, bool) {
	return func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		from := strings.LastIndexFunc(line[:pos],
			func(r rune) bool { return r < utf8.RuneSelf && !letter(byte(r)) && r != '.' }) + 1
		begun := line[from:pos]
		var all []string
		switch {
		case from == 0 && strings.HasPrefix(begun, ".") && !s.input.pending():
			for _, c := range dotCommands() {
				all = append(all, c.name)
			}
		case begun != "" || strings.HasPrefix(line, "."):
			all = s.tables(ctx)
		}
		all = slices.DeleteFunc(slices.Clone(all), func(name string) bool {
			return len(name) < len(begun) || !strings.EqualFold(name[:len(begun)], begun)
		})
		if len(all) == 0 {
			return line, pos, true
		}
		completed := all[0]
		for _, name := range all[1:] {
			completed = commonPrefix(completed, name)
		}
		switch {
		case len(all) == 1:
			completed += " "
		case len(completed) <= len(begun):
			_, _ = fmt.Fprintf(screen, "\n%s\n", cutWidth(table.OneLine(strings.Join(all, "  ")), 1000))
			completed = begun
		}
		return line[:from] + completed + line[pos:], from + len(completed), true
	}
}

// commonPrefix is what two names both begin with, whatever the case of letters.
func commonPrefix(a, b string) string {
	n := 0
	for i, r := range a {
		end := i + utf8.RuneLen(r)
		if end > len(b) || !strings.EqualFold(a[i:end], b[i:end]) {
			break
		}
		n = end
	}
	return a[:n]
}

package cell_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nats-io/nats.go"

	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/localnats"
)

// guide is the page whose examples are run.
var guide = filepath.Join("..", "..", "docs", "guides", "cell.md")

// A block is a fenced block of a page.
type block struct {
	line       int
	kind, text string
}

func blocks(t *testing.T, page string) []block {
	t.Helper()
	text, err := os.ReadFile(page)
	must(t, err)
	var all []block
	var open *block
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		fence, isFence := strings.CutPrefix(strings.TrimRight(line, "\n"), "```")
		switch {
		case isFence && open == nil:
			open = &block{line: n, kind: fence}
		case isFence:
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += line
		}
	}
	return all
}

// The examples of the guide run in the order of the page, against one node. A json or text block is
// the output of the sh block before it; same and matches define the allowed differences.
func TestGuideShowsWhatTheCommandsPrint(t *testing.T) {
	rt := open(t, runtime.Options{Listen: "127.0.0.1:0", NATSListen: "127.0.0.1:0", NATSServer: localnats.Serve})
	g := guideRun{t: t, rt: rt, dir: t.TempDir()}
	all := blocks(t, guide)
	ran := 0
	for i, b := range all {
		switch b.kind {
		case "sh":
			got := g.shell(b)
			if i+1 < len(all) && (all[i+1].kind == "json" || all[i+1].kind == "text") {
				g.compare(all[i+1], got)
			} else {
				t.Errorf("line %d: the page does not say what is printed", b.line)
			}
			ran++
		case "websocket":
			g.websocket(b)
			ran++
		case "nats":
			g.nats(b)
			ran++
		case "json", "text", "console":
		default:
			t.Errorf("line %d: a block of kind %q", b.line, b.kind)
		}
	}
	errorIf(t, ran < 15, "only %d examples found", ran)
}

type guideRun struct {
	t   *testing.T
	rt  *runtime.Runtime
	dir string
}

// at replaces the address of the page with the node's.
func (g *guideRun) at(text string) string {
	return strings.ReplaceAll(text, "localhost:6420", g.rt.Addr())
}

// shell runs a block and returns its output. A curl that ends after its time (-m) is no failure.
func (g *guideRun) shell(b block) string {
	cmd := exec.CommandContext(g.t.Context(), "sh", "-e")
	cmd.Dir = g.dir
	// The replies end without a newline; echo adds one after each.
	cmd.Stdin = strings.NewReader("curl() { command curl \"$@\" || [ $? = 28 ]; echo; }\n" + g.at(b.text))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		g.t.Errorf("line %d: %v\n%s%s", b.line, err, out, &stderr)
	}
	return string(out)
}

func (g *guideRun) compare(want block, got string) {
	g.t.Helper()
	if !agrees(g.t, want, got) {
		g.t.Errorf("line %d: printed is\n%s\nand the page says\n%s", want.line, got, want.text)
	}
}

// agrees compares text, or all values of JSON.
func agrees(t *testing.T, want block, got string) bool {
	if want.kind == "text" {
		return matches(want.text, got)
	}
	return same(values(t, want.text), values(t, got))
}

// values decodes JSON documents that follow each other. Numbers keep all their digits.
func values(t *testing.T, text string) []any {
	t.Helper()
	var all []any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	for {
		var v any
		err := d.Decode(&v)
		if err == io.EOF {
			return all
		}
		must(t, err, "in", text)
		all = append(all, v)
	}
}

// same compares JSON values. The string "..." on the page matches any value.
func same(want, got any) bool {
	if want == "..." {
		return true
	}
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok || len(got) != len(want) {
			return false
		}
		for k, v := range want {
			if g, ok := got[k]; !ok || !same(v, g) {
				return false
			}
		}
		return true
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			return false
		}
		for i := range want {
			if !same(want[i], got[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(want, got)
}

// matches compares text. On the page, "..." matches any text within a line, and any lines if it is
// a whole line.
func matches(want, got string) bool {
	pattern := regexp.QuoteMeta(strings.TrimSpace(want))
	pattern = regexp.MustCompile(`(?m)^\\\.\\\.\\\.$`).ReplaceAllLiteralString(pattern, `(?s:.*)`)
	pattern = strings.ReplaceAll(pattern, `\.\.\.`, `.*`)
	return regexp.MustCompile(`^` + pattern + `$`).MatchString(strings.TrimSpace(got))
}

// websocket plays a block whose first line is the address; the other lines are messages. Adjacent
// messages from the node may come in any order.
func (g *guideRun) websocket(b block) {
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	address, rest, _ := strings.Cut(b.text, "\n")
	c, _, err := websocket.Dial(ctx, "ws://"+g.at(address), &websocket.DialOptions{Subprotocols: []string{"cairn.v1"}})
	if err != nil {
		g.t.Errorf("line %d: %v", b.line, err)
		return
	}
	defer c.CloseNow()
	var expected []any
	for line := range strings.Lines(rest + ".") { // the end checks the expected messages
		mark, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if mark == "<" {
			expected = append(expected, values(g.t, text)...)
			continue
		}
		for len(expected) > 0 {
			_, data, err := c.Read(ctx)
			if err != nil {
				g.t.Fatalf("line %d: %v while waiting for %s", b.line, err, expected)
			}
			got := values(g.t, string(data))[0]
			i := slices.IndexFunc(expected, func(want any) bool { return same(want, got) })
			if i < 0 {
				g.t.Fatalf("line %d: the node says\n%s\nand the page\n%s", b.line, data, expected)
			}
			expected = slices.Delete(expected, i, i+1)
		}
		if mark == ">" {
			if err := c.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
				g.t.Errorf("line %d: %v", b.line, err)
			}
		}
	}
	c.Close(websocket.StatusNormalClosure, "")
}

// nats sends the requests of a block and compares the replies.
func (g *guideRun) nats(b block) {
	c, err := nats.Connect(g.rt.NATSURL())
	must(g.t, err)
	defer c.Close()
	request := regexp.MustCompile(`^nats req (\S+) '(.*)'$`)
	var reply string
	for line := range strings.Lines(b.text) {
		line = strings.TrimSpace(line)
		if want, ok := strings.CutPrefix(line, "< "); ok {
			g.compare(block{b.line, "json", want}, reply)
			continue
		}
		m := request.FindStringSubmatch(line)
		if m == nil {
			g.t.Fatalf("line %d: %s is not a request", b.line, line)
		}
		r, err := c.Request(m[1], []byte(m[2]), time.Minute)
		if err != nil {
			g.t.Errorf("line %d: %s: %v", b.line, line, err)
			return
		}
		reply = string(r.Data)
	}
}

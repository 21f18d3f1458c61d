package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/cell"
)

// writeFile writes a file into a directory of the test, and returns its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// A file goes into a node and out again, over several commits and a faulty line.
func TestEntriesGoIntoANodeAndOutOfIt(t *testing.T) {
	d := serve(t, t.TempDir())
	var all strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&all, `{"key":["n",%d],"value":{"n":%d.10},"expires":"2099-01-01T00:00:00Z"}`+"\n", i, i)
	}
	faulty := strings.Replace(all.String(), `"key":["n",2199]`, `"key":["n",{}]`, 1)
	r := at(t, d.url, "kv", "import", "cell/a", writeFile(t, "faulty", faulty))
	r.want(t, 1, "", "line 2200: key part 2")
	r.want(t, 1, "", "--from-line 2001")
	at(t, d.url, "kv", "count", "cell/a").want(t, 0, "2000\n", "")
	good := writeFile(t, "good", all.String())
	at(t, d.url, "kv", "import", "cell/a", good, "--from-line=2001").want(t, 0, "imported 500 entries into cell/a\n", "")
	// The time of a commit is some milliseconds after the command has read the clock.
	r = at(t, d.url, "kv", "export", "cell/a", "-")
	lines := strings.Split(r.stdout, "\n")
	if r.status != 0 || len(lines) != 2501 || !strings.HasPrefix(lines[2199], `{"key":["n",2199],"value":{"n":2199.10},"expires":"2099-01-01T00:00:00Z"`) {
		t.Errorf("status %d, %d lines: %s", r.status, len(lines), r.stderr)
	}
}

// An import sends what it has read before it reads on, and an export writes what it has got before it asks for more.
func TestEntriesAreStreamed(t *testing.T) {
	const entries, size, most = 20, 500_000, 3 << 20
	s := newScene(t)
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	var in, out atomic.Int64 // bytes that came into the command, and bytes that have left it
	asked := 0
	check := func(verb, method string) func(string, int, int) {
		in.Store(0)
		out.Store(0)
		asked = 0
		return func(called string, input, output int) {
			switch {
			case called != method:
			case output > 0 && verb == "import":
				out.Add(int64(input))
			case output > 0:
				in.Add(int64(output))
			default:
				if verb == "export to SQLite" {
					out.Store(sizeOf(t, temporary))
				}
				if asked++; in.Load()-out.Load() > most {
					t.Errorf("%s: of %d bytes %d have left the command at call %d", verb, in.Load(), out.Load(), asked)
				}
			}
		}
	}
	run := func(stdin io.Reader, stdout io.Writer, args ...string) {
		t.Helper()
		var stderr strings.Builder
		status := newCLI(stdin, stdout, &stderr).run(t.Context(), append([]string{"--url=" + s.server.URL, "kv"}, args...))
		errorIf(t, status != 0 || asked < 3, "%s: %d calls, status %d, %s", args, asked, status, &stderr)
	}

	s.node.watch = check("import", host.KVCommit)
	stdin, lines := io.Pipe()
	go func() {
		value := strings.Repeat("x", size)
		for i := range entries / 2 {
			n, _ := fmt.Fprintf(lines, `{"key":[%d],"value":%q,"encoding":"text"}`+"\n", i, value)
			in.Add(int64(n))
		}
		lines.Close()
	}()
	run(stdin, io.Discard, "import", "cell/a", "-")
	s.node.watch = nil
	for i := entries / 2; i < entries; i++ { // which costs less
		put := kv.Put(kv.Key{int64(i)}, kv.Text(strings.Repeat("x", size)))
		must(t, errOf(cell.Type.Ref(s.node, "a").KV().Commit(t.Context(), kv.Commit{Mutations: []kv.Mutation{put}})))
	}
	s.node.watch = check("export", host.KVList)
	run(nil, counter{&out}, "export", "cell/a", "-")
	if n := out.Load(); n < entries*size {
		t.Errorf("%d bytes are exported", n)
	}
	s.node.watch = check("export to SQLite", host.KVList)
	file := filepath.Join(t.TempDir(), "entries")
	run(nil, io.Discard, "export", "cell/a", file, "--sqlite")
	if info, err := os.Stat(file); err != nil || info.Size() < entries*size {
		t.Errorf("%v, %v", info, err)
	}
}

// A counter counts what is written.
type counter struct{ n *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) { c.n.Add(int64(len(p))); return len(p), nil }

// sizeOf returns the bytes of the files in a folder.
func sizeOf(t *testing.T, dir string) (n int64) {
	all, err := os.ReadDir(dir)
	for _, e := range all {
		var info os.FileInfo
		if info, err = e.Info(); err != nil {
			break
		}
		n += info.Size()
	}
	check(t, err)
	return n
}

// A commit of an import has up to 1 MiB, whatever the entries are.
func TestImportsCommitSlices(t *testing.T) {
	s := newScene(t)
	var all strings.Builder
	for i := range 5 {
		fmt.Fprintf(&all, `{"key":[%d],"value":%q,"encoding":"text"}`+"\n", i, strings.Repeat("x", 400<<10))
	}
	if r := s.run([]string{"kv", "import", "cell/a", "-", "--json"}, all.String()); r.status != 0 || r.stdout != `{"imported":2,"expired":0,"line":2}`+"\n"+
		`{"imported":4,"expired":0,"line":4}`+"\n"+`{"imported":5,"expired":0,"line":5}`+"\n" {
		t.Errorf("%+v", r)
	}
	same(t, s.node.counts["kv.commit"], 3, "commits")
}

// The node refuses what only it can know, and the error names the line.
func TestRefusalsOfTheNodeNameTheLine(t *testing.T) {
	s := newScene(t)
	text := `{"key":["a"],"value":1}` + "\n\n" + `{"key":["` + strings.Repeat("k", 3000) + `"],"value":1}` + "\n"
	r := s.run([]string{"kv", "import", "cell/a", "-"}, text)
	for _, text := range []string{"too_large: line 3: ", "field: key\n", "--from-line 1\n"} {
		r.want(t, 1, "", text)
	}
	s.run([]string{"kv", "count", "cell/a"}, "").want(t, 0, "0\n", "")
}

// A file from outside is never trusted to be small.
func TestTheFileOfAnInstanceIsBounded(t *testing.T) {
	s := newScene(t)
	name := writeFile(t, "I.json", `{"id":"`+strings.Repeat("x", maxInstance)+`"}`)
	s.run([]string{"kv", "import", "cell/a", "--from=codebolt", name}, "").want(t, 1, "", "more than 1.0 MiB")
}

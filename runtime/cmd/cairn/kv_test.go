package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/cell"
	"github.com/cairn-run/cairn/traces"
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
	if r.status != 0 || len(lines) != 2501 ||
		!strings.HasPrefix(lines[2199], `{"key":["n",2199],"value":{"n":2199.10},"expires":"2099-01-01T00:00:00Z"`) {
		t.Errorf("status %d, %d lines: %s", r.status, len(lines), r.stderr)
	}
	// The last page has no cursor, also after pages that had one.
	if n := strings.Count(at(t, d.url, "kv", "list", "cell/a", "--keys", "--json").stdout, "\n"); n != 2500 {
		t.Errorf("listed %d keys", n)
	}
}

// An import sends what it has read before it reads on, and an export writes what it has got before
// it asks for more.
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
	if r := s.run([]string{"kv", "import", "cell/a", "-", "--json"}, all.String()); r.status != 0 ||
		r.stdout != `{"imported":2,"expired":0,"line":2}`+"\n"+
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

func TestSpansThatAreEachOthersParentsArePrintedOnce(t *testing.T) {
	out := &trace.ReadOutput{}
	for i, pair := range []string{"a c", "b a", "c b", "d c", "e e", "f", "g f"} { // a span, and its parent
		id, parent, _ := strings.Cut(pair, " ")
		start := time.Unix(int64(i), 0).UTC()
		out.Spans = append(out.Spans, trace.Span{TraceID: "t", SpanID: id, ParentID: parent, Name: id, Start: start, End: &start})
	}
	out.Spans = append(out.Spans, trace.Span{TraceID: "u", SpanID: "f", Name: "f", Start: out.Spans[6].Start, End: out.Spans[6].End})
	var b strings.Builder
	must(t, (&cli{stdout: &b}).printTraces(out))
	const want = `1970-01-01T00:00:00Z  trace t
  a  0s
    b  0s
      c  0s
        d  0s
  e  0s
  f  0s
    g  0s
1970-01-01T00:00:06Z  trace u
  f  0s
`
	errorIf(t, b.String() != want, "the trees are\n%s", b.String())
}

func TestTracesShowWhatAnActorDidAlsoWhenItsNodeIsStopped(t *testing.T) {
	dir := t.TempDir()
	d := serve(t, dir)
	at(t, d.url, "call", "cell/a", "put", `{"key":[1],"value":1}`)
	r := at(t, d.url, "traces", "cell/a")
	tree := regexp.MustCompile(`(?m)\A\S+Z  trace [0-9a-f]{32}\n  http POST cell\.put  \S+\n    call cell\.put  \S+\n` +
		`      mailbox  \S+\n(      .*\n)*      turn put  \S+\n(?:      (?:commit|gate)  \S+\n){2}`)
	fatalIf(t, !tree.MatchString(r.stdout), "the tree is\n%s%s", r.stdout, r.stderr)
	id := regexp.MustCompile(`trace ([0-9a-f]{32})`).FindStringSubmatch(r.stdout)[1]
	for _, step := range []struct {
		args           string
		status         int
		stdout, stderr string
	}{
		{"cell/a --errors", 0, "", "cell/a has no such spans"},
		{"cell/b --follow", exitError, "", "not_found"},
		{"find " + id, 0, "trace " + id + "\n  cell/a  http POST cell.put  ", ""},
		{"find " + strings.Repeat("1", 32), 0, "", "no actor has"},
		{"sampling", 0, "TYPE        RATE   SHARE  SLOW\nall others  100/s  1      100ms\n", ""},
		{"sampling --type cell --rate 7 --slow 20ms", 0, "all others  100/s  1      100ms\ncell        7/s    1      20ms\n", ""},
		{"sampling --share 0.5", 0, "all others  100/s  0.5    100ms\ncell        7/s    1      20ms\n", ""},
		{"sampling --json", 0, `{"per_second":100,"share":0.5,"slow_ms":100,"types":{"cell":{"per_second":7,"share":1,"slow_ms":20}}}`, ""},
		{"sampling --reset --reason enough", 0, "all others  100/s  1      100ms\n", ""},
		{"sampling --type other --rate 1", exitError, "", "no actor type"},
		{"push cell/a --endpoint http://127.0.0.1:1", exitError, "", "the collector at http://127.0.0.1:1/v1/traces cannot be reached"},
	} {
		at(t, d.url, append([]string{"traces"}, strings.Fields(step.args)...)...).want(t, step.status, step.stdout, step.stderr)
	}
	at(t, d.url, "audit", "--verb", "trace.sample").want(t, 0, " over http: enough\n    input   ", "")
	d.stop(syscall.SIGTERM)

	want, got := make(map[string]bool), make(map[string]bool)
	for _, s := range documents[trace.Span](t, runCommand(t, "", nil, "traces", "cell/a", "--data", dir, "--json").stdout) {
		want[s.SpanID] = s.TraceID != "" && s.End != nil
	}
	errorIf(t, len(want) < 5, "%d spans are stored", len(want))
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		groups, err := traces.ParseJSON(body)
		errorIf(t, err != nil || len(groups) != 1, "%s: %v", body, err)
		for _, s := range groups[0].Spans {
			got[s.SpanID.String()] = true
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	runCommand(t, "", nil, "traces", "push", "cell/a", "--data", dir, "--endpoint", collector.URL).
		want(t, 0, fmt.Sprintf("pushed %d spans of cell/a to %s/v1/traces\n", len(want), collector.URL), "")
	errorIf(t, !maps.Equal(got, want), "the collector has %v, want %v", got, want)
	d = serve(t, dir)
	at(t, d.url, "traces", "push", "cell/a", "--json", "--endpoint", collector.URL, "--errors").want(t, 0, `{"spans":0,"endpoint":"`, "")
}

// A chain of 10,000 calls stays readable, and has no line that is as long as it is deep.
func TestDeepTracesAreIndentedUpToABound(t *testing.T) {
	const depth = 10_000
	spans := make([]trace.Span, depth)
	now := time.Unix(0, 0).UTC()
	for i := range spans {
		spans[i] = trace.Span{TraceID: "7", SpanID: fmt.Sprint(i + 1), ParentID: fmt.Sprint(i), Name: "turn", Start: now, End: &now}
	}
	out := new(strings.Builder)
	must(t, newCLI(strings.NewReader(""), out, io.Discard).printTraces(&trace.ReadOutput{Spans: spans, Now: now}))
	lines := strings.Split(out.String(), "\n")
	deepest := strings.Repeat("  ", maxIndent+1)
	for i, want := range map[int]string{1: "  turn  0s", maxIndent + 1: deepest + "turn  0s",
		maxIndent + 2: deepest + "21: turn  0s", depth: deepest + "9999: turn  0s"} {
		errorIf(t, lines[i] != want, "line %d is %q, want %q", i, lines[i], want)
	}
}

func TestTracesAreFollowedUntilInterrupted(t *testing.T) {
	d := serve(t, t.TempDir())
	put := strings.Fields(`call cell/a put {"key":[1],"value":1}`)
	at(t, d.url, put...)
	for args, want := range map[string]string{"": `\A\S+  [0-9a-f]{32} +\S+  turn put\n`,
		"--json": `\A\{"trace_id":.*"name":"turn put",.*"end":`} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out, errs := &interrupter{cancel: cancel}, new(strings.Builder)
		done := make(chan int, 1)
		go func() {
			words := append(strings.Fields("traces cell/a --follow --url "+d.url+" "+args), "--name", "turn put")
			done <- newCLI(strings.NewReader(""), out, errs).run(ctx, words)
		}()
		status := -1
		for status < 0 { // until the follower has a span
			at(t, d.url, put...)
			select {
			case status = <-done:
			default:
			}
		}
		errorIf(t, status != 0 || errs.Len() > 0 || !regexp.MustCompile(want).MatchString(out.String()),
			"status %d, %q, %q", status, errs, out)
	}
}

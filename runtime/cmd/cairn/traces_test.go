package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/traces"
)

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
	if b.String() != want {
		t.Errorf("the trees are\n%s", b.String())
	}
}

func TestTracesShowWhatAnActorDidAlsoWhenItsNodeIsStopped(t *testing.T) {
	dir := t.TempDir()
	d := serve(t, dir)
	at(t, d.url, "call", "cell/a", "put", `{"key":[1],"value":1}`)
	r := at(t, d.url, "traces", "cell/a")
	tree := regexp.MustCompile(`(?m)\A\S+Z  trace [0-9a-f]{32}\n  http POST cell\.put  \S+\n    call cell\.put  \S+\n` +
		`      mailbox  \S+\n(      .*\n)*      turn put  \S+\n(?:      (?:commit|gate)  \S+\n){2}`)
	if !tree.MatchString(r.stdout) {
		t.Fatalf("the tree is\n%s%s", r.stdout, r.stderr)
	}
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
	for i, want := range map[int]string{1: "  turn  0s", maxIndent + 1: deepest + "turn  0s", maxIndent + 2: deepest + "21: turn  0s", depth: deepest + "9999: turn  0s"} {
		errorIf(t, lines[i] != want, "line %d is %q, want %q", i, lines[i], want)
	}
}

func TestTracesAreFollowedUntilInterrupted(t *testing.T) {
	d := serve(t, t.TempDir())
	put := strings.Fields(`call cell/a put {"key":[1],"value":1}`)
	at(t, d.url, put...)
	for args, want := range map[string]string{"": `\A\S+  [0-9a-f]{32} +\S+  turn put\n`, "--json": `\A\{"trace_id":.*"name":"turn put",.*"end":`} {
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

package main

import (
	"context"
	"encoding/json"
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
	if err := (&cli{stdout: &b}).printTraces(out); err != nil {
		t.Fatal(err)
	}
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
	tree := regexp.MustCompile(`(?m)\A\S+Z  trace [0-9a-f]{32}\n  http POST cell\.put  \S+\n    call cell\.put  \S+\n      mailbox  \S+\n(      .*\n)*      turn put  \S+\n(?:      (?:commit|gate)  \S+\n){2}`)
	if !tree.MatchString(r.stdout) {
		t.Errorf("the tree is\n%s%s", r.stdout, r.stderr)
	}
	if r := at(t, d.url, "traces", "cell/a", "--errors"); r.stdout != "" || !strings.Contains(r.stderr, "cell/a has no such spans") {
		t.Errorf("errors: %q %q", r.stdout, r.stderr)
	}
	if r := at(t, d.url, "traces", "cell/b"); r.status != 1 || !strings.Contains(r.stderr, "not_found") {
		t.Errorf("an actor that is not there: %d %q", r.status, r.stderr)
	}
	id := regexp.MustCompile(`trace ([0-9a-f]{32})`).FindStringSubmatch(r.stdout)[1]
	if r := at(t, d.url, "traces", "find", id); !regexp.MustCompile(`trace ` + id + `\n  cell/a  http POST cell\.put  \S+\n    cell/a  call cell`).MatchString(r.stdout) {
		t.Errorf("the trace is\n%s%s", r.stdout, r.stderr)
	}
	if r := at(t, d.url, "traces", "find", strings.Repeat("1", 32)); r.status != 0 || !strings.Contains(r.stderr, "no actor has") {
		t.Errorf("another trace: %d %q", r.status, r.stderr)
	}
	for _, step := range []struct{ args, want string }{
		{"", "TYPE        RATE   SHARE  SLOW\nall others  100/s  1      100ms\n"},
		{"--type cell --rate 7 --slow 20ms", "TYPE        RATE   SHARE  SLOW\nall others  100/s  1      100ms\ncell        7/s    1      20ms\n"},
		{"--share 0.5", "TYPE        RATE   SHARE  SLOW\nall others  100/s  0.5    100ms\ncell        7/s    1      20ms\n"},
		{"--json", `{"per_second":100,"share":0.5,"slow_ms":100,"types":{"cell":{"per_second":7,"share":1,"slow_ms":20}}}` + "\n"},
		{"--reset", "TYPE        RATE   SHARE  SLOW\nall others  100/s  1      100ms\n"},
	} {
		if r := at(t, d.url, append([]string{"traces", "sampling"}, strings.Fields(step.args)...)...); r.stdout != step.want {
			t.Errorf("cairn traces sampling %s: %q %q", step.args, r.stdout, r.stderr)
		}
	}
	for _, args := range []string{"--reset --rate 1", "--type cell", "--type a/b --rate 1", "x"} {
		if r := at(t, d.url, append([]string{"traces", "sampling"}, strings.Fields(args)...)...); r.status != exitUsage {
			t.Errorf("cairn traces sampling %s: %d %q", args, r.status, r.stderr)
		}
	}
	if r := at(t, d.url, "traces", "sampling", "--type", "other", "--rate", "1"); r.status != exitError || !strings.Contains(r.stderr, `no actor type`) {
		t.Errorf("an unknown type: %d %q", r.status, r.stderr)
	}
	at(t, d.url, "traces", "sampling", "--rate", "9", "--reason", "much to see")
	changes := regexp.MustCompile(`(?s)\A(\S+Z  -  trace\.sample  by 127\.0\.0\.1:\d+ over http\n.*){3}\S+Z  -  trace\.sample  by \S+ over http: much to see\n    input   \{"per_second":9\S+\n    before  \{"per_second":100\S+\n    after   \{"per_second":9\S+\n\z`)
	if r := at(t, d.url, "audit", "--verb", "trace.sample"); !changes.MatchString(r.stdout) {
		t.Errorf("the audit log is\n%s%s", r.stdout, r.stderr)
	}
	for _, args := range []string{"--limit 1", "--since 2027-01-01T00:00:00Z", "--data x"} {
		if r := at(t, d.url, append([]string{"traces", "cell/a", "--follow"}, strings.Fields(args)...)...); r.status != exitUsage {
			t.Errorf("--follow %s: %d %q", args, r.status, r.stderr)
		}
	}
	if r := at(t, d.url, "traces", "cell/b", "--follow"); r.status != exitError || !strings.Contains(r.stderr, "not_found") {
		t.Errorf("following an actor that is not there: %d %q", r.status, r.stderr)
	}
	d.stop(syscall.SIGTERM)
	want := make(map[string]bool)
	for line := range strings.Lines(runCommand(t, "", nil, "traces", "cell/a", "--data", dir, "--json").stdout) {
		var s trace.Span
		if err := json.Unmarshal([]byte(line), &s); err != nil || s.TraceID == "" || s.End == nil {
			t.Errorf("%s: %v", line, err)
		}
		want[s.SpanID] = true
	}
	if len(want) < 5 {
		t.Errorf("%d spans are stored", len(want))
	}
	got := make(map[string]bool)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		groups, err := traces.ParseJSON(body)
		if err != nil || len(groups) != 1 {
			t.Errorf("%s: %v", body, err)
		}
		for _, s := range groups[0].Spans {
			got[s.SpanID.String()] = true
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	if r := runCommand(t, "", nil, "traces", "push", "cell/a", "--data", dir, "--endpoint", collector.URL); r.status != 0 || !maps.Equal(got, want) ||
		r.stdout != fmt.Sprintf("pushed %d spans of cell/a to %s/v1/traces\n", len(got), collector.URL) {
		t.Errorf("%d %q %q; the collector has %d spans", r.status, r.stdout, r.stderr, len(got))
	}
	for args, want := range map[string]string{
		"cell/a":                               "name the collector with --endpoint",
		"cell/b --endpoint " + collector.URL:   "not_found",
		"cell/a --endpoint http://127.0.0.1:1": "the collector at http://127.0.0.1:1/v1/traces cannot be reached",
		"cell/a --since x --endpoint http://a": "want a time such as",
		"cell/a --trace x --endpoint http://a": "trace_id",
		"cell/a --endpoint localhost:4318":     "the endpoint is not the URL of an HTTP server",
	} {
		if r := runCommand(t, "", nil, append(strings.Fields("traces push --data "+dir), strings.Fields(args)...)...); r.status == 0 || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: %d %q", args, r.status, r.stderr)
		}
	}
	d = serve(t, dir)
	if r := at(t, d.url, "traces", "push", "cell/a", "--json", "--endpoint", collector.URL, "--errors"); r.status != 0 || r.stdout != `{"spans":0,"endpoint":"`+collector.URL+`/v1/traces"}`+"\n" {
		t.Errorf("%d %q %q", r.status, r.stdout, r.stderr)
	}
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
	if err := newCLI(strings.NewReader(""), out, io.Discard).printTraces(&trace.ReadOutput{Spans: spans, Now: now}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	deepest := strings.Repeat("  ", maxIndent+1)
	for i, want := range map[int]string{1: "  turn  0s", maxIndent + 1: deepest + "turn  0s", maxIndent + 2: deepest + "21: turn  0s", depth: deepest + "9999: turn  0s"} {
		if lines[i] != want {
			t.Errorf("line %d is %q, want %q", i, lines[i], want)
		}
	}
}

func TestTracesAreFollowedUntilInterrupted(t *testing.T) {
	d := serve(t, t.TempDir())
	put := strings.Fields(`call cell/a put {"key":[1],"value":1}`)
	at(t, d.url, put...)
	for _, args := range []string{"", "--json"} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out, errs := &interrupter{cancel: cancel}, new(strings.Builder)
		c := newCLI(strings.NewReader(""), out, errs)
		done := make(chan int, 1)
		go func() {
			done <- c.run(ctx, append(append(strings.Fields("traces cell/a --follow --name"), "turn put"), append([]string{"--url", d.url}, strings.Fields(args)...)...))
		}()
		status := -1
		for status < 0 { // until the follower has a span
			at(t, d.url, put...)
			select {
			case status = <-done:
			default:
			}
		}
		if args == "" {
			if line := regexp.MustCompile(`\A\S+  [0-9a-f]{32} +\S+  turn put\n`); status != 0 || errs.Len() > 0 || !line.MatchString(out.String()) {
				t.Errorf("status %d, %q, %q", status, errs, out)
			}
			continue
		}
		var span trace.Span
		if err := json.Unmarshal([]byte(out.String()), &span); err != nil || status != 0 || errs.Len() > 0 || span.Name != "turn put" || span.End == nil {
			t.Errorf("status %d, %q, %q", status, errs, out)
		}
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
)

// A result is what a run of the command left behind.
type result struct {
	status         int
	stdout, stderr string
	args           []string
}

// runCommand runs the command in this process.
func runCommand(t *testing.T, stdin string, env map[string]string, args ...string) result {
	t.Helper()
	var stdout, stderr strings.Builder
	c := newCLI(strings.NewReader(stdin), &stdout, &stderr)
	c.getenv = func(name string) string { return env[name] }
	status := c.run(t.Context(), args)
	return result{status, stdout.String(), stderr.String(), args}
}

// newCLI makes a command whose environment is empty.
func newCLI(stdin io.Reader, stdout, stderr io.Writer) *cli {
	return &cli{stdin: stdin, stdout: stdout, stderr: stderr, getenv: func(string) string { return "" }}
}

// at runs the command against the node at url.
func at(t *testing.T, url string, args ...string) result {
	t.Helper()
	return runCommand(t, "", map[string]string{"CAIRN_URL": url}, args...)
}

// want checks the status of a run, and what standard output and standard error have.
func (r result) want(t *testing.T, status int, stdout, stderr string) {
	t.Helper()
	errorIf(t, r.status != status || !strings.Contains(r.stdout, stdout) || !strings.Contains(r.stderr, stderr),
		"%+v, want the status %d with %q and %q", r, status, stdout, stderr)
}

// documents decodes one JSON document a line.
func documents[T any](t *testing.T, text string) []T {
	t.Helper()
	var all []T
	for line := range strings.Lines(text) {
		var v T
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		must(t, d.Decode(&v), line)
		all = append(all, v)
	}
	return all
}

func TestLostConnectionIsNotCalledHarmless(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	// A node that dies with the request in its hands.
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		conn.Read(make([]byte, 1))
		l.Close()
		conn.Close()
	}()
	r := at(t, "http://"+l.Addr().String(), "call", "cell/a", "put", `{"key":[1],"value":1}`, "--attempts=1")
	<-done
	if r.status != 1 || strings.Contains(r.stderr, "nothing was done") || !strings.Contains(r.stderr, "lost") ||
		!strings.Contains(r.stderr, "cairn serve") {
		t.Errorf("%+v", r)
	}
}

// TestFaultsOfTheCommandLineExitWithTwo runs the lines of testdata/usage.txt, each of which is
// wrong.
func TestFaultsOfTheCommandLineExitWithTwo(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("a request: %s", r.URL) }))
	defer server.Close()
	text, err := os.ReadFile("testdata/usage.txt")
	must(t, err)
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		r := at(t, server.URL, strings.Fields(line)...)
		errorIf(t, r.status != exitUsage || r.stdout != "" || !strings.HasPrefix(r.stderr, "error: ") ||
			!strings.Contains(r.stderr, "--help"),
			"%s: %+v", line, r)
		r = at(t, server.URL, append([]string{"--json"}, strings.Fields(line)...)...)
		if r.status != exitUsage || r.stdout != "" ||
			!strings.HasPrefix(r.stderr, `{"error":{"code":"usage","message":"`) || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s: %+v", line, r)
		}
	}
}

// A wrong command line leaves standard input alone, which would be read only to be thrown away.
func TestAWrongCommandLineLeavesStandardInputAlone(t *testing.T) {
	for _, args := range [][]string{{"schedule", "set", "cell/acme", "poll", "--payload=-"}, {"workflow", "import", "cell/%zz", "-"}} {
		var stderr strings.Builder
		in := strings.NewReader("{}")
		c := newCLI(in, &stderr, &stderr)
		status := c.run(t.Context(), args)
		errorIf(t, status != exitUsage || in.Len() != 2,
			"%q: status %d, %d bytes left of standard input: %s", args, status, in.Len(), &stderr)
	}
}

func TestTokenOfTheEnvironmentIsSentAndNotShown(t *testing.T) {
	s := newScene(t)
	s.line("@", []string{"token", "secret"}, "")
	env := map[string]string{"CAIRN_URL": s.server.URL, "CAIRN_TOKEN": "secret"}
	runCommand(t, "", env, "actors").want(t, 0, "", "")
	r := runCommand(t, "", env, "help", "status")
	errorIf(t, strings.Contains(r.stdout, "secret"), "help shows the token")
}

func TestOnlyYesIsConsent(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, "\n": false, "": false, "no\n": false, "yep\n": false} {
		var asked strings.Builder
		c := &cli{stdin: strings.NewReader(answer), stderr: &asked}
		got := c.confirm("Destroy cell/a?")
		errorIf(t, got != want || asked.String() != "Destroy cell/a? [y/N] ", "%q is consent: %v (%q)", answer, got, asked.String())
	}
}

// Lines are sent in requests of up to 1,000, and of fewer if they are long. What went out before a
// wrong line is said.
func TestLinesAreSentInBoundedRequests(t *testing.T) {
	s := newScene(t)
	for _, tc := range []struct {
		args, stdin  string
		status       int
		requests     int
		last, stderr string
	}{
		{"queue send cell/a jobs --lines", strings.Repeat("1\n\n", 2500), 0, 3, "message 2500\n", ""},
		{"queue send cell/a long --lines", strings.Repeat(`"`+strings.Repeat("x", 300<<10)+"\"\n", 3), 0, 3, "message 2503\n", ""},
		{"queue send cell/a jobs --lines --json", strings.Repeat("1\n", 1001) + "{", 1, 1, `{"id":3503}` + "\n",
			`{"error":{"code":"local","message":"line 1002 of standard input is not JSON; 1,000 lines before it went out"}}` + "\n"},
		{"stream append cell/a log --lines --close", strings.Repeat("1\n", 2001), 0, 4, "appended up to 2001, and closed\n", ""},
	} {
		s.node.calls = nil
		r := s.run(strings.Fields(tc.args), tc.stdin)
		errorIf(t, r.status != tc.status || len(s.node.calls) != tc.requests || !strings.HasSuffix(r.stdout, tc.last) ||
			r.stderr != tc.stderr,
			"%s: status %d, %d requests, %.200s", tc.args, r.status, len(s.node.calls), r.stderr)
	}
}

// An interrupter cancels a context when something is written to it.
type interrupter struct {
	strings.Builder
	cancel context.CancelFunc
}

func (i *interrupter) Write(b []byte) (int, error) {
	i.cancel()
	return i.Builder.Write(b)
}

func TestFollowersEndQuietlyWhenInterrupted(t *testing.T) {
	s := newScene(t)
	s.run(strings.Fields(`call cell/a put {"key":[1],"value":1}`), "")
	s.run(strings.Fields("stream append cell/a log 1"), "")
	for args, stderr := range map[string]string{"events cell/a --after=0": "", "stream follow cell/a log": "",
		"connect cell/a --listen --json": ""} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out, errs := &interrupter{cancel: cancel}, new(strings.Builder)
		c := newCLI(strings.NewReader(""), out, errs)
		status := c.run(ctx, append(strings.Fields(args), "--url", s.server.URL))
		errorIf(t, status != 0 || errs.String() != stderr || out.Len() == 0, "%s: status %d, %s, %s", args, status, errs, out)
	}
}

// Standard input that never ends does not keep a connection that the actor has ended.
func TestConnectionEndsWhileStandardInputGoesOn(t *testing.T) {
	s := newScene(t)
	s.run(strings.Fields("create room/a create 1"), "")
	in, _ := io.Pipe()
	var stdout, stderr strings.Builder
	c := newCLI(in, &stdout, &stderr)
	done := make(chan int)
	go func() { done <- c.run(t.Context(), []string{"connect", "room/a", "--url", s.server.URL}) }()
	s.run(strings.Fields("stream follow room/a door --count=1"), "")
	s.run(strings.Fields(`call room/a kick "out"`), "")
	status := <-done
	errorIf(t, status != 1 || !strings.Contains(stderr.String(), "failed_precondition: out"), "status %d, %s", status, &stderr)
}

func TestAnAnswerThatIsNoTableIsRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cairn-Version", "1")
		io.WriteString(w, `{"columns":[{"name":"a"}],"rows":[[1],[1,2]]}`)
	}))
	defer server.Close()
	at(t, server.URL, "sql", "cell/a", "-c", "SELECT 1").want(t, 1, "", "row 2 of the node's answer")
}

// allCommands lists the commands below one, except the ones that cobra makes.
func allCommands(cmd *cobra.Command) (all []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.Name() != "help" && sub.Name() != "completion" {
			all = append(append(all, sub), allCommands(sub)...)
		}
	}
	return all
}

func TestVersionHasAStableShape(t *testing.T) {
	r := runCommand(t, "", nil, "version", "--json")
	v := documents[release](t, r.stdout)
	errorIf(t, r.status != 0 || len(v) != 1 || !strings.HasPrefix(v[0].Go, "go1.") || v[0].StoreFormat == 0, "%+v", r)
	runCommand(t, "", nil, "version").want(t, 0, "store format", "")
}

// TestDashboardOpensABrowser has a script as the browser. An address without a token is its
// argument.
func TestDashboardOpensABrowser(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the browser is a script of a shell")
	}
	dir := t.TempDir()
	browser, seen := filepath.Join(dir, "browser"), filepath.Join(dir, "seen")
	must(t, os.WriteFile(browser, []byte("#!/bin/sh\necho \"$1\" >"+seen+"\n"), 0o700))
	r := runCommand(t, "", map[string]string{"BROWSER": browser}, "dashboard", "cell/acme")
	text, err := os.ReadFile(seen)
	errorIf(t, err != nil || r.status != exitOK ||
		strings.TrimSpace(string(text)) != "http://127.0.0.1:6420/dashboard/#/actor/cell/acme/-/",
		"%+v: the browser got %q, %v", r, text, err)
}

func TestLimitsOfACellAreSetByConfigurationAndByVerb(t *testing.T) {
	dir := t.TempDir()
	file := configFile(t, "[limits.cell]\nstorage_bytes = \"64KiB\"\n")
	d := serve(t, dir, "--config", file)
	put := `call cell/a put {"key":["%s"],"value":"` + strings.Repeat("v", 50_000) + `"}`
	for _, tc := range []struct {
		line           string
		status         int
		stdout, stderr string
	}{
		{fmt.Sprintf(put, "1"), 0, "created", ""},
		{fmt.Sprintf(put, "2"), 1, "", "quota_exceeded"}, // of the configuration
		{"limits set cell/a storage=1MiB", 0, "storage=1MiB\n", ""},
		{fmt.Sprintf(put, "2"), 0, "created", ""},
		{"", 0, "", ""}, // a restart
		{fmt.Sprintf(put, "3"), 0, "created", ""},
		{"status cell/a", 0, "storage=1MiB", ""},
		{"limits reset cell/a", 0, "reset 1 limit\n", ""},
		{fmt.Sprintf(put, "4"), 1, "", "quota_exceeded"},
	} {
		if tc.line == "" {
			d.stop(syscall.SIGTERM)
			d = serve(t, dir, "--config", file)
		} else {
			at(t, d.url, strings.Fields(tc.line)...).want(t, tc.status, tc.stdout, tc.stderr)
		}
	}
}

func TestUsageAndTopShowWhatActorsDid(t *testing.T) {
	if now := time.Now().UTC(); now.Add(5*time.Minute).Day() != now.Day() {
		t.Skip("the day may end before the test does")
	}
	dir := t.TempDir()
	d := serve(t, dir)
	at(t, d.url, "call", "cell/a/1", "put", `{"key":[1],"value":1}`)
	at(t, d.url, "call", "cell/a/1", "put", `{"key":[1],"value":2}`)
	at(t, d.url, "call", "cell/~-", "put", `{"key":[1],"value":1}`)
	want := func(pattern string, args ...string) {
		t.Helper()
		r := at(t, d.url, args...)
		errorIf(t, r.status != 0 || !regexp.MustCompile(pattern).MatchString(r.stdout+r.stderr),
			"cairn %s: %d %s%s", strings.Join(args, " "), r.status, r.stdout, r.stderr)
	}
	want(`\AACTOR.*\ncell/a/1 +2 +3 .*\ncell/~- +1 +2 .*\n\z`, "top", "--by", "turns")
	want(`\A\{"type":"cell","key":\["a","1"\],"calls":2,"turns":3,.*\}\n\z`, "top", "--by", "turns", "--limit", "1", "--json")
	day := regexp.MustCompile(`\d{4}-\d\d-\d\d`).FindString(at(t, d.url, "usage", "cell/a/1").stdout)
	want(`\ADAY +CALLS  TURNS  TIME +WRITTEN  SENT +STORED\n`+day+` +2 +3 +\S+[mµn]?s +\d+ B +\d+ B +\d+ B\n\z`, "usage", "cell/a/1")
	want(`\AACTOR +CALLS .*\ncell/~- +1 .*\ncell/a/1 +2 .*\n\z`, "usage")
	want(`\Aday,actor,calls,turns,handler_us,bytes_written,bytes_sent,bytes_stored\r\n`+day+
		`,cell/~-,1,2,\d+,\d+,\d+,\d+\r\n`+day+`,cell/a/1,2,3,.*\r\n\z`,
		"usage", "cell", "--csv", "--limit", "0")
	want(`\Aday,actor,calls,turns,handler_us,bytes_written,bytes_sent,bytes_stored\r\n\z`, "usage", "cell", "--prefix", "x", "--csv")
	want(`\A\{"day":"`+day+`","type":"cell","key":\["a","1"\],"calls":2,.*\}\n\z`, "usage", "cell", "--prefix", "a", "--day", day, "--json")
	want(`there are more`, "usage", "--limit", "1")
	want(`\Ano such actors`, "usage", "cell", "--prefix", "x")
	want(`did not exist then`, "usage", "cell/a/1", "--day", "2001-01-01")
	at(t, d.url, "usage", "cell/b").want(t, exitError, "", "not_found")
	d.stop(syscall.SIGTERM)
	for _, args := range []string{"usage --day x", "usage --limit -1", "usage --prefix a", "usage cell/a --prefix b",
		"usage --csv --json", "usage 7", "top --limit 0", "top x"} {
		at(t, d.url, strings.Fields(args)...).want(t, exitUsage, "", "")
	}
}

// The scenarios of testdata/scripts/call.txt have addresses that are read and written.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{
		"cell/a%2Fb/~", "cell/~~x/-", "cell", "cell/%", "cell/日本", "cell/~-/~./~..", "", "/", "Order-2_b/%C3%BC%20x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseAddress(text)
		if err != nil {
			return
		}
		again, err := parseAddress(formatAddress(a.Type, a.Key))
		if err != nil || again.Type != a.Type || !slices.Equal(again.Key, a.Key) {
			t.Fatalf("%q is %q, which is written %s and read as %q, %v", text, a, formatAddress(a.Type, a.Key), again, err)
		}
	})
}

func TestValueIsShownInItsReadableForm(t *testing.T) {
	d, err := newDescriber()
	must(t, err)
	const kv, state, event = "\x04\x02a\x00", "\x01", "\x16\x00\x00\x00\x00\x00\x00\x00\x01"
	for _, test := range []struct {
		key, value string
		whole      bool
		want       string
	}{
		{kv, `{"n": 9007199254740993, "s": "<x>"}`, true, `{"n":9007199254740993,"s":"<x>"}`},
		{kv, "\xa1\x61n\x07", true, `{"n": 7}`},
		{kv, "\xc2\x49\x01\x00\x00\x00\x00\x00\x00\x00\x00", true, "18446744073709551616"},
		{kv, "\xa1\x61n", true, "0xa1616e"},
		{kv, "hello", true, `"hello"`},
		{kv, "\x65hello", true, `"hello"`},
		{kv, `{"cut":"of`, false, `"{\"cut\":\"of"`},
		{kv, "sch\xc3", false, `"sch\xc3"`},
		{kv, "\x00\xff", true, "0x00ff"},
		{kv, "7", true, "7"},
		{state, "\x00\xa1\x61n\x07", true, `v0 {"n": 7}`},
		{state, "\x81\x02\xa0", true, `v257 {}`},
		{event, "\x01\x83\x63put\x07\x42{}", true, `v1 ["put", 7, '{}']`},
		{event, "\x01\x83\x63put", false, "0x0183637075" + "74"},
		{event, "\x00\x00\x00\x00\x00\x00\x00\x05", true, "0x0000000000000005"},
		{"", "x", true, `"x"`},
	} {
		got := d.describe([]byte(test.key), []byte(test.value), test.whole)
		errorIf(t, got != test.want, "describe(%q) = %s, want %s", test.value, got, test.want)
	}
}

func FuzzPreviewFitsOneLine(f *testing.F) {
	f.Add([]byte("\x01"), []byte("\x00\xa1\x61n\x07"), true)
	f.Add([]byte("\x04\x02a\x00"), []byte(`{"a":"\u001b[31m"}`), true)
	f.Add([]byte("\x16"), []byte("\x9b\xff\xff\xff\xff\xff\xff\xff\xff"), false)
	d, err := newDescriber()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, key, value []byte, whole bool) {
		k := host.StoredKey{Key: key, Value: value, Size: len(value)}
		if !whole {
			k.Size++
		}
		line := d.preview(&k, 40)
		fatalIf(t, utf8.RuneCountInString(line) > 40, "%q is longer than 40 characters", line)
		for _, r := range line {
			fatalIf(t, !unicode.IsPrint(r), "%q has the character %U", line, r)
		}
	})
}

func TestADamagedRecordIsNamed(t *testing.T) {
	r := audit.Record{ID: 7, Time: time.Unix(1, 0).UTC(), Type: "cell", Key: []string{"a"}, Damaged: true}
	for asJSON, want := range map[bool]string{
		false: "1970-01-01T00:00:01Z  cell/a  record 7 is damaged and cannot be read\n",
		true:  `{"id":7,"time":"1970-01-01T00:00:01Z","type":"cell","key":["a"],"damaged":true,"verb":"","channel":""}` + "\n",
	} {
		var out bytes.Buffer
		c := cli{stdout: &out, json: asJSON}
		if err := c.printRecord(&r); err != nil || out.String() != want {
			t.Errorf("%q, %v", out.String(), err)
		}
	}
}

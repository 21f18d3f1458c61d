package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
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
	if r.status != 1 || strings.Contains(r.stderr, "nothing was done") || !strings.Contains(r.stderr, "lost") || !strings.Contains(r.stderr, "cairn serve") {
		t.Errorf("%+v", r)
	}
}

// TestFaultsOfTheCommandLineExitWithTwo runs the lines of testdata/usage.txt, each of which is wrong.
func TestFaultsOfTheCommandLineExitWithTwo(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("a request: %s", r.URL) }))
	defer server.Close()
	text, err := os.ReadFile("testdata/usage.txt")
	must(t, err)
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		r := at(t, server.URL, strings.Fields(line)...)
		errorIf(t, r.status != exitUsage || r.stdout != "" || !strings.HasPrefix(r.stderr, "error: ") || !strings.Contains(r.stderr, "--help"),
			"%s: %+v", line, r)
		r = at(t, server.URL, append([]string{"--json"}, strings.Fields(line)...)...)
		if r.status != exitUsage || r.stdout != "" || !strings.HasPrefix(r.stderr, `{"error":{"code":"usage","message":"`) || strings.Count(r.stderr, "\n") != 1 {
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
		if status := c.run(t.Context(), args); status != exitUsage || in.Len() != 2 {
			t.Errorf("%q: status %d, %d bytes left of standard input: %s", args, status, in.Len(), &stderr)
		}
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
		if got := c.confirm("Destroy cell/a?"); got != want || asked.String() != "Destroy cell/a? [y/N] " {
			t.Errorf("%q is consent: %v (%q)", answer, got, asked.String())
		}
	}
}

// Lines are sent in requests of up to 1,000, and of fewer if they are long. What went out before a wrong line is said.
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
		if r.status != tc.status || len(s.node.calls) != tc.requests || !strings.HasSuffix(r.stdout, tc.last) || r.stderr != tc.stderr {
			t.Errorf("%s: status %d, %d requests, %.200s", tc.args, r.status, len(s.node.calls), r.stderr)
		}
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
	for args, stderr := range map[string]string{"events cell/a --after=0": "", "stream follow cell/a log": "", "connect cell/a --listen --json": ""} {
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

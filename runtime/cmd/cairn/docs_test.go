package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

var update = flag.Bool("update", false, "write what the commands print and the node exports into the pages")

const (
	docsDir     = "../../../docs"
	cliPage     = docsDir + "/cli.md"
	metricsPage = docsDir + "/operate/monitor.md"
)

// readPage reads a page of the documentation.
func readPage(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	return string(text)
}

// masks hide what differs from run to run: times, ids, sizes, random keys, addresses and the blanks
// that align columns.
var masks = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`), "ID"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`\b[0-9a-f]{16,}\b`), "HEX"}, // before what a few of them look like, too
	{regexp.MustCompile(`\b[A-Z2-7]{26}…?`), "RANDOM"},
	{regexp.MustCompile(`\bcairn_[a-z2-7]{48}\b`), "TOKEN"},
	{regexp.MustCompile(`\b[a-z2-7]{16}\b`), "RANDOM"},
	{regexp.MustCompile(`\b[\w-]{9}AA[A-Z]\b`), "RECEIPT"},
	{regexp.MustCompile(`\b(0s|\d+(\.\d+)?(ms|µs))\b|("seconds":)[\d.]+`), "${4}DURATION"},
	{regexp.MustCompile(`0x[0-9a-f]+…?`), "HEX"},
	{regexp.MustCompile(`\b\d+(\.\d)? ([KMG]i)?B\b`), "SIZE"},
	// what removes a branch and builds an index commits in between, sooner or later
	{regexp.MustCompile(`(notes/i~1: version) \d+`), "$1 N"},
	{regexp.MustCompile(`("bytes":) ?\d+`), "$1 SIZE"},
	{regexp.MustCompile(`\b1\d{12}\b`), "MILLISECONDS"},
	{regexp.MustCompile(`\d+ bytes|\b(entries|bytes) +\d+`), "${1}COUNT"},
	{regexp.MustCompile(`(?m)^usage/.*\n`), ""}, // which a node writes after a minute, so after slow commands only
	{regexp.MustCompile(` {2,}`), " "},
	{regexp.MustCompile(` +\n`), "\n"},
}

func mask(s string) string {
	for _, m := range masks {
		s = m.pattern.ReplaceAllString(s, m.with)
	}
	return s
}

// plainCommand is a command line that needs no shell, and plainWord a word of it.
var (
	plainCommand = regexp.MustCompile("^cairn((?: (?:'[^']*'|[^\\s'\"|<>&;$`*?\\\\(){}#]+))*)$")
	plainWord    = regexp.MustCompile(`'[^']*'|[^\s']+`)
)

// kept returns what stands below a command: want, unless got differs by more than what changes from
// run to run.
func kept(t *testing.T, command, got, want string) string {
	t.Helper()
	if mask(got) == mask(want) {
		return want
	}
	errorIf(t, !*update,
		"%sprints\n%sand not\n%s(after changes that are meant: go test ./runtime/cmd/cairn -run 'Page|Scripts' -update)", command, got, want)
	return got
}

func TestPageShowsWhatTheCommandsPrint(t *testing.T) {
	// No actor goes to sleep, and no span is stored, however slow the machine is.
	d := serve(t, t.TempDir(), "--config", configFile(t, "[actors]\nidle_timeout = \"1h\"\n[traces]\noff = true\n"))
	file, err := filepath.Abs(cliPage)
	must(t, err)
	lines := strings.SplitAfter(readPage(t, file), "\n")
	t.Chdir(t.TempDir())
	env := append(os.Environ(), "CAIRN_URL="+d.url, "NO_COLOR=1", "PATH="+filepath.Dir(executable)+":"+os.Getenv("PATH"))
	env = slices.DeleteFunc(env, func(s string) bool { return strings.HasPrefix(s, "CAIRN_TOKEN=") })
	// The exit status is not checked: the page shows errors too.
	run := func(command string) string {
		var out bytes.Buffer
		if args := plainCommand.FindStringSubmatch(command); args != nil { // no process of its own, which costs more than the command
			words := plainWord.FindAllString(args[1], -1)
			for i, w := range words {
				words[i] = strings.Trim(w, "'")
			}
			c := newCLI(strings.NewReader(""), &out, &out)
			c.getenv = func(name string) string { return map[string]string{"CAIRN_URL": d.url, "NO_COLOR": "1"}[name] }
			c.run(t.Context(), words)
		} else {
			cmd := exec.Command("sh", "-c", command)
			cmd.Env, cmd.Stdout, cmd.Stderr = env, &out, &out
			_ = cmd.Run()
		}
		if got := out.String(); got == "" || strings.HasSuffix(got, "\n") {
			return got
		}
		return out.String() + "\n"
	}
	now, console, commands := "", false, 0
	for i := 0; i < len(lines); {
		line := lines[i]
		now += line
		i++
		command, ok := strings.CutPrefix(line, "$ ")
		if strings.HasPrefix(line, "```") {
			console = line == "```console\n"
		}
		if !console || !ok {
			continue
		}
		want := ""
		for ; !strings.HasPrefix(lines[i], "$ ") && lines[i] != "```\n"; i++ {
			want += lines[i]
		}
		now += kept(t, line, run(strings.TrimSuffix(command, "\n")), want)
		commands++
	}
	fatalIf(t, commands < 10, "%d commands", commands)
	if *update {
		must(t, os.WriteFile(file, []byte(now), 0o644))
	}
}

func TestPageDescribesEveryCommandAndFlag(t *testing.T) {
	page := readPage(t, cliPage)
	root := newCLI(nil, nil, nil).root()
	documented, known := make(map[string]bool), map[string]bool{"--help": true}
	for _, m := range regexp.MustCompile("--[a-z][a-z-]*").FindAllString(page, -1) {
		documented[m] = true
	}
	add := func(f *pflag.Flag) { known["--"+f.Name] = true }
	root.PersistentFlags().VisitAll(add)
	for _, cmd := range allCommands(root) {
		want := cmd.CommandPath()
		if cmd.Parent() == root {
			want = "\n## " + want + "\n"
		}
		errorIf(t, !strings.Contains(page, want), "%q is not on the page", want)
		cmd.LocalNonPersistentFlags().VisitAll(add)
	}
	for name := range known {
		errorIf(t, !documented[name] && name != "--help", "%s is not on the page", name)
	}
	for name := range documented {
		errorIf(t, !known[name], "the page speaks of %s, which no command has", name)
	}
}

// TestMetricsPageListsWhatTheNodeExports compares the table in docs/operate/monitor.md with
// /metrics of a node.
func TestMetricsPageListsWhatTheNodeExports(t *testing.T) {
	d := serve(t, t.TempDir(), "--nats-listen", "127.0.0.1:0")
	at(t, d.url, "call", "cell/a", "put", `{"key":[1],"value":1}`)
	at(t, d.url, "call", "cell/a", "get", `{"key":[1]}`)
	response, err := http.Get(d.url + "/metrics")
	must(t, err)
	defer response.Body.Close()
	metrics, err := io.ReadAll(response.Body)
	must(t, err)
	const header = "| metric | kind | meaning |\n|---|---|---|\n"
	table := header
	for _, m := range regexp.MustCompile(`(?m)^# HELP (cairn_[a-z_]+) (.*)\n# TYPE \S+ (\S+)$`).FindAllStringSubmatch(string(metrics), -1) {
		table += fmt.Sprintf("| `%s` | %s | %s |\n", m[1], m[3], m[2])
	}
	page := readPage(t, metricsPage)
	before, rest, ok := strings.Cut(page, header)
	fatalIf(t, !ok, "the page has no table of metrics")
	listed, after, _ := strings.Cut(rest, "\n\n")
	if *update {
		must(t, os.WriteFile(metricsPage, []byte(before+table+"\n"+after), 0o644))
	} else if got := header + listed + "\n"; got != table {
		for line := range strings.Lines(table + got) {
			errorIf(t, strings.Contains(table, line) != strings.Contains(got, line),
				"exported and not on the page, or on the page and not exported: %s", line)
		}
		t.Error("to write the page: go test ./runtime/cmd/cairn -run Page -update")
	}
	for _, m := range regexp.MustCompile("cairn_[a-z_]+").FindAllString(before, -1) {
		errorIf(t, !strings.Contains(table, "`"+m+"`"), "the page alarms on %s, which the node does not export", m)
	}
}

func TestConfigurationOnThePageIsAccepted(t *testing.T) {
	page := readPage(t, docsDir+"/operate/configure.md")
	_, rest, _ := strings.Cut(page, "```toml\n")
	config, _, ok := strings.Cut(rest, "```")
	fatalIf(t, !ok, "the page shows no configuration")
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	must(t, os.WriteFile(token, []byte("secret\n"), 0o600))
	config = strings.NewReplacer("/etc/cairn/token", token, "127.0.0.1:4222", "127.0.0.1:0", "127.0.0.1:6060",
		"127.0.0.1:0").Replace(config)
	d := serve(t, filepath.Join(dir, "data"), "--config", configFile(t, config))
	at(t, d.url, "actors").want(t, 1, "", "unauthenticated")
	at(t, d.url, "actors", "--token=secret").want(t, 0, "", "")
}

var must, check, fatalIf, errorIf = testutil.Must, testutil.Check, testutil.FatalIf, testutil.ErrorIf

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }

// same makes the test fail unless got is want. where says of what.
func same[T comparable](t testing.TB, got, want T, where ...any) {
	if got != want {
		t.Helper()
		t.Error(append(where, fmt.Sprintf("got %v, want %v", got, want))...)
	}
}

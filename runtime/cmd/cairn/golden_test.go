package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// golden compares text with a file of testdata, which -update writes.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	wants := strings.Split(string(want), "\n")
	for i, line := range strings.Split(text, "\n") {
		fatalIf(t, i >= len(wants) || line != wants[i],
			"line %d of %s is %q (after changes that are meant: go test ./runtime/cmd/cairn -run Golden -update)", i+1, file, line)
	}
	fatalIf(t, text != string(want), "%s goes on", file)
}

// TestGoldenHelp holds the usage and the flags of all commands. The texts are those of help.md.
func TestGoldenHelp(t *testing.T) {
	c := &cli{getenv: func(string) string { return "" }}
	root := c.root()
	var b strings.Builder
	shown, flagName := map[string]bool{}, regexp.MustCompile(`--[a-z-]+`)
	for _, cmd := range append([]*cobra.Command{root}, allCommands(root)...) {
		section := "## " + cmd.CommandPath() + "\n\n" + cmd.Short + "\n\n" + cmd.Long + "\n"
		if cmd.Example != "" {
			section += strings.ReplaceAll("\n"+cmd.Example+"\n", "\n  ", "\n    ")
		}
		var out strings.Builder
		cmd.SetOut(&out)
		if err := cmd.Help(); err != nil || !strings.Contains(out.String(), cmd.Long) ||
			!strings.Contains(out.String(), cmd.Example) || !strings.Contains(helpPage, section) {
			t.Errorf("the help of %s is not that of help.md: %v", cmd.CommandPath(), err)
		}
		if cmd != root && (cmd.Name() != "version" && cmd.Example == "" || cmd.Name() != "serve" && !strings.Contains(cmd.Long, "--json")) {
			t.Errorf("%s is not documented", cmd.CommandPath())
		}
		if longest := slices.MaxFunc(strings.Split(cmd.Long, "\n"), shorter); len(longest) > 120 {
			t.Errorf("%s: a line of the help is too long for a terminal: %s", cmd.CommandPath(), longest)
		}
		text := strings.Replace(strings.Replace(out.String(), cmd.Long, "", 1), cmd.Example, "", 1)
		text, _, _ = strings.Cut(text, "\nGlobal Flags:") // those of the root
		mark, again := "=== ", ""
		for line := range strings.Lines(text) {
			switch flag := strings.Join(strings.Fields(line), " "); {
			case slices.Contains([]string{"", "Usage:", "Examples:", "Flags:", "Available Commands:"}, flag) ||
				strings.HasPrefix(line, "Use "):
			case mark != "":
				b.WriteString(mark + flag + "\n")
				mark = ""
			case flag[0] == '-' && shown[flag]: // of a command above
				again += " " + flagName.FindString(flag)
			default:
				b.WriteString(line)
				shown[flag] = true
			}
		}
		if again != "" {
			b.WriteString("  as above:" + again + "\n")
		}
	}
	golden(t, "help.txt", b.String())
}

func shorter(a, b string) int { return len(a) - len(b) }

func TestGoldenCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		runCommand(t, "", nil, "completion", shell).want(t, 0, "cairn", "")
	}
	s := newScene(t)
	for _, args := range []string{"create cell/acme", "queue send cell/acme jobs 1", "stream append cell/acme log 1",
		"schedule set cell/acme nightly --cron=@daily"} {
		r := s.run(strings.Fields(args), "")
		fatalIf(t, r.status != 0, "%s: %+v", args, r)
	}
	c := &cli{getenv: func(string) string { return "" }}
	var b strings.Builder
	for _, cmd := range allCommands(c.root()) {
		path := strings.Fields(cmd.CommandPath())[1:]
		for _, args := range [][]string{{"cell/ac"}, {"cell/acme", ""}, {"cell/acme", "x", ""}} {
			r := s.run(append(append([]string{"__complete"}, path...), args...), "")
			usual := ":4\n" // no names, and no files
			if len(args) == 1 {
				usual = "cell/acme\n:4\n"
			}
			if r.stdout != usual {
				fmt.Fprintf(&b, "%s %q: %s\n", cmd.CommandPath(), args, strings.Join(strings.Fields(r.stdout), " "))
			}
		}
	}
	golden(t, "completion.txt", b.String())
}

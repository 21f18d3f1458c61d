package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime"
)

// The commands under Workflows in docs/http.md run against a node with this example.
func TestCommandsOfTheHTTPPageWork(t *testing.T) {
	page, err := os.ReadFile("../../http.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)\n## Workflows\n.*?\n```sh\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/http.md has no commands under Workflows")
	}
	commands := strings.Split(strings.TrimSpace(string(block[1])), "\n")
	if len(commands) != 2 {
		t.Fatalf("%d commands", len(commands))
	}
	rt, err := runtime.Open(t.Context(), runtime.Options{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Actors: []actor.Definition{office{day: 24 * time.Hour}.definition()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	_, listens, _ := net.SplitHostPort(runtime.DefaultListen)
	curl := func(command string, out any) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", strings.ReplaceAll(command, "localhost:"+listens, rt.Addr()))
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		got, err := cmd.Output()
		if err != nil || json.Unmarshal(got, out) != nil {
			t.Fatalf("%s: %v\n%s%s", command, err, got, &stderr)
		}
	}
	var started host.RunStarted
	if curl(commands[0], &started); !started.Started {
		t.Errorf("%+v", started)
	}
	// Otherwise the second would wait for as long as it says.
	if _, err := Decide.Call(t.Context(), Requests.Ref(rt, "9"), Verdict{By: "ann", Yes: true}); err != nil {
		t.Fatal(err)
	}
	var result host.WorkflowResultOutput
	if curl(commands[1], &result); !result.Done || result.State != "completed" || result.Run != started.Run {
		t.Errorf("%+v, want the result of %s", result, started.Run)
	}
}

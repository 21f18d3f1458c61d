package cell_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/cell"
)

var update = flag.Bool("update", false, "write what the scenarios of testdata print")

// TestScenarios plays the files of testdata. A scenario is the life of one cell, in virtual time
// that begins with the year 2000. It has requests and other commands after "> ", and below each its
// output. `go test -run Scenarios ./runtime/cell -update` writes the results anew.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	must(t, err)
	for _, file := range files {
		playFile(t, file)
	}
}

func playFile(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	must(t, err)
	now := ""
	for i, part := range strings.SplitAfter(string(text), "\n\n") {
		name, body, _ := strings.Cut(part, "\n")
		played := part // of a scenario that -run excludes, and of the head
		if i > 0 {
			t.Run(strings.TrimPrefix(name, "=== "), func(t *testing.T) {
				actortest.Run(t, func(t *testing.T, h *actortest.Harness) { played = name + "\n" + play(t, h, body) }, cell.Definition())
			})
		}
		now += played
	}
	switch {
	case now == string(text):
	case *update:
		must(t, os.WriteFile(file, []byte(now), 0o644))
	default:
		t.Error("to write the results anew: go test -run Scenarios ./runtime/cell -update")
	}
}

// play runs the commands of a scenario, and returns them with their results.
func play(t *testing.T, h *actortest.Harness, body string) string {
	now, receipt, cursor, digest := "", "", "", ""
	lines := strings.Split(body, "\n")
	for i := 0; i < len(lines); {
		line := lines[i]
		now += line + "\n"
		i++
		command, ok := strings.CutPrefix(line, "> ")
		if !ok {
			continue
		}
		want := ""
		for ; i < len(lines) && lines[i] != "" && !strings.HasPrefix(lines[i], "> ") && !strings.HasPrefix(lines[i], "#"); i++ {
			want += lines[i] + "\n"
		}
		got := do(t, h, strings.NewReplacer("$RECEIPT", receipt, "$CURSOR", cursor, "$DIGEST", digest).Replace(command))
		errorIf(t, got != want, "%s\n prints %s and not %s", command, got, want)
		if found := regexp.MustCompile(`"receipt":"([^"]+)"`).FindStringSubmatch(got); found != nil {
			receipt = found[1]
		}
		if found := regexp.MustCompile(`"cursor":"([^"]+)"`).FindStringSubmatch(got); found != nil {
			cursor = found[1]
		}
		if found := regexp.MustCompile(`"digest":"([^"]+)"`).FindStringSubmatch(got); found != nil {
			digest = found[1]
		}
		now += got
	}
	return strings.TrimSuffix(now, "\n")
}

var large = regexp.MustCompile(`\$(long|vast|state|event|deep|nested|checks|deletes)(\d*)`)

var uuid7 = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

var traceparent = regexp.MustCompile(`"traceparent":"[^"]+",`)

var life = regexp.MustCompile(`"life":"[^"]+"`)

// do runs a command and returns its output. In requests, "$long" and similar names stand for large
// inputs.
func do(t *testing.T, h *actortest.Harness, command string) string {
	method, input, _ := strings.Cut(command, " ")
	switch method {
	case "crash":
		h.Crash()
		return ""
	case "advance":
		d, err := time.ParseDuration(input)
		must(t, err)
		time.Sleep(d)
		return ""
	case "events":
		all := ""
		for _, e := range h.Events("cell", "c") {
			all += fmt.Sprintf("%s %.200s\n", e.Name, e.Data)
		}
		return all
	case "version":
		return fmt.Sprintln(h.Status("cell", "c").Version)
	}
	input = large.ReplaceAllStringFunc(input, func(s string) string {
		m := large.FindStringSubmatch(s)
		n, _ := strconv.Atoi(m[2])
		switch m[1] {
		case "long":
			return strings.Repeat("k", 5000)
		case "vast":
			return strings.Repeat("v", 1_100_000)
		case "deletes":
			return strings.TrimSuffix(strings.Repeat(`{"op":"delete","key":["n"]},`, n), ",")
		case "state":
			return strings.Repeat("x", cell.MaxState)
		case "event":
			return strings.Repeat("v", cell.MaxEventValue)
		case "deep":
			return strings.Repeat("[", n) + strings.Repeat("]", n)
		case "nested":
			return strings.Repeat(`\x81`, n)
		}
		return strings.TrimSuffix(strings.Repeat(`{"key":["n"],"version":0},`, n), ",")
	})
	request := host.Request{Address: host.Address{Type: "cell", Key: []string{"c"}}, Method: method, Codec: host.JSON, Input: []byte(input)}
	if method == "cbor" { // a call in CBOR, whose input is quoted as in Go
		request.Method, input, _ = strings.Cut(input, " ")
		input, err := strconv.Unquote(input)
		must(t, err)
		request.Codec, request.Input = host.CBOR, []byte(input)
	}
	r, err := h.Call(t.Context(), &request)
	e, ok := errors.AsType[*host.Error](err)
	switch {
	case ok && e.Code == host.TooLarge && e.Metadata["field"] != "" && (e.Metadata["limit"] == "" || e.Metadata["actual"] == ""):
		return fmt.Sprintf("%.250v lacks its limit: %v\n", err, e.Metadata)
	case ok:
		return fmt.Sprintf("%.250v [%s]\n", err, e.Metadata["field"])
	case err != nil:
		t.Fatal(err)
	case method == "cbor":
		return "done\n"
	}
	out := uuid7.ReplaceAllString(traceparent.ReplaceAllString(string(r.Output), ""), "UUID")
	return life.ReplaceAllString(fmt.Sprintf("%.400s\n", out), `"life":"..."`)
}

package guides_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/cell"
)

var commandLines = regexp.MustCompile(`(?m)^curl --json '(.*)' \$url$`)

// The commands of the guide give the answers of the guide, and a transaction works as it says.
func TestStrata(t *testing.T) {
	rt, send := cells(t)
	var answers []string
	for _, script := range blocks(t, "strata.md", "sh") {
		for _, line := range commandLines.FindAllStringSubmatch(script, -1) {
			answers = append(answers, send("POST", "strata/execute", line[1]))
		}
	}
	want := append(strings.Split(strings.TrimSpace(blocks(t, "strata.md", "json")[0]), "\n"),
		`{"Session":"s1"}`, `{"Version":null}`, `{"Maybe":{"String":"Grace"}}`, `{"Version":4}`)
	if got := strings.Join(answers, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("%s\nnot\n%s", got, strings.Join(want, "\n"))
	}
	ctx := t.Context()
	e, found, err := cell.Type.Ref(rt, "demo").KV().Get(ctx, kv.Key{"default", "user:1"})
	if err != nil || !found || e.Version != 4 {
		t.Error(e, found, err)
	}
}

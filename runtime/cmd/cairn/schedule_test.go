package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

func TestSchedules(t *testing.T) {
	n := newFakeNode()
	set := func(r host.Request) (any, error) {
		var s host.Schedule
		err := json.Unmarshal(r.Input, &s)
		s.Next = &epoch
		return s, err
	}
	n.respond(map[string]any{
		host.ScheduleSet: set, host.ScheduleTrigger: set, host.ScheduleCancel: host.CountOutput{Count: 1},
		host.ScheduleList: host.ScheduleListOutput{Schedules: []host.Schedule{
			{Name: "nightly", Cron: "0 3 * * *", Zone: "Europe/Zurich", Next: &epoch, Runs: 1200, LastResult: "ok"},
			{Name: "poll", Instance: "a b", Every: 90_000, Next: &epoch, Attempts: 2, Skipped: 7, LastResult: "error", LastError: "refused\nby peer"},
			{Name: "renew", At: &epoch},
		}},
		host.ScheduleRuns: host.ScheduleRunsOutput{Runs: []host.ScheduleRun{
			{Run: 2, Due: epoch, Started: epoch, Finished: epoch.Add(1500 * time.Millisecond), Result: "error", Error: "no", Attempt: 3, Missed: 4},
			{Run: 1, Due: epoch, Started: epoch, Finished: epoch.Add(20 * time.Millisecond), Result: "ok", Attempt: 1},
		}},
	})
	url := n.serve(t, "")
	same(t, at(t, url, "schedule", "set", "cell/acme", "nightly", "--cron", "0 3 * * *", "--zone=Europe/Zurich"), 0, ""+
		"SCHEDULE  RULE                        NEXT                  RUNS  SKIPPED  LAST\n"+
		"nightly   0 3 * * * in Europe/Zurich  2026-11-21T12:00:00Z  0     0        -\n", "")
	at(t, url, "schedule", "set", "cell/acme", "poll", "--every=90s", "--instance=a b", "--missed=all", "--catch-up=10", "--keep-runs=-1", "--payload", `{"p":1}`)
	at(t, url, "schedule", "set", "cell/acme", "renew", "--at=2027-01-01T00:00:00Z")
	at(t, url, "schedule", "trigger", "cell/acme", "poll", "--instance=a b")
	if got := append(n.asked(host.ScheduleSet), n.asked(host.ScheduleTrigger)...); !slices.Equal(got, []string{
		`cell/acme {"name":"nightly","cron":"0 3 * * *","zone":"Europe/Zurich","payload":null}`,
		`cell/acme {"name":"poll","instance":"a b","every_ms":90000,"missed":"all","catch_up":10,"keep_runs":-1,"payload":{"p":1}}`,
		`cell/acme {"name":"renew","at":"2027-01-01T00:00:00Z","payload":null}`,
		`cell/acme {"name":"poll","instance":"a b"}`,
	}) && !slices.Equal(got, []string{
		`cell/acme {"name":"nightly","cron":"0 3 * * *","zone":"Europe/Zurich"}`,
		`cell/acme {"name":"poll","instance":"a b","every_ms":90000,"missed":"all","catch_up":10,"keep_runs":-1,"payload":{"p":1}}`,
		`cell/acme {"name":"renew","at":"2027-01-01T00:00:00Z"}`,
		`cell/acme {"name":"poll","instance":"a b"}`,
	}) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	same(t, at(t, url, "schedule", "list", "cell/acme"), 0, ""+
		"SCHEDULE   RULE                        NEXT                  RUNS   SKIPPED  LAST\n"+
		"nightly    0 3 * * * in Europe/Zurich  2026-11-21T12:00:00Z  1,200  0        ok\n"+
		"poll(a b)  every 1m30s                 2026-11-21T12:00:00Z  0      7        error after 2 attempts: refused\\nby peer\n"+
		"renew      at 2026-11-21T12:00:00Z     -                     0      0        -\n", "")
	if all := documents[host.Schedule](t, at(t, url, "schedule", "list", "cell/acme", "nightly", "--json").stdout); len(all) != 3 || all[0].Runs != 1200 {
		t.Errorf("%+v", all)
	}
	if got := n.asked(host.ScheduleList)[1]; got != `cell/acme {"name":"nightly"}` {
		t.Error(got)
	}
	same(t, at(t, url, "schedule", "runs", "cell/acme", "poll", "--instance=a b"), 0, ""+
		"RUN  DUE                   STARTED               TOOK  ATTEMPT  MISSED  RESULT  ERROR\n"+
		"2    2026-11-21T12:00:00Z  2026-11-21T12:00:00Z  1.5s  3        4       error   no\n"+
		"1    2026-11-21T12:00:00Z  2026-11-21T12:00:00Z  20ms  1        0       ok      -\n", "")
	same(t, at(t, url, "schedule", "cancel", "cell/acme", "renew"), 0, "canceled renew of cell/acme\n", "")
	n.respond(map[string]any{host.ScheduleCancel: host.CountOutput{}, host.ScheduleList: host.ScheduleListOutput{}, host.ScheduleRuns: host.ScheduleRunsOutput{}})
	same(t, at(t, url, "schedule", "cancel", "cell/acme", "renew", "--instance=x"), 1, "",
		"error: not_found: cell/acme has no schedule renew(x)\n  see docs/errors/not_found.md\n")
	same(t, at(t, url, "schedule", "list", "cell/acme"), 0, "", "no schedules\n")
	same(t, at(t, url, "schedule", "runs", "cell/acme", "poll"), 0, "", "no runs\n")
}

// TestAWrongCommandLineLeavesStandardInputAlone gives commands an input that would be read only to be thrown away.
func TestAWrongCommandLineLeavesStandardInputAlone(t *testing.T) {
	for _, args := range [][]string{
		{"schedule", "set", "cell/acme", "poll", "--payload=-"},
		{"workflow", "import", "cell/%zz", "-"},
	} {
		var stderr strings.Builder
		in := strings.NewReader("{}")
		c := &cli{stdin: in, stdout: &stderr, stderr: &stderr, getenv: func(string) string { return "" }}
		if status := c.run(t.Context(), args); status != exitUsage || in.Len() != 2 {
			t.Errorf("%q: status %d, %d bytes left of standard input: %s", args, status, in.Len(), &stderr)
		}
	}
}

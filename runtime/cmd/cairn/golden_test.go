package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// golden compares text with a file of testdata, which -update writes.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wants := strings.Split(string(want), "\n")
	for i, line := range strings.Split(text, "\n") {
		if i >= len(wants) || line != wants[i] {
			t.Fatalf("line %d of %s is %q (after changes that are meant: go test ./runtime/cmd/cairn -run Golden -update)", i+1, file, line)
		}
	}
	if text != string(want) {
		t.Fatalf("%s goes on", file)
	}
}

func TestGoldenHelp(t *testing.T) {
	c := &cli{getenv: func(string) string { return "" }}
	root := c.root()
	var b strings.Builder
	for _, cmd := range append([]*cobra.Command{root}, allCommands(root)...) {
		var out strings.Builder
		cmd.SetOut(&out)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "=== %s --help\n%s", cmd.CommandPath(), &out)
	}
	golden(t, "help.txt", b.String())
}

// goldenAnswers are what the node of TestGoldenCommands answers.
func goldenAnswers() map[string]any {
	later := epoch.Add(90 * time.Minute)
	listed := func(id uint64) host.ListedMessage {
		return host.ListedMessage{ID: id, Queue: "jobs", Body: host.Raw(`{"n": 1}`), State: "delayed", Priority: 3, Attempts: 2, Sent: epoch, Due: &later, Died: &later, Error: "no\nway"}
	}
	schedule := host.Schedule{Name: "nightly", Instance: "a", Cron: "0 3 * * *", Zone: "UTC", Next: &later, Runs: 7, Attempts: 2, Skipped: 1, LastResult: "error", LastError: "no\nway"}
	stream := host.StreamInfo{Stream: "log", First: 1, Last: 1700, Bytes: 4096, Closed: true, Updated: epoch}
	pages := 0
	page := func() bool { pages++; return pages%2 == 1 }
	return map[string]any{
		host.QueueStatsMethod: host.QueueStatsOutput{Queues: []host.QueueStats{{Queue: "jobs", Pending: 1200, Bytes: 4096, Oldest: &epoch}, {Queue: "mail"}}},
		host.QueueSend:        host.QueueSendOutput{Messages: []host.Sent{{ID: 17, Duplicate: true}}},
		host.QueuePeek: func(host.Request) (any, error) {
			return host.QueueListOutput{Messages: []host.ListedMessage{listed(1)}, More: page()}, nil
		},
		host.QueueDeadList: func(host.Request) (any, error) {
			return host.QueueListOutput{Messages: []host.ListedMessage{listed(2)}, More: page()}, nil
		},
		host.QueueReceive: host.QueueReceiveOutput{Messages: []host.ReceivedMessage{
			{ID: 17, Queue: "jobs", Body: host.Raw(`{"n": 1}`), Attempt: 2, Sent: epoch, Receipt: "17-a", LockedUntil: later}}},
		host.QueueAck: host.QueueSettleOutput{Settled: 2}, host.QueueNack: host.QueueSettleOutput{Settled: 1, Lost: []string{"b"}},
		host.QueueDelete: host.CountOutput{Count: 1}, host.QueueDeadRequeue: host.CountOutput{Count: 2}, host.QueueDeadDelete: host.CountOutput{Count: 1200},
		host.QueuePurge: func(host.Request) (any, error) { return host.CountOutput{Count: 1000, More: page()}, nil },
		host.QueueSkip:  host.CountOutput{Count: 1}, host.SendSkip: host.CountOutput{},
		host.SendDeadList: func(host.Request) (any, error) {
			return host.SendListOutput{More: page(), Messages: []host.DeadMessage{{ID: 5242880, Type: "ledger", Key: []string{"a/b"}, Method: "book",
				Input: host.Raw(`{"cents":700}`), Attempts: 16, Sent: epoch, Died: later, Code: host.FailedPrecondition, Error: "closed"}}}, nil
		},
		host.SendDeadRequeue: host.CountOutput{Count: 1}, host.SendDeadDelete: host.CountOutput{Count: 1},
		host.ScheduleSet: schedule, host.ScheduleTrigger: schedule, host.ScheduleCancel: host.CountOutput{Count: 1},
		host.ScheduleList: host.ScheduleListOutput{Schedules: []host.Schedule{schedule, {Name: "poll", Every: 3_600_000}}},
		host.ScheduleRuns: host.ScheduleRunsOutput{Runs: []host.ScheduleRun{{Run: 2, Due: epoch, Started: epoch, Finished: later, Result: "ok", Attempt: 1, Missed: 3}}},
		host.StreamClose:  stream, host.StreamList: host.StreamListOutput{Streams: []host.StreamInfo{stream, {Stream: "x", Updated: epoch}}},
		host.StreamAppend: host.StreamAppendOutput{Last: 3},
		host.ConnectionList: func(host.Request) (any, error) {
			return host.ConnectionListOutput{More: page(), Connections: []host.ConnectionInfo{{ID: "3f9a2c", Events: []string{"a", "b"}, Transport: "sse", Connected: epoch}}}, nil
		},
		host.ConnectionClose: host.CountOutput{Count: 1},
		host.ActorWhy:        host.Explanation{Why: host.WhyQueue, Text: "It waits.", Since: &epoch, Remedy: "requeue", Details: map[string]string{"queue": "jobs"}},
		host.ActorPause:      host.Pause{Since: epoch}, host.ActorResume: host.CountOutput{}, host.ActorRetry: host.CountOutput{Count: 1},
		host.LimitsSet: host.ActorLimits{StorageBytes: new(int64(2 << 30))}, host.LimitsReset: host.CountOutput{Count: 2},
		host.SQLStatus:      host.SQLStatusOutput{Exists: true, Bytes: 12288, Sequence: 1700, Migrations: 2, Pending: []string{"3_<index>"}},
		host.WorkflowStatus: wfhost.RunStatus{ID: "r1", Workflow: "order", State: wfhost.StatePaused, Started: epoch, Entries: 3, Bytes: 4096},
		host.WorkflowHistory: func(host.Request) (any, error) {
			return host.WorkflowHistoryOutput{More: page(), Entries: []wfhost.HistoryEntry{{ID: "1503", Path: "pay", Ended: epoch, Attempts: 2}}}, nil
		},
		host.WorkflowWatch:  host.WorkflowWatchOutput{Version: 3, Status: wfhost.RunStatus{Workflow: "order", State: wfhost.StateCompleted}, Changed: []wfhost.HistoryEntry{{ID: "1", Path: "pay"}}},
		host.WorkflowExport: host.WorkflowRecording{Recording: []byte("recorded\n")},
		host.WorkflowImport: host.RunStarted{Run: "r2", Started: true},
	}
}

// goldenCommands are command lines whose output and requests are compared. Of each, --json and an actor that does not
// exist are tried too.
const goldenCommands = `queue stats cell/acme
queue stats cell/acme jobs
queue send cell/acme jobs 1 --delay=1m --ttl=2s --priority=-3 --dedup-id=x --idempotency-key=k
queue peek cell/acme jobs
queue peek cell/acme jobs 1 2 --limit=1 --after=7
queue peek cell/acme jobs --limit=0
queue dead list cell/acme jobs --limit=1
queue receive cell/acme jobs --limit=3 --lock=1m --wait=90s
queue ack cell/acme jobs a b
queue ack cell/acme jobs a --reply={"ok":true}
queue nack cell/acme jobs a b --delay=0s --error=full --dead
queue delete cell/acme jobs 17
queue delete cell/acme jobs --all --yes
queue purge cell/acme jobs -y
queue dead requeue cell/acme jobs --all
queue dead requeue cell/acme jobs 17
queue dead delete cell/acme jobs 17 18
schedule set cell/acme nightly --cron=@daily --zone=UTC --missed=all --catch-up=3 --keep-runs=-1
schedule set cell/acme poll --every=30s --payload={"p":1} --instance=a
schedule set cell/acme renew --at=2027-01-01T00:00:00Z
schedule list cell/acme
schedule list cell/acme nightly
schedule runs cell/acme nightly --instance=a
schedule cancel cell/acme nightly --instance=a
schedule trigger cell/acme nightly
stream append cell/acme log 1 2 --close
stream close cell/acme log
stream list cell/acme
stream list cell/acme log
send dead list cell/acme
send dead list cell/acme 1 2 --limit=1 --after=3
send dead requeue cell/acme --all
send dead delete cell/acme 1 2
connections list cell/acme
connections close cell/acme 3f9a2c --reason=bye
why cell/acme
skip cell/acme --queue=jobs
skip cell/acme --to=room/lobby
pause cell/acme --reason=x
pause --type=cell --prefix=acme --yes --concurrency=1
resume cell/acme
wake cell/acme
sleep --state=awake --dry-run
retry cell/acme
destroy cell/zoo --yes
limits set cell/acme storage=2GiB call_rate=1.5
limits reset cell/acme
limits reset cell/acme storage mailbox
sql status cell/acme
status cell/acme/eu
inspect cell/acme --limit=2
actors cell
workflow list --type=cell
workflow list --counts
workflow status cell/acme
workflow history cell/acme --under=7
workflow watch cell/acme --after=1
workflow export cell/acme
workflow import cell/acme - --up-to=7 --replace
workflow fork cell/acme cell/acme/eu --up-to=7
workflow cancel cell/acme --reason=x
workflow resume cell/acme
workflow retry cell/acme 1503
workflow rewind cell/acme 1503
workflow pause --type=cell --yes --concurrency=1
workflow terminate --paused-for=operator --dry-run
events cell/acme --after=2 --count=1
call cell/acme put {"n":1}
create cell/none
version extra
queue stats
queue stats cell/acme a b
queue stats a//b
queue peek cell/acme
queue peek cell/acme jobs x
queue peek cell/acme jobs --limit=-1
queue receive cell/acme jobs --limit=1001
queue receive cell/acme jobs --lock=-1s
queue receive cell/acme jobs --wait=1us
queue ack cell/acme jobs
queue ack cell/acme jobs a --reply={
queue nack cell/acme jobs a --delay=1us
queue delete cell/acme jobs
queue delete cell/acme jobs --all
queue purge cell/acme jobs
queue dead delete cell/acme jobs --all
queue dead
schedule set cell/acme s
schedule set cell/acme s --every=1s --zone=UTC
schedule set cell/acme s --every=1us
schedule set cell/acme s --at=tomorrow
schedule set cell/acme s --every=1s --payload={
schedule runs cell/acme
schedule list cell/acme a b
stream close cell/acme
send dead list cell/acme x
send dead list cell/acme --limit=-1
send dead requeue cell/acme
send dead delete cell/acme --all
connections close cell/acme
why
skip cell/acme
limits set cell/acme
limits set cell/acme disk=1
limits reset cell/acme disk
limits
workflow status
workflow retry cell/acme
workflow cancel
workflow cancel cell/acme --type=cell
workflow pause --type=cell
workflow pause --data=/nowhere
workflow list --state=fine
workflow fork cell/acme //
workflow verify
pause
pause cell/acme cell/zoo
wake cell/acme --concurrency=0`

func TestGoldenCommands(t *testing.T) {
	var b strings.Builder
	run := func(line string) {
		n := newFakeNode()
		n.runs = []host.ListedRun{{Type: "cell", Key: []string{"acme"}, Run: "r1", Workflow: "order", State: wfhost.StatePaused, Reason: "operator", Since: epoch}}
		n.respond(goldenAnswers())
		url := n.serve(t, "")
		r := runCommand(t, "recorded", map[string]string{"CAIRN_URL": url}, append([]string{"--attempts=1"}, strings.Fields(line)...)...)
		fmt.Fprintf(&b, "=== cairn %s\n%s", line, r.stdout)
		if r.stderr != "" {
			fmt.Fprintf(&b, "--- standard error\n%s", r.stderr)
		}
		if r.status != 0 {
			fmt.Fprintf(&b, "--- exit status %d\n", r.status)
		}
		for _, call := range n.calls {
			fmt.Fprintf(&b, "--- called %s of %s, existing %t, key %q: %s\n", call.Method, formatAddress(call.Type, call.Key), call.Existing, call.IdempotencyKey, call.Input)
		}
		for _, q := range n.runQueries {
			fmt.Fprintf(&b, "--- asked for runs %+v\n", q)
		}
	}
	for line := range strings.SplitSeq(goldenCommands, "\n") {
		run(line)
		run(line + " --json")
		if strings.Contains(line, "cell/acme") {
			run(strings.Replace(line, "cell/acme", "cell/none", 1))
		}
	}
	golden(t, "commands.txt", b.String())
}

func TestGoldenCompletion(t *testing.T) {
	n := newFakeNode()
	n.respond(goldenAnswers())
	url := n.serve(t, "")
	c := &cli{getenv: func(string) string { return "" }}
	var b strings.Builder
	for _, cmd := range allCommands(c.root()) {
		path := strings.Fields(cmd.CommandPath())[1:]
		for _, args := range [][]string{{"cell/ac"}, {"cell/acme", ""}, {"cell/acme", "x", ""}} {
			r := at(t, url, append(append([]string{"__complete"}, path...), args...)...)
			fmt.Fprintf(&b, "=== %s %q\n%s", cmd.CommandPath(), args, r.stdout)
		}
	}
	golden(t, "completion.txt", b.String())
}

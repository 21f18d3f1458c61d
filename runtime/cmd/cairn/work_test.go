//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

// A workQueue is a queue on a fake node, with locks that end only when a test says so.
type workQueue struct {
	mu       sync.Mutex
	waiting  []host.ReceivedMessage
	acked    []uint64
	nacked   map[uint64]string // the errors
	replies  map[uint64]string
	extended int
	lost     bool // all receipts
	fail     []error
}

func newWorkQueue(n *fakeNode, bodies ...string) *workQueue {
	q := &workQueue{nacked: make(map[uint64]string), replies: make(map[uint64]string)}
	for i, b := range bodies {
		id := uint64(i + 1)
		q.waiting = append(q.waiting, host.ReceivedMessage{ID: id, Queue: "mail", Body: host.Raw(b), Attempt: 2, Sent: epoch, Receipt: fmt.Sprintf("r%d", id)})
	}
	n.respond(map[string]any{host.QueueReceive: q.receive, host.QueueAck: q.ack, host.QueueNack: q.nack, host.QueueExtend: q.extend})
	// A worker that waits for a message waits until it goes.
	n.wait = func(ctx context.Context, r host.Request) {
		q.mu.Lock()
		empty := len(q.waiting) == 0 && len(q.fail) == 0
		q.mu.Unlock()
		if r.Method == host.QueueReceive && empty && strings.Contains(string(r.Input), "wait_ms") {
			<-ctx.Done()
		}
	}
	return q
}

func (q *workQueue) receive(host.Request) (any, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.fail) > 0 {
		err := q.fail[0]
		q.fail = q.fail[1:]
		return nil, err
	}
	out := host.QueueReceiveOutput{Messages: []host.ReceivedMessage{}}
	if len(q.waiting) > 0 {
		out.Messages, q.waiting = append(out.Messages, q.waiting[0]), q.waiting[1:]
	}
	return out, nil
}

func (q *workQueue) ack(r host.Request) (any, error) {
	var in host.QueueAckInput
	err := json.Unmarshal(r.Input, &in)
	return q.settle(in.Receipts, func(id uint64) {
		q.acked = append(q.acked, id)
		q.replies[id] = string(in.Reply)
	}), err
}

func (q *workQueue) nack(r host.Request) (any, error) {
	var in host.QueueNackInput
	err := json.Unmarshal(r.Input, &in)
	return q.settle(in.Receipts, func(id uint64) { q.nacked[id] = in.Error }), err
}

func (q *workQueue) settle(receipts []string, f func(id uint64)) host.QueueSettleOutput {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lost {
		return host.QueueSettleOutput{Lost: receipts}
	}
	for _, r := range receipts {
		var id uint64
		fmt.Sscanf(r, "r%d", &id)
		f(id)
	}
	return host.QueueSettleOutput{Settled: len(receipts)}
}

func (q *workQueue) extend(r host.Request) (any, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.extended++
	if q.lost {
		return host.QueueExtendOutput{Lost: []string{"r1"}}, nil
	}
	return host.QueueExtendOutput{LockedUntil: epoch}, nil // the clock of the node is not ours
}

func TestWorkRunsACommandForEachMessage(t *testing.T) {
	n := newFakeNode()
	q := newWorkQueue(n, `{"to":"ada"}`, `{"to":"bob"}`, `{"to":"fail"}`, `{"to":"quiet"}`)
	url := n.serve(t, "")
	r := at(t, url, "queue", "work", "cell/acme", "mail", "--drain", "--", "sh", "-c",
		`body=$(cat); case $body in *fail*) echo "no such mailbox" >&2; exit 3;; *quiet*) exit 4;; esac
		 echo "$CAIRN_ACTOR $CAIRN_QUEUE $CAIRN_MESSAGE_ID $CAIRN_ATTEMPT $body"`)
	same(t, r, 0, "cell/acme mail 1 2 {\"to\":\"ada\"}\ncell/acme mail 2 2 {\"to\":\"bob\"}\n",
		"no such mailbox\nmessage 3, attempt 2: exit status 3: no such mailbox\nmessage 4, attempt 2: exit status 4\n2 messages done, 2 failed\n")
	if !slices.Equal(q.acked, []uint64{1, 2}) || q.nacked[3] != "exit status 3: no such mailbox" || q.nacked[4] != "exit status 4" {
		t.Errorf("acknowledged %v, gave back %v", q.acked, q.nacked)
	}
}

func TestWorkAnswersWithWhatTheCommandPrints(t *testing.T) {
	n := newFakeNode()
	q := newWorkQueue(n, `1`, `2`, `3`)
	url := n.serve(t, "")
	r := at(t, url, "queue", "work", "cell/acme", "mail", "--drain", "--reply", "--json", "--", "sh", "-c",
		`case $CAIRN_MESSAGE_ID in 2) echo this is no JSON;; 3) head -c 2000000 /dev/zero;; *) echo '{"price": 7}';; esac`)
	type line struct {
		ID      uint64
		Attempt int
		Done    bool
		Seconds float64
		Error   string
	}
	lines := documents[line](t, r.stdout)
	if r.status != 0 || len(lines) != 3 || !lines[0].Done || lines[1].Done || !strings.Contains(lines[1].Error, "not JSON") || !strings.Contains(lines[2].Error, "more than 1.0 MiB") {
		t.Errorf("%+v", r)
	}
	if q.replies[1] != `{"price":7}` || len(q.nacked) != 2 {
		t.Errorf("%v %v", q.replies, q.nacked)
	}
}

func TestWorkKeepsTheEndOfWhatACommandSays(t *testing.T) {
	n := newFakeNode()
	q := newWorkQueue(n, `1`)
	url := n.serve(t, "")
	at(t, url, "queue", "work", "cell/acme", "mail", "--drain", "--", "sh", "-c", `i=0; while [ $i -lt 2000 ]; do echo "line ü $i" >&2; i=$((i+1)); done; exit 1`)
	if got := q.nacked[1]; len(got) > 1024 || !strings.HasSuffix(got, "line ü 1999") || !strings.HasPrefix(got, "exit status 1: ") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

func TestWorkExtendsTheLockAndStopsWhenItIsLost(t *testing.T) {
	n := newFakeNode()
	q := newWorkQueue(n, `1`)
	url := n.serve(t, "")
	release := filepath.Join(t.TempDir(), "go")
	n.wait = func(_ context.Context, r host.Request) {
		if r.Method == host.QueueExtend {
			q.mu.Lock()
			enough := q.extended >= 2
			q.mu.Unlock()
			if enough {
				os.WriteFile(release, nil, 0o600)
			}
		}
	}
	r := at(t, url, "queue", "work", "cell/acme", "mail", "--drain", "--lock=1s", "--", "sh", "-c", `while [ ! -e "$0" ]; do sleep 0.02; done`, release)
	if r.status != 0 || q.extended < 2 || !slices.Equal(q.acked, []uint64{1}) {
		t.Errorf("%+v, extended %d times, acknowledged %v", r, q.extended, q.acked)
	}

	n = newFakeNode()
	q = newWorkQueue(n, `1`)
	q.lost = true
	url = n.serve(t, "")
	same(t, at(t, url, "queue", "work", "cell/acme", "mail", "--drain", "--lock=1s", "--", "sh", "-c", `sleep 600 & wait`), 1, "",
		"message 1, attempt 2: the lock was lost: another worker may handle the message too\n0 messages done, 1 failed\n"+
			"error: no message was done: 1 attempt failed\n")
	if len(q.acked)+len(q.nacked) > 0 {
		t.Error("a message of another worker was settled")
	}
}

func TestWorkWaitsForANodeThatIsAway(t *testing.T) {
	n := newFakeNode()
	q := newWorkQueue(n, `1`)
	q.fail = []error{host.Errorf(host.Unavailable, "starting").Retry(), host.Errorf(host.ActorPaused, "ticket 7").Retry()}
	url := n.serve(t, "")
	same(t, at(t, url, "queue", "work", "cell/acme", "mail", "--drain", "--attempts=1", "--", "true"), 0, "",
		"unavailable: starting; trying again\n1 message done, 0 failed\n")
	q.fail = []error{host.Errorf(host.PermissionDenied, "not you")}
	r := at(t, url, "queue", "work", "cell/acme", "mail", "--", "true")
	if r.status != 1 || !strings.Contains(r.stderr, "error: permission_denied: not you\n") {
		t.Errorf("%+v", r)
	}
}

// TestWorkDrainsWhenInterrupted runs the command as a process, with commands of its own, and interrupts it.
func TestWorkDrainsWhenInterrupted(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		n := newFakeNode()
		q := newWorkQueue(n, `1`, `2`)
		url := n.serve(t, "")
		dir := t.TempDir()
		release := filepath.Join(dir, "go")
		work := exec.Command(executable, "queue", "work", "cell/acme", "mail", "--workers=3", "--url", url, "--",
			"sh", "-c", `echo started; while [ ! -e "$0" ]; do sleep 0.02; done`, release)
		work.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		stdout, err := work.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		work.Stderr = &stderr
		if err := work.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stdout)
		for range 2 {
			if !lines.Scan() {
				t.Fatal(lines.Err())
			}
		}
		// As a terminal does it: to the whole process group.
		if err := syscall.Kill(-work.Process.Pid, signal); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(release, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			t.Errorf("more output: %s", lines.Text())
		}
		if err := work.Wait(); err != nil {
			t.Errorf("%v: %v %s", signal, err, &stderr)
		}
		q.mu.Lock()
		slices.Sort(q.acked)
		if !slices.Equal(q.acked, []uint64{1, 2}) || stderr.String() != "2 messages done, 0 failed\n" {
			t.Errorf("acknowledged %v, gave back %v, %s", q.acked, q.nacked, &stderr)
		}
		q.mu.Unlock()
	}
}

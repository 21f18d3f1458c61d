package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/docs/examples/jobs/post"
	"github.com/cairn-run/cairn/runtime/client"
)

// `make chaos` sets these.
var (
	binary    = flag.String("binary", "", "run this `program` instead of the one inside the test binary")
	killCount = flag.Int("kills", 12, "how many processes are killed")
	letters   = flag.Int("letters", 250, "how many letters each sender sends")
)

// asProgram in the environment makes the test binary run as the program itself.
const asProgram = "JOBS_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// A process is one role of the play, which is killed and started again.
type process struct {
	name string
	args func(said []string) []string // given what it has said in all its lives

	mu     sync.Mutex
	said   []string
	cmd    *exec.Cmd
	stderr bytes.Buffer
	killed bool
	done   chan struct{} // closed when it ended by itself, successfully
	failed error
	lives  sync.WaitGroup
}

// live starts the process, and again whenever it was killed.
func (p *process) live(ctx context.Context) {
	p.done = make(chan struct{})
	p.lives.Go(func() {
		for ctx.Err() == nil {
			again, err := p.life(ctx)
			if again {
				continue
			}
			if err != nil && ctx.Err() == nil {
				p.mu.Lock()
				p.failed = fmt.Errorf("%s: %w\n%s", p.name, err, p.stderr.String())
				p.mu.Unlock()
			}
			close(p.done)
			return
		}
	})
}

// life is one life of the process; again says that it was killed.
func (p *process) life(ctx context.Context) (again bool, err error) {
	program, env := *binary, os.Environ()
	if program == "" {
		program, env = os.Args[0], append(env, asProgram+"=1")
	}
	p.mu.Lock()
	cmd := exec.CommandContext(ctx, program, p.args(p.said)...)
	p.mu.Unlock()
	cmd.Env, cmd.Stderr = env, &p.stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	p.mu.Lock()
	p.cmd, p.killed = cmd, false
	p.mu.Unlock()
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // a line that was cut short was never said
		}
		p.mu.Lock()
		p.said = append(p.said, strings.TrimSuffix(line, "\n"))
		p.mu.Unlock()
	}
	io.Copy(io.Discard, out)
	err = cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd = nil
	return p.killed, err
}

// kill ends the process as a power cut would, if it lives.
func (p *process) kill() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.killed {
		return false
	}
	p.killed = true
	return p.cmd.Process.Kill() == nil
}

func (p *process) lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.said)
}

func (p *process) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// last returns the number that the last line begins with.
func last(said []string) int {
	if len(said) == 0 {
		return 0
	}
	first, _, _ := strings.Cut(said[len(said)-1], " ")
	n, _ := strconv.Atoi(first)
	return n
}

func TestEveryMessageIsAccountedForWhoeverIsKilled(t *testing.T) {
	dir, address := t.TempDir(), reserve(t)
	url := "http://" + address
	ctx, cancel := context.WithCancel(context.Background())
	node := &process{name: "node", args: func([]string) []string {
		return []string{"node", "--listen", address, "--data", filepath.Join(dir, "data")}
	}}
	var senders, workers []*process
	for _, prefix := range []string{"a", "b"} {
		senders = append(senders, &process{name: "sender " + prefix, args: func(said []string) []string {
			next := last(said) + 1
			return []string{"send", "--node", url, "--prefix", prefix, "--from", strconv.Itoa(next), "--count", strconv.Itoa(*letters + 1 - next)}
		}})
		workers = append(workers, &process{name: "worker " + prefix, args: func([]string) []string {
			return []string{"work", "--node", url, "--out", filepath.Join(dir, prefix+".txt")}
		}})
	}
	reader := &process{name: "reader", args: func(said []string) []string {
		return []string{"follow", "--node", url, "--after", strconv.Itoa(last(said))}
	}}
	all := slices.Concat([]*process{node, reader}, senders, workers)
	for _, p := range all {
		p.live(ctx)
	}
	defer func() {
		cancel()
		for _, p := range all {
			p.lives.Wait()
		}
	}()

	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for kills := 0; kills < *killCount; {
		wait(t, all, time.Duration(50+random.IntN(250))*time.Millisecond)
		victim := all[random.IntN(len(all))]
		if random.IntN(3) == 0 {
			victim = node
		}
		if victim.kill() {
			kills++
		}
	}
	for _, s := range senders {
		select {
		case <-s.done:
		case <-time.After(5 * time.Minute):
			t.Fatalf("%s does not come to an end; it has sent %d of %d letters", s.name, last(s.lines()), *letters)
		}
		if err := s.err(); err != nil {
			t.Fatal(err)
		}
	}
	account(t, url, dir, senders, reader, all)
}

// wait lets time pass, unless a process fails.
func wait(t *testing.T, all []*process, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	<-timer.C
	for _, p := range all {
		if err := p.err(); err != nil {
			t.Fatal(err)
		}
	}
}

// account waits until nothing is under way and finds every letter.
func account(t *testing.T, url, dir string, senders []*process, reader *process, all []*process) {
	t.Helper()
	remote, err := client.New(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer remote.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	office := post.Offices.Ref(remote, "zurich")
	total := int64(len(senders) * *letters)
	var carried, audit handle.QueueStats
	for {
		err := patiently(ctx, func() (err error) {
			if carried, err = post.Letters.Of(office).Stats(ctx); err == nil {
				audit, err = post.Audit.Of(office).Stats(ctx)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if carried.Pending+carried.Delayed+carried.Processing+audit.Pending+audit.Delayed == 0 && int64(last(reader.lines())) == total {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("not everything comes to an end: letters %+v, audit %+v, the reader is at %d of %d", carried, audit, last(reader.lines()), total)
		}
		wait(t, all, 50*time.Millisecond)
	}

	// Carriers may carry a letter twice, but none is lost.
	fate := make(map[string]int)
	for _, name := range []string{"a.txt", "b.txt"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for id := range strings.FieldsSeq(string(text)) {
			fate[id]++
		}
	}
	dead := int64(0)
	for l, err := range post.Letters.Of(office).DeadLetters().List(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if l.Error == "" || l.Attempts == 0 {
			t.Errorf("dead letter %s does not say why: %+v", l.Body.ID, l)
		}
		fate[l.Body.ID]++
		dead++
	}
	for _, prefix := range []string{"a", "b"} {
		for i := 1; i <= *letters; i++ {
			if id := prefix + "-" + strconv.Itoa(i); fate[id] == 0 {
				t.Errorf("letter %s was accepted and is lost", id)
			}
		}
	}
	if int64(len(fate)) != total {
		t.Errorf("%d letters came to an end, %d were sent", len(fate), total)
	}
	if carried.Sent != uint64(total) || carried.Dead != dead || carried.Done+uint64(dead) != carried.Sent {
		t.Errorf("the queue counts %+v; %d letters are dead", carried, dead)
	}

	// What the actor does itself is done once for each letter, in one order for every reader.
	o, err := post.Totals.Call(ctx, office, actor.None{})
	if err != nil {
		t.Fatal(err)
	}
	if o.Accepted != total || o.Audited != total {
		t.Errorf("accepted %d and audited %d of %d letters", o.Accepted, o.Audited, total)
	}
	seen := make(map[string]bool)
	for i, line := range reader.lines() {
		sequence, id, _ := strings.Cut(line, " ")
		if sequence != strconv.Itoa(i+1) || seen[id] {
			t.Fatalf("line %d of the reader is %q; it must have each item once, in order", i+1, line)
		}
		seen[id] = true
	}
	t.Logf("%d letters: %d carried, %d dead", total, carried.Done, dead)
}

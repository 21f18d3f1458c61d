package node

import (
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/part/admin"
	"github.com/cairn-run/cairn/runtime/internal/part/mail"
	"github.com/cairn-run/cairn/runtime/internal/part/queue"
	"github.com/cairn-run/cairn/runtime/internal/part/run"
	"github.com/cairn-run/cairn/runtime/internal/part/task"
	"github.com/cairn-run/cairn/runtime/internal/survey"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// explained checks an explanation: its answer, its text, the remedy, and the details that it must
// have.
func explained(t *testing.T, x host.Explanation, why host.Why, text, remedy string, details ...string) {
	t.Helper()
	errorIf(t, x.Why != why || !strings.Contains(x.Text, text) || x.Remedy != remedy,
		"it waits for %q (%s; remedy %q), and not for %q (%s; remedy %q)", x.Why, x.Text, x.Remedy, why, text, remedy)
	errorIf(t, !strings.HasSuffix(x.Text, "."), "%q is no sentence", x.Text)
	for i := 0; i < len(details); i += 2 {
		if got := x.Details[details[i]]; got != details[i+1] {
			t.Errorf("detail %s is %q, not %q", details[i], got, details[i+1])
		}
	}
	errorIf(t, x.Status.Type == "" || x.Status.State == "", "it has no status")
}

func TestWhyOfAnActorWhoseGoroutineIsOnItsWayOut(t *testing.T) {
	var log changeLog
	bubble(t, func(o *Options) { o.Changes = &log }, nil, func(t *testing.T, g *stage) {
		asked := 0
		log.slept = func() {
			asked++
			x := g.whyOf("a")
			explained(t, x, host.WhyCalls, "until it is called", "")
			errorIf(t, x.Status.State != host.Asleep, "it is %s", x.Status.State)
		}
		g.must("a", add(1))
		g.mustVerb("a", host.ActorSleep, nil, nil)
		errorIf(t, asked != 1, "it was asked %d times", asked)
	})
}

func TestWhyOfAnActorThatIsBeingRead(t *testing.T) {
	var hold atomic.Pointer[chan struct{}]
	behind := func(o *Options) {
		b := o.Behaviors[0]
		newInstance := b.New
		b.New = func() host.Instance {
			if c := hold.Load(); c != nil {
				<-*c
			}
			return newInstance()
		}
	}
	bubble(t, behind, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		g.mustVerb("a", host.ActorSleep, nil, nil)
		for _, key := range []string{"a", "new"} {
			c, done := make(chan struct{}), make(chan error, 1)
			letGo := sync.OnceFunc(func() { close(c) })
			defer letGo()
			hold.Store(&c)
			go func() { done <- g.do(key, add(1)) }()
			synctest.Wait()
			explained(t, g.whyOf(key), host.WhyMailbox, "loading from the store for a call", "")
			letGo()
			must(t, <-done)
			hold.Store(nil)
			explained(t, g.whyOf(key), host.WhyCalls, "", "")
		}
	})
}

func TestWhyOfAPublisherThatIsBehind(t *testing.T) {
	var log changeLog
	types := []*puppetType{{name: "p", events: []host.Event{{Name: "billed", Durable: true}}}, {name: "q"}}
	bubble(t, func(o *Options) { o.Changes = &log }, types, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		q := host.Address{Type: "q", Key: []string{"a"}}
		must(t, g.doAt(q, add(1)))
		explained(t, g.whyOf("a"), host.WhyCalls, "", "")
		log.refuse.Store(host.Errorf(host.Overloaded, "the outbox is full").Retry())
		explained(t, g.whyOf("a"), host.WhyPublisher, "the outbox is full", "", "reason", "the outbox is full")
	})
}

func TestWhyOfAnActorAboutToRun(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		synctest.Wait() // the worker has left the actor, and sees nothing new
		// A call that stands in the mailbox while no turn runs: the actor is being loaded, or about
		// to be.
		a := g.Find(pAddr("a"))
		a.Mu.Lock()
		a.Mailbox.Put(new(kernel.Work), 0)
		a.Mailbox.Put(new(kernel.Work), 0)
		a.Mu.Unlock()
		explained(t, g.whyOf("a"), host.WhyMailbox, "2 calls wait", "", "calls", "2")
		a.Mu.Lock()
		a.Mailbox.Drain()
		a.Mu.Unlock()
	})
}

// unreadable is a part whose rows cannot be read.
type unreadable struct{}

func (unreadable) Name() string { return "unreadable" }

func (unreadable) Explain(*survey.Inquiry, *engine.Snapshot) error { return io.ErrUnexpectedEOF }

func TestWhyOfMessagesInQueues(t *testing.T) {
	d := &puppetType{name: "p", outside: true, queues: []host.Queue{
		{Name: "jobs", Handler: "puppet.job"}, {Name: "mail"}, {Name: host.AnyName, Handler: "puppet.any"},
	}}
	bubble(t, nil, []*puppetType{d}, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		old := time.Now().Add(-time.Minute).UTC()
		with := func(stats ...host.QueueStats) host.Explanation {
			q := g.inquire()
			queue.ExplainQueues(q.Inquiry, stats)
			return q.Explain()
		}
		x := with(host.QueueStats{Queue: "mail", Pending: 2, Oldest: &old}, host.QueueStats{Queue: "jobs", Pending: 1, Oldest: &old})
		explained(t, x, host.WhyQueue, "1 message waits in its queue jobs", "skip", "queue", "jobs", "pending", "1")
		errorIf(t, x.Since == nil || !x.Since.Equal(old), "since %v", x.Since)
		x = with(host.QueueStats{Queue: "dynamic", Pending: 3})
		explained(t, x, host.WhyQueue, "3 messages wait in its queue dynamic", "skip", "queue", "dynamic")
		g.Kernel.Parts = append(g.Kernel.Parts, unreadable{})
		wantCode(t, g.verb("a", host.ActorWhy, nil, nil), host.Internal)
	})
}

// inquire asks why actor "a" waits, so that a test may add causes.
func (g *stage) inquire() admin.Question {
	g.t.Helper()
	q, err := admin.Inquire(g.Kernel, g.t.Context(), g.Kernel.Types["p"], pAddr("a"))
	must(g.t, err)
	return q
}

// The order is the one in which package host lists the answers. Only a run has two places in it.
func TestWhyAnswersWithTheFirstThatApplies(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		now := time.Now()
		waits := &wfhost.RunStatus{Workflow: "checkout", Waiting: []wfhost.Waiting{{Kind: workflow.KindReceive, Path: "next", Since: now}}}
		stops := &wfhost.RunStatus{Workflow: "checkout", Pause: &wfhost.Pause{Reason: wfhost.PausedOperator, Since: now}}
		steps := []struct {
			why  host.Why
			text string
			add  func(q *survey.Inquiry)
		}{
			{host.WhyConnections, "1 client is connected", func(q *survey.Inquiry) { q.Status.Connections = 1 }},
			{host.WhyAlarm, "at", func(q *survey.Inquiry) { q.Appoint(now, "alarm ring", "alarm", "ring") }},
			{host.WhyRun, "waits for", func(q *survey.Inquiry) { run.ExplainRun(q, waits) }},
			{host.WhyLocked, "hold 1 message",
				func(q *survey.Inquiry) { queue.ExplainQueues(q, []host.QueueStats{{Queue: "jobs", Processing: 1}}) }},
			{host.WhyWorkers, "workers",
				func(q *survey.Inquiry) { queue.ExplainQueues(q, []host.QueueStats{{Queue: "mail", Pending: 1}}) }},
			{host.WhyRun, "was paused by an operator", func(q *survey.Inquiry) { run.ExplainRun(q, stops) }},
			{host.WhySends, "1 message is with p/b", func(q *survey.Inquiry) {
				q.Ask(survey.RankSends, func() *host.Explanation {
					return mail.ExplainSends(q, &mail.MessageRecord{Type: "p", Key: []string{"b"}})
				})
				q.Status.PendingSends = 1
			}},
			{host.WhyTasks, "1 task runs", func(q *survey.Inquiry) {
				q.Ask(survey.RankTasks,
					func() *host.Explanation { return task.ExplainTasks([]*task.Task{{Name: "poll", Started: now}}, false) })
			}},
			{host.WhyMailbox, "1 call waits", func(q *survey.Inquiry) { q.Status.Mailbox = 1 }},
			{host.WhyPaused, "paused by an operator", func(q *survey.Inquiry) { q.Status.Pause = &host.Pause{Since: now} }},
			{host.WhyFailed, "has failed", func(q *survey.Inquiry) { q.Status.Failure = &host.Failure{Since: now} }},
		}
		for i, want := range steps {
			q := g.inquire()
			for _, s := range steps[:i+1] {
				s.add(q.Inquiry)
			}
			x := q.Explain()
			errorIf(t, x.Why != want.why || !strings.Contains(x.Text, want.text),
				"of %d causes it answers %q (%s), and not %q (%s)", i+1, x.Why, x.Text, want.why, want.text)
		}
	})
}

// TestEveryAnswerIsAskedForAndDocumented reads the answers from their declaration.
func TestEveryAnswerIsAskedForAndDocumented(t *testing.T) {
	source, err := os.ReadFile("../../../actor/host/control.go")
	must(t, err)
	tests, err := os.ReadFile("why_test.go")
	must(t, err)
	scripts, err := os.ReadFile("testdata/why")
	must(t, err)
	page, err := os.ReadFile("../../../docs/operate/stuck-actors.md")
	must(t, err)
	answers := regexp.MustCompile(`(?m)^\t(Why\w+)\s+Why = "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	fatalIf(t, len(answers) < 16, "only %d answers were found", len(answers))
	at := 0
	for _, a := range answers {
		errorIf(t, !strings.Contains(string(tests), "host."+a[1]+",") && !strings.Contains(string(scripts), "\nwhy "+a[2]+": "),
			"no test asks for %s", a[1])
		row := strings.Index(string(page[at:]), "\n| `"+a[2]+"` |")
		if row < 0 {
			t.Errorf("docs/operate/stuck-actors.md does not list %q, or not in the order in which it is looked for", a[2])
			continue
		}
		at += row + 1
	}
}

func TestWhyOfWorkflowRuns(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		q := g.inquire()
		status := &wfhost.RunStatus{Workflow: "checkout",
			Waiting: []wfhost.Waiting{{Kind: workflow.KindReceive, Path: "next", Queues: []string{"orders"}, Since: time.Now()}}}
		run.ExplainRun(q.Inquiry, status)
		explained(t, q.Explain(), host.WhyRun, "waits for a message in queue orders", "", "path", "next")
		status.Pause = &wfhost.Pause{Reason: wfhost.PausedDiverged,
			Text: "the code asks for pay\nthe history has charge", Since: time.Now()}
		explained(t, q.Explain(), host.WhyRun, "paused (diverged): the code asks for pay.", "workflow resume", "reason", "diverged")
	})
}

package supervisor

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/workflow"
)

// runPart is the part of actors that is the workflow run.
type runPart struct {
	// blames has why the run of an actor is to be paused that took the actor's goroutine for good, by activation.key, until
	// that is recorded.
	blames sync.Map
	// marked: the store says that the node runs. cautious is until when runs are counted before they go on; zero for not at
	// all. process names this process in what is counted.
	marked   bool
	cautious time.Time
	process  uint64

	started, ended                       *prometheus.CounterVec
	steps, stepFailures, replays, pauses prometheus.Counter
	replaySeconds, lag                   prometheus.Histogram
	paused                               *prometheus.GaugeVec
}

func newRunPart() *runPart {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &runPart{
		process:      rand.Uint64(),
		started:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cairn_workflow_runs_started_total", Help: "Workflow runs started."}, []string{"type"}),
		ended:        prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cairn_workflow_runs_ended_total", Help: "Workflow runs that ended, by outcome."}, []string{"type", "outcome"}),
		steps:        counter("cairn_workflow_steps_total", "Attempts of steps begun."),
		stepFailures: counter("cairn_workflow_step_failures_total", "Attempts of steps, and functions inside turns of runs, that failed."),
		pauses:       counter("cairn_workflow_paused_total", "How often a workflow run was paused or found paused: its code diverged, an operator held it, or the like."),
		paused:       prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "cairn_workflow_runs_paused", Help: "Workflow runs that are paused, by reason; cairn workflow list shows them."}, []string{"type", "reason"}),
		replays:      counter("cairn_workflow_replays_total", "Workflow runs brought into memory."),
		replaySeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cairn_workflow_replay_seconds", Help: "How long it took to bring a run into memory, what it did at once included.",
			Buckets: prometheus.ExponentialBuckets(1e-5, 4, 10)}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cairn_workflow_lag_seconds", Help: "How late runs go on that waited for a time.",
			Buckets: prometheus.ExponentialBuckets(1e-3, 4, 10)}),
	}
}

func (*runPart) name() string { return "run" }

// translate implements translator.
func (*runPart) translate(err error) (*host.Error, string) {
	if large, ok := errors.AsType[*workflow.TooLargeError](err); ok {
		return host.OverLimit(large.What, large.Limit, large.Size), ""
	}
	return nil, ""
}

// collectors implements meter.
func (p *runPart) collectors(*Supervisor) []prometheus.Collector {
	return []prometheus.Collector{p.started, p.ended, p.steps, p.stepFailures, p.pauses, p.paused, p.replays, p.replaySeconds, p.lag}
}

// declare implements declarer.
func (*runPart) declare(t *actorType) error {
	attach(&t.attached, newRunType)
	return nil
}

// start implements runner.
func (p *runPart) start(s *Supervisor) {
	p.markRunning(s)
	p.countPaused(s)
}

// stop implements runner: a crash leaves in the store that the node runs.
func (*runPart) stop(*Supervisor) {}

// stopped implements closer.
func (p *runPart) stopped(s *Supervisor) { p.markStopped(s) }

// revive implements reviver.
func (*runPart) revive(s *Supervisor) {
	s.task(s.retryPausedRuns)
	s.task(s.compareRuns)
}

// kinds implements waker.
func (*runPart) kinds() []keyspace.WakeKind { return []keyspace.WakeKind{keyspace.WakeRun} }

// due implements waker.
func (*runPart) due(_ *Supervisor, _ *actorType, _ host.Address, row *engine.Wake, _ func(*work)) *work {
	return &work{job: (*runDue)(row)}
}

// wakes implements waker. A record that cannot be read must not keep its actor from being destroyed.
func (*runPart) wakes(rows engine.Reader) ([]engine.Wake, error) {
	rec, _, ok, err := readRun(rows)
	if err != nil || !ok || rec.Due == 0 {
		return nil, nil
	}
	return []engine.Wake{{Due: rec.Due, Kind: keyspace.WakeRun}}, nil
}

// standsFor implements recoverer.
func (*runPart) standsFor() keyspace.WakeKind { return keyspace.WakeRun }

// takeUp implements recoverer.
func (*runPart) takeUp(a *activation) *work { return runOf(a).item(true) }

// A runType is what the part keeps with an actor type.
type runType struct {
	// pace is like actorType.pace, of the turns of runs.
	pace atomic.Int64
}

func newRunType() *runType { return new(runType) }

// runPace returns the moving average of the time that turns of the type's runs take.
func runPace(t *actorType) *atomic.Int64 { return &attachedTo[*runType](&t.attached).pace }

// A runActor is what the part keeps with an actor that has a run: the duty to advance it.
type runActor struct {
	duty
	// attempts counts attempts of workflow steps that have begun and neither returned nor were given up, those of cores that
	// were abandoned included: a run does not begin the next before.
	attempts atomic.Int32
	armed    atomic.Bool // the run has something to do that only a row at 0 of the wake index tells of
	news     func()      // ask; made once, because each step of a run hands it out
}

// runOf returns what the part keeps with an actor.
func runOf(a *activation) *runActor {
	return attach(&a.attached, func() *runActor {
		r := &runActor{duty: duty{a: a, of: runDuty, job: newRunJob, first: runRetryMin, most: runRetryMax}}
		r.finish, r.news = r.done, r.ask
		return r
	})
}

// runDuty is the duty to advance the actor's run.
func runDuty(a *activation) *duty { return &runOf(a).duty }

// busy implements resident.
func (r *runActor) busy() bool { return r.attempts.Load() > 0 }

// leave implements resident.
func (r *runActor) leave() bool { return !r.busy() }

// lost implements survivor: the next core goes on with the run.
func (r *runActor) lost() {
	if r.armed.Load() {
		r.retry(nil)
	}
}

// runTurn is what handlers may do with the workflow run.
type runTurn struct {
	t *turn
	// run is the workflow run that advances in the turn, while it does.
	run   atomic.Pointer[advancing]
	wrote bool     // rows of the run were written, which is published already; guarded by turn.mu
	early []func() // run as soon as the turn has succeeded
	room  [1]consequence
}

// asRun finds the part's view of a turn.
func (h *runTurn) asRun() *runTurn { return h }

func runTurnOf(t *turn) *runTurn { return t.host.(interface{ asRun() *runTurn }).asRun() }

// tellSteps tells who watches the run when the turn is durable, as [turn.notify] of runTopic would, which costs each step more.
func (h *runTurn) tellSteps() {
	t := h.t
	if t.after == nil {
		t.after = h.room[:0]
	}
	t.after = append(t.after, stepped{t.a})
}

// A stepped is a consequence: who watches the actor's run is told.
type stepped struct{ a *activation }

// durable implements consequence.
func (x stepped) durable() { x.a.sup.signals.notify(x.a.key, runTopic) }

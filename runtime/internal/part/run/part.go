package run

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
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/duty"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/pace"
	"github.com/cairn-run/cairn/runtime/internal/survey"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// Part is the part for the workflow run.
type Part struct {
	// blames has, by Actor.Key, the reason to pause a run that took its actor's goroutine for good,
	// until the pause is recorded.
	blames sync.Map
	// marked: the store says that the node runs. Until cautious, runs are counted before they go
	// on; zero for never. process names this process in the counts.
	marked   bool
	cautious time.Time
	process  uint64

	started, ended                       *prometheus.CounterVec
	steps, stepFailures, replays, pauses prometheus.Counter
	replaySeconds, lag                   prometheus.Histogram
	paused                               *prometheus.GaugeVec
}

var _ interface {
	kernel.Closer
	kernel.Declarer
	kernel.Destroyer
	survey.Explainer
	survey.ListReporter
	kernel.Meter
	kernel.Recoverer
	kernel.Resumer
	kernel.Reviver
	kernel.Riser
	kernel.Runner
	call.Server
	fault.Translator
	kernel.Waker
	kernel.Watcher
} = (*Part)(nil)

// New makes the part of workflow runs.
func New() *Part {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &Part{
		process: rand.Uint64(),
		started: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cairn_workflow_runs_started_total", Help: "Workflow runs started."}, []string{"type"}),
		ended:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cairn_workflow_runs_ended_total", Help: "Workflow runs that ended, by outcome."}, []string{"type", "outcome"}),
		steps:   counter("cairn_workflow_steps_total", "Attempts of steps begun."),
		stepFailures: counter("cairn_workflow_step_failures_total",
			"Attempts of steps, and functions inside turns of runs, that failed."),
		pauses: counter("cairn_workflow_paused_total",
			"How often a workflow run was paused or found paused: its code diverged, an operator held it, or the like."),
		paused: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "cairn_workflow_runs_paused",
			Help: "Workflow runs that are paused, by reason; cairn workflow list shows them."},
			[]string{"type", "reason"}),
		replays: counter("cairn_workflow_replays_total", "Workflow runs brought into memory."),
		replaySeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cairn_workflow_replay_seconds", Help: "How long it took to bring a run into memory, what it did at once included.",
			Buckets: prometheus.ExponentialBuckets(1e-5, 4, 10)}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cairn_workflow_lag_seconds",
			Help:    "How late runs go on that waited for a time.",
			Buckets: prometheus.ExponentialBuckets(1e-3, 4, 10)}),
	}
}

// Name implements kernel.Part.
func (*Part) Name() string { return "run" }

// Translate implements fault.Translator.
func (*Part) Translate(err error) (*host.Error, string) {
	if large, ok := errors.AsType[*workflow.TooLargeError](err); ok {
		return host.OverLimit(large.What, large.Limit, large.Size), ""
	}
	return nil, ""
}

// Collectors implements kernel.Meter.
func (p *Part) Collectors(*kernel.Kernel) []prometheus.Collector {
	return []prometheus.Collector{p.started, p.ended, p.steps, p.stepFailures, p.pauses, p.paused,
		p.replays, p.replaySeconds, p.lag}
}

// Declare implements kernel.Declarer.
func (*Part) Declare(t *kernel.Type) error {
	attach.Make(&t.Attached, func() *runType {
		r := new(runType)
		if t.Profile != nil { // else nothing is called
			r.coroutines.Begin = func() { t.Profile.Enter(workKind, "", false) }
		}
		return r
	})
	return nil
}

// Start implements kernel.Runner.
func (p *Part) Start(s *kernel.Kernel) {
	p.markRunning(s)
	p.countPaused(s)
}

// Stop implements kernel.Runner. A crash leaves in the store that the node runs.
func (*Part) Stop(s *kernel.Kernel) {
	for _, t := range s.Types {
		runTypeOf(t).coroutines.Close()
	}
}

// Stopped implements kernel.Closer.
func (p *Part) Stopped(s *kernel.Kernel) { p.markStopped(s) }

// Revive implements kernel.Reviver.
func (*Part) Revive(s *kernel.Kernel) {
	s.Go(func() { retryPausedRuns(s) })
	s.Go(func() { compareRuns(s) })
}

// Kinds implements kernel.Waker.
func (*Part) Kinds() []keyspace.WakeKind { return []keyspace.WakeKind{keyspace.WakeRun} }

// Due implements kernel.Waker.
func (*Part) Due(_ *kernel.Kernel, _ *kernel.Type, _ host.Address, row *engine.Wake,
	_ func(*kernel.Work)) *kernel.Work {
	return &kernel.Work{Job: (*runDue)(row)}
}

// Wakes implements kernel.Waker. A record that cannot be read must not keep its actor from being
// destroyed.
func (*Part) Wakes(rows engine.Reader) ([]engine.Wake, error) {
	rec, _, ok, err := readRun(rows)
	if err != nil || !ok || rec.Due == 0 {
		return nil, nil
	}
	return []engine.Wake{{Due: rec.Due, Kind: keyspace.WakeRun}}, nil
}

// StandsFor implements kernel.Recoverer.
func (*Part) StandsFor() keyspace.WakeKind { return keyspace.WakeRun }

// TakeUp implements kernel.Recoverer.
func (*Part) TakeUp(a *kernel.Actor) *kernel.Work { return RunOf(a).Item(true) }

// A runType is the part's data of an actor type.
type runType struct {
	// pace is the time that the turns of runs take.
	pace       pace.Average
	coroutines wfhost.Coroutines
}

func runTypeOf(t *kernel.Type) *runType { return attach.Get[*runType](&t.Attached) }

// runPace returns the moving average of the time that turns of the type's runs take.
func runPace(t *kernel.Type) *pace.Average { return &runTypeOf(t).pace }

// A runActor is the part's data of an actor with a run: the duty to advance it.
type runActor struct {
	duty.Duty
	// Attempts counts begun attempts of workflow steps that were neither returned nor given up,
	// even of abandoned cores: until then a run does not begin the next one.
	Attempts atomic.Int32
	armed    atomic.Bool // the run has work that only a row at 0 of the wake index shows
	known    known
	news     func() // Ask; made once, because each step of a run uses it
}

// RunOf returns the part's data of an actor.
func RunOf(a *kernel.Actor) *runActor {
	return attach.Make(&a.Attached, func() *runActor {
		r := &runActor{Duty: duty.Duty{A: a, Of: runDuty, Job: newRunJob, First: runRetryMin, Most: runRetryMax}}
		r.Finish, r.news = r.Done, r.Ask
		return r
	})
}

// runDuty is the duty to advance the actor's run.
func runDuty(a *kernel.Actor) *duty.Duty { return &RunOf(a).Duty }

// Busy implements kernel.Resident.
func (r *runActor) Busy() bool { return r.Attempts.Load() > 0 }

// Leave implements kernel.Resident.
func (r *runActor) Leave() bool { return !r.Busy() }

// Lost implements kernel.Survivor: the next core continues the run.
func (r *runActor) Lost() {
	if r.armed.Load() {
		r.Retry(nil)
	}
}

// Turn is the view of handlers on the workflow run.
type Turn struct {
	K *kernel.Turn
	// run is the workflow run that advances in the turn, while it does.
	run   atomic.Pointer[advancing]
	early []func() // run as soon as the turn has succeeded
	room  [1]kernel.Consequence
}

// asRun finds the part's view of a turn.
func (h *Turn) asRun() *Turn { return h }

func runTurnOf(t *kernel.Turn) *Turn { return t.Host.(interface{ asRun() *Turn }).asRun() }

// tellSteps notifies watchers of the run when the turn is durable. [kernel.Turn.Notify] of runTopic
// would cost each step more.
func (h *Turn) tellSteps() {
	t := h.K
	if t.After == nil {
		t.After = h.room[:0]
	}
	t.After = append(t.After, stepped{t.Actor})
}

// A stepped is a consequence that notifies watchers of the actor's run.
type stepped struct{ a *kernel.Actor }

// Durable implements kernel.Consequence.
func (x stepped) Durable() { x.a.Kernel.Signals.Notify(x.a.Key, runTopic) }

package audit

import (
	"context"
	"encoding/json"
	"reflect"
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
)

// DefaultMaxAge is how long records are kept.
const DefaultMaxAge = 90 * 24 * time.Hour

// purgeEvery is how often old records are removed.
const purgeEvery = 24 * time.Hour

// Options configure the log of a node.
type Options struct {
	// MaxAge is how long records are kept: DefaultMaxAge if 0.
	MaxAge time.Duration
	// JSON returns CBOR as JSON.
	JSON func(cbor []byte) ([]byte, error)
}

// A Log is the audit log of a node. It is a part of the kernel.
type Log struct {
	options Options
	kernel  *kernel.Kernel

	mu      sync.Mutex
	stopped bool
	timer   *time.Timer // of the next purge
	// news is closed when another record can be read; nil if nothing waits for it.
	news chan struct{}
}

var _ interface {
	kernel.Opener
	kernel.Runner
	kernel.Destroyer
} = (*Log)(nil)

// New makes the log of a node.
func New(o Options) *Log {
	if o.MaxAge == 0 {
		o.MaxAge = DefaultMaxAge
	}
	return &Log{options: o}
}

// LogOf returns the log of a node; nil if it has none.
func LogOf(k *kernel.Kernel) *Log { return kernel.PartOf[*Log](k) }

// Name implements kernel.Part.
func (*Log) Name() string { return "audit" }

// Open implements kernel.Opener.
func (l *Log) Open(k *kernel.Kernel) error {
	l.kernel = k
	return nil
}

// Close implements kernel.Opener.
func (*Log) Close(*kernel.Kernel) error { return nil }

// Start implements kernel.Runner.
func (l *Log) Start(k *kernel.Kernel) { k.Go(l.purge) }

// Stop implements kernel.Runner.
func (l *Log) Stop(*kernel.Kernel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	if l.timer != nil {
		l.timer.Stop()
	}
}

// purge removes old records, and schedules the next purge.
func (l *Log) purge() {
	k := l.kernel
	n, err := k.Store.PurgeAudit(time.Now().Add(-l.options.MaxAge))
	switch {
	case err != nil && k.Life.Err() == nil:
		k.Logger.Error("remove old records of the audit log", "error", err)
	case n > 0:
		k.Logger.Info("old records of the audit log are removed", "records", n)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		l.timer = time.AfterFunc(purgeEvery, func() { k.Go(l.purge) }) // a resting node has no goroutine for it
	}
}

// signal notifies the readers that wait for a record.
func (l *Log) signal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.news != nil {
		close(l.news)
		l.news = nil
	}
}

// next returns a channel that closes when there is a record that no reader saw before the call.
func (l *Log) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.news == nil {
		l.news = make(chan struct{})
	}
	return l.news
}

// Verb returns the entry of a call, and the context for its work: nil if the call leaves no record.
// Only methods for operators leave one. If a type may open the method to its callers, a call counts
// only from outside, or with a reason: the program and its actors use it like any other method. If
// the type does open it, a call counts only with a reason. The holder of a token is no operator.
// The error says that the reason is invalid.
func (l *Log) Verb(ctx context.Context, row method.Row, open host.Open, r *host.Request,
	from *kernel.Caller) (context.Context, *Entry, error) {
	if l == nil || row.Kind != host.Action ||
		row.By(open) != method.Operators && !(row.Openable() && Reasoned(ctx)) || token.Of(ctx) != nil {
		return ctx, nil, nil
	}
	if row.Caller != method.Operators && (from != nil || !told(ctx)) {
		return ctx, nil, nil
	}
	if o := audit.Of(ctx); o != nil {
		if fault := audit.CheckReason(o.Reason, "reason"); fault != nil {
			return ctx, nil, fault
		}
	}
	ctx, e := l.Begin(ctx, row.Name, l.input(row, r), from)
	return ctx, e, nil
}

// input returns the input of a request as JSON.
func (l *Log) input(row method.Row, r *host.Request) []byte {
	switch {
	case r.Value != nil:
		text, _ := wire.Encode(host.JSON, r.Value)
		return text
	case r.Codec == host.JSON || len(r.Input) == 0:
		return r.Input
	}
	if row.Input != nil { // so that times and the like are as in JSON
		in := reflect.New(row.Input).Interface()
		if wire.Decode(row.Name, r.Codec, r.Input, in) == nil {
			if text, err := wire.Encode(host.JSON, in); err == nil && json.Valid(text) {
				return text
			}
		}
	}
	text, err := l.options.JSON(r.Input)
	if err != nil {
		return r.Input
	}
	return text
}

// Destroy implements kernel.Destroyer: to destroy an actor is a verb, unless the actor does so
// itself. It may do so in the turn of another verb, whose entry is then not sealed like that of
// other turns.
func (l *Log) Destroy(t *kernel.Turn) error {
	for _, p := range t.Participants() {
		if e, ok := p.(*Entry); ok {
			return last(t, e)
		}
	}
	if t.Work.Job.Traits(t.Actor).Kind != "destroy" {
		return nil
	}
	return last(t, l.entry(orBackground(t.Work.Ctx), Destroy, callerOf(t.Work)))
}

// last writes an entry in a turn that destroys its actor.
func last(t *kernel.Turn, e *Entry) error {
	before := len(t.Changes)
	if err := e.Seal(t); err != nil {
		return err
	}
	e.written = true
	if added := t.Changes[before:]; len(added) > 0 { // it is published although the others are not
		record := added[0]
		copy(t.Changes[t.Lasting+1:], t.Changes[t.Lasting:before])
		t.Changes[t.Lasting] = record
		t.Lasting++
	}
	return nil
}

// Destroy is the verb that destroys an actor.
const Destroy = "actor.destroy"

// callerOf returns the turn that work belongs to.
func callerOf(w *kernel.Work) *kernel.Caller {
	if w.Ctx == nil {
		return nil
	}
	return kernel.CallerOf(w.Ctx)
}

func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// Package options has the options of a kernel.
package options

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/change"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
)

// The defaults of Options.
const (
	DefaultIdleTimeout      = 30 * time.Second
	DefaultTurnGrace        = 5 * time.Second
	DefaultRunStall         = 2 * time.Second
	DefaultMaxAwake         = 100_000
	DefaultMaxAwakeBytes    = 1 << 30
	DefaultAlarmConcurrency = 256
	DefaultReplyRetention   = 24 * time.Hour
	DefaultMaxMailboxBytes  = 256 << 20
	DefaultMaxEventBytes    = 128 << 20
)

// Options configure a Kernel. The zero value of every field but Store means its default.
type Options struct {
	// Store holds the actors. The kernel does not close it.
	Store *engine.Store
	// Namespace is the first part of every actor's identity; "" means "default".
	Namespace string
	// Behaviors are the actor types to host, with distinct type names.
	Behaviors []*host.Behavior
	// Changes receives the node's changes; nil publishes nothing and writes no outbox.
	Changes change.Sink
	// IdleTimeout is for types that set none.
	IdleTimeout time.Duration
	// Limits are for types that set none.
	Limits host.Limits
	// TypeLimits go before the limits of the behaviors, by type.
	TypeLimits map[string]host.Limits
	// TurnGrace is how long after its deadline a handler may still return before it is abandoned.
	TurnGrace time.Duration
	// RunStall is how long a workflow function may block without an operation of its run before the
	// run is paused.
	RunStall time.Duration
	// MaxAwake and MaxAwakeBytes bound the actors in memory; the least recently used idle ones
	// sleep first.
	MaxAwake      int
	MaxAwakeBytes int64
	// MaxMailboxBytes bounds the inputs of the calls that wait in the mailboxes of all actors.
	MaxMailboxBytes int64
	// MaxEventBytes bounds the events that the streams and connections of all actors hold for their
	// readers, and what watchers of entries remember.
	MaxEventBytes int64
	// AlarmConcurrency bounds how many alarms run or wait in mailboxes at once, which also paces a
	// restart.
	AlarmConcurrency int
	// ReplyRetention is how long replies to calls with an idempotency key are kept.
	ReplyRetention time.Duration
	// Profile labels goroutines with the actor type and the kind of work that they run.
	Profile bool
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Registerer receives the metrics; nil registers none.
	Registerer prometheus.Registerer
}

// EnsureDefaults sets the defaults of unset fields.
func (o *Options) EnsureDefaults() {
	def(&o.Namespace, "default")
	def(&o.IdleTimeout, DefaultIdleTimeout)
	def(&o.TurnGrace, DefaultTurnGrace)
	def(&o.RunStall, DefaultRunStall)
	def(&o.MaxAwake, DefaultMaxAwake)
	def(&o.MaxAwakeBytes, DefaultMaxAwakeBytes)
	def(&o.MaxMailboxBytes, DefaultMaxMailboxBytes)
	def(&o.MaxEventBytes, DefaultMaxEventBytes)
	def(&o.AlarmConcurrency, DefaultAlarmConcurrency)
	def(&o.ReplyRetention, DefaultReplyRetention)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Limits = limit.Resolve(o.Limits, limit.Defaults())
}

// Validate reports every fault of o, joined.
func (o *Options) Validate() error {
	var faults []error
	if o.Store == nil {
		faults = append(faults, errors.New("kernel: Options.Store is nil"))
	}
	seen := make(map[string]bool)
	for _, b := range o.Behaviors {
		if seen[b.Type] {
			faults = append(faults, fmt.Errorf("kernel: actor type %q is given twice", b.Type))
		}
		seen[b.Type] = true
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"MaxAwake", int64(o.MaxAwake)}, {"MaxAwakeBytes", o.MaxAwakeBytes}, {"MaxMailboxBytes", o.MaxMailboxBytes},
		{"MaxEventBytes", o.MaxEventBytes}, {"AlarmConcurrency", int64(o.AlarmConcurrency)},
		{"TurnGrace", int64(o.TurnGrace)}, {"RunStall", int64(o.RunStall)}, {"ReplyRetention", int64(o.ReplyRetention)},
		{"Limits.TurnTimeout", int64(o.Limits.TurnTimeout)}, {"Limits.QueryTimeout", int64(o.Limits.QueryTimeout)},
		{"Limits.MailboxCount", int64(o.Limits.MailboxCount)},
		{"Limits.MailboxBytes", o.Limits.MailboxBytes}, {"Limits.StateBytes", int64(o.Limits.StateBytes)},
		{"Limits.SendAttempts", int64(o.Limits.SendAttempts)},
		{"Limits.Connections", int64(o.Limits.Connections)}, {"Limits.ConnectionBytes",
			int64(o.Limits.ConnectionBytes)},
		{"Limits.ConnectionGrace", int64(o.Limits.ConnectionGrace)}, {"Limits.TaskGrace", int64(o.Limits.TaskGrace)},
	} {
		if n.value < 0 {
			faults = append(faults, fmt.Errorf("kernel: Options.%s is negative", n.name))
		}
	}
	if err := limit.CheckRate(o.Limits); err != nil {
		faults = append(faults, fmt.Errorf("kernel: Options.Limits: %w", err))
	}
	return errors.Join(faults...)
}

// def sets *p to v if it is zero.
func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

package trace

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/runtime/internal/audit"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/span"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
)

// rules say which traces are recorded. They are replaced as a whole.
type rules struct {
	all     rule
	types   map[*kernel.Type]*rule
	foreign sampler // of traces that began elsewhere
	shown   trace.Sampling
}

// A rule is for one type, or for all types without a rule.
type rule struct {
	sampler
	slow time.Duration
}

// of returns the rule of a type, which may be nil.
func (r *rules) of(t *kernel.Type) *rule {
	if len(r.types) > 0 {
		if own := r.types[t]; own != nil {
			return own
		}
	}
	return &r.all
}

// configured returns the rules of the options.
func (o *Options) configured() trace.Sampling {
	rate, share, slow := cmp.Or(o.PerSecond, DefaultPerSecond), cmp.Or(o.Share, 1),
		cmp.Or(o.Slow, span.Slow).Milliseconds()
	return trace.Sampling{Rule: trace.Rule{PerSecond: &rate, Share: &share, SlowMS: &slow}, Types: o.Types}
}

// completed returns a rule whose unset fields are those of another one.
func completed(r, from trace.Rule) trace.Rule {
	return trace.Rule{PerSecond: cmp.Or(r.PerSecond, from.PerSecond),
		Share: cmp.Or(r.Share, from.Share), SlowMS: cmp.Or(r.SlowMS, from.SlowMS)}
}

// newRules makes rules. Unset fields of s are as configured. The error is an *host.Error.
func (p *Recorder) newRules(s trace.Sampling) (*rules, error) {
	base := p.o.configured()
	s.Rule = completed(s.Rule, base.Rule)
	types := maps.Clone(base.Types)
	if s.Types != nil {
		types = maps.Clone(s.Types)
	}
	r := &rules{types: make(map[*kernel.Type]*rule)}
	if err := p.start(&r.all, s.Rule, ""); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		t := p.k.Types[name]
		if t == nil {
			return nil, host.Errorf(host.InvalidArgument, "there is no actor type %.80q", name).
				With("field", "types."+name)
		}
		types[name] = completed(types[name], s.Rule)
		own := new(rule)
		if err := p.start(own, types[name], "types."+name+"."); err != nil {
			return nil, err
		}
		r.types[t] = own
	}
	r.foreign.start(1, max(*s.PerSecond, 1)*foreignRates, p.later)
	r.shown = trace.Sampling{Rule: s.Rule, Types: types}
	return r, nil
}

// start makes one rule. path is the path of its members.
func (p *Recorder) start(r *rule, from trace.Rule, path string) error {
	refused := func(member, text string) error {
		return host.Errorf(host.InvalidArgument, "%s%s %s", path, member, text).With("field", path+member)
	}
	switch rate, share, slow := *from.PerSecond, *from.Share, *from.SlowMS; {
	case rate < 0 || rate > 1<<40:
		return refused("per_second", "is not between 0 and 1099511627776")
	case !(share >= 0 && share <= 1):
		return refused("share", "is not between 0 and 1")
	case slow < 1 || slow > (24*time.Hour).Milliseconds():
		return refused("slow_ms", "is not between 1 and 86400000")
	default:
		r.slow = time.Duration(slow) * time.Millisecond
		r.sampler.start(share, rate, p.later)
	}
	return nil
}

// Sampling implements trace.Sampler.
func (p *Recorder) Sampling() trace.Sampling { return p.rules.Load().shown }

// SetSampling implements trace.Sampler.
func (p *Recorder) SetSampling(ctx context.Context, s trace.Sampling) (trace.Sampling, error) {
	r, err := p.newRules(s)
	if err != nil {
		return trace.Sampling{}, err
	}
	input, err := wire.Encode(host.JSON, &s)
	if err != nil {
		return trace.Sampling{}, err
	}
	p.setting.Lock()
	defer p.setting.Unlock()
	_, entry := audit.LogOf(p.k).Begin(ctx, "trace.sample", input, kernel.CallerOf(ctx))
	entry.Before(&p.rules.Load().shown)
	entry.After(&r.shown)
	if err := entry.Append(host.Address{}); err != nil {
		return trace.Sampling{}, err
	}
	p.rules.Store(r)
	return r.shown, nil
}

// later runs f after a while.
func (p *Recorder) later(d time.Duration, f func()) { p.k.Later(d, f) }

// Slow implements span.Sink.
func (j *journal) Slow() time.Duration { return j.p.rules.Load().of(j.a.Type).slow }

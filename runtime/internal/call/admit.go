package call

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
)

// admit takes a call from outside from the actor's bucket, if the actor has a rate.
func (p *Router) admit(t *kernel.Type, r *host.Request) error {
	if r.Continues || t.Base.Rate == nil && p.k.Overrides.Len() == 0 {
		return nil
	}
	var buf [128]byte
	key := address.Append(buf[:0], r.Address)
	limit := p.k.LimitsOf(t, key).Rate
	if limit == nil {
		return nil
	}
	wait, ok := limit.Take(key)
	if ok {
		return nil
	}
	t.Metrics.Overloaded.Inc()
	return fault.Overloaded(int64(limit.Burst), wait, "actor %s takes %s calls per second from outside, and %d at once",
		address.Format(r.Address), limit.PerSecond(), limit.Burst)
}

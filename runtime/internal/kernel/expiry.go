package kernel

import (
	"time"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
)

// purge is a row of kind expiry on its way through its actor's mailbox.
type purge engine.Wake

// Traits implements Job.
func (*purge) Traits(*Actor) Traits { return Traits{Kind: "purge", Quick: true} }

// Run implements Job.
func (d *purge) Run(c *Core, w *Work) {
	row := (*engine.Wake)(d)
	c.Due(w, row, func() error {
		for p := range attach.As[Purger](c.Actor.Kernel.Parts) {
			if p.Purges(row.Name) {
				return p.Purge(c, w, row)
			}
		}
		return nil
	})
}

// ExpireAt arms the purge of the keys that expire at ms; they read as absent from then on. One
// purge, at the end of the span that ms is in, serves all keys of that span. The span is an hour,
// unless something counts or shows the keys. REQUIRES: t.Mu
func (t *Turn) ExpireAt(ms int64, span time.Duration) {
	s := span.Milliseconds()
	t.Core.Rows.SetWake((ms/s+1)*s, keyspace.WakeExpiry, "", "")
}

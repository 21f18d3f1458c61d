package kernel

import (
	"time"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// purge is a row of keys that have expired, or of a part, on its way through its actor's mailbox.
type purge engine.Wake

// Traits implements Job.
func (*purge) Traits(*Actor) Traits { return Traits{Kind: "purge", Quick: true} }

// Run implements Job.
func (d *purge) Run(c *Core, w *Work) {
	row := (*engine.Wake)(d)
	c.Due(w, row, func() error {
		if row.Name != "" {
			return PartOf[Purger](c.Actor.Kernel).Purge(c, w, row)
		}
		return c.purge(w, row)
	})
}

// purge removes keys that have expired.
func (c *Core) purge(w *Work, row *engine.Wake) error {
	const most = 1000
	err := c.System(w, "purge", func(h *Turn) error {
		keys, err := c.Rows.Expired(h.Start.UnixMilli(), most)
		if err != nil {
			return err
		}
		for _, k := range keys {
			if _, err := c.Rows.Delete(k); err != nil {
				return err
			}
		}
		if len(keys) < most {
			c.Rows.ClearWake(row.Due, keyspace.WakeExpiry, "", "")
		} else {
			c.Rows.SetWake(row.Due, keyspace.WakeExpiry, "", "") // more is left: the row fires again
		}
		return nil
	})
	return err
}

// purgeTime is when a key that expires at ms is removed at the latest: at the end of its hour, so that the keys of an
// hour share one purge. It reads as absent from ms on.
func purgeTime(ms int64) int64 {
	const hour = int64(time.Hour / time.Millisecond)
	return (ms/hour + 1) * hour
}

// ExpireAt arms the purge of the keys that expire at ms. One purge serves all keys of the same hour.
//
// REQUIRES: t.Mu
func (t *Turn) ExpireAt(ms int64) {
	t.Core.Rows.SetWake(purgeTime(ms), keyspace.WakeExpiry, "", "")
}

package supervisor

import (
	"time"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// purge is a row of keys that have expired, or of a part, on its way through its actor's mailbox.
type purge engine.Wake

// traits implements job.
func (*purge) traits(*activation) traits { return traits{kind: "purge", quick: true} }

// run implements job.
func (d *purge) run(c *core, w *work) {
	row := (*engine.Wake)(d)
	c.due(w, row, func() error {
		if row.Name != "" {
			return partOf[purger](c.a.sup).purge(c, w, row)
		}
		return c.purge(w, row)
	})
}

// purge removes keys that have expired.
func (c *core) purge(w *work, row *engine.Wake) error {
	const most = 1000
	_, err := c.internal(w, "purge", func(h *turn) error {
		keys, err := c.ws.Expired(unixMS(h.start), most)
		if err != nil {
			return err
		}
		for _, k := range keys {
			if _, err := c.ws.Delete(k); err != nil {
				return err
			}
		}
		if len(keys) < most {
			c.ws.ClearWake(row.Due, keyspace.WakeExpiry, "", "")
		} else {
			c.ws.SetWake(row.Due, keyspace.WakeExpiry, "", "") // more is left: the row fires again
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

// expireAt arms the purge of the keys that expire at ms. One purge serves all keys of the same hour.
//
// REQUIRES: t.mu
func (t *turn) expireAt(ms int64) {
	t.c.ws.SetWake(purgeTime(ms), keyspace.WakeExpiry, "", "")
}

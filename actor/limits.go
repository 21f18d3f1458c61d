package actor

import (
	"math"

	"github.com/cairn-run/cairn/actor/host"
)

// The bounds of limits. The runtime repeats them, and a test there compares.
const (
	maxValueBytes          = 16 << 20
	minWriteSetBytes       = 4 << 10
	maxWriteSetBytes       = 1 << 30
	maxStorageBytes        = 1 << 60
	minSQLMemory           = 1 << 20
	minSQLTemporary        = 64 << 10
	minSQLTurnBytes        = 16 * 4096
	minSQLValueBytes       = 1024
	maxSQLValueBytes       = 1_000_000_000
	unbounded        int64 = math.MaxInt64
)

// Limits bound one actor of a type. A zero field means the default of the runtime.
type Limits = host.Limits

// checkLimits checks the limits of the spec.
func (d *definer) checkLimits(l Limits) {
	for _, n := range []struct {
		name               string
		value, least, most int64
	}{
		{"TurnTimeout", int64(l.TurnTimeout), 1, unbounded},
		{"QueryTimeout", int64(l.QueryTimeout), 1, unbounded},
		{"MailboxCount", int64(l.MailboxCount), 1, unbounded},
		{"MailboxBytes", l.MailboxBytes, 1, unbounded},
		{"StateBytes", int64(l.StateBytes), 1, unbounded},
		{"ValueBytes", int64(l.ValueBytes), 1, maxValueBytes},
		{"StorageBytes", l.StorageBytes, 1, maxStorageBytes},
		{"WriteSetBytes", int64(l.WriteSetBytes), minWriteSetBytes, maxWriteSetBytes},
		{"SendAttempts", int64(l.SendAttempts), 1, unbounded},
		{"CallBurst", int64(l.CallBurst), 1, unbounded},
		{"Connections", int64(l.Connections), 1, unbounded},
		{"ConnectionBytes", int64(l.ConnectionBytes), 1, unbounded},
		{"ConnectionGrace", int64(l.ConnectionGrace), 1, unbounded},
		{"TaskGrace", int64(l.TaskGrace), 1, unbounded},
		{"SQLMemoryBytes", l.SQLMemoryBytes, minSQLMemory, unbounded},
		{"SQLTemporaryBytes", l.SQLTemporaryBytes, minSQLTemporary, unbounded},
		{"SQLTurnBytes", l.SQLTurnBytes, minSQLTurnBytes, maxWriteSetBytes},
		{"SQLValueBytes", int64(l.SQLValueBytes), minSQLValueBytes, maxSQLValueBytes},
	} {
		switch {
		case n.value < 0:
			d.fault("Spec.Limits."+n.name, "is negative")
		case n.value > n.most:
			d.fault("Spec.Limits."+n.name, "is %d; it is at most %d", n.value, n.most)
		case n.value != 0 && n.value < n.least:
			d.fault("Spec.Limits."+n.name, "is %d; it is at least %d", n.value, n.least)
		}
	}
	switch {
	case l.CallRate < 0 || math.IsNaN(l.CallRate) || math.IsInf(l.CallRate, 0):
		d.fault("Spec.Limits.CallRate", "is %v; it is a number of calls per second", l.CallRate)
	case l.CallRate == 0 && l.CallBurst > 0:
		d.fault("Spec.Limits.CallBurst", "has no effect while Spec.Limits.CallRate is 0")
	}
}

package actor

import (
	"math"

	"github.com/cairn-run/cairn/actor/host"
)

// maxValueBytes is the most that Limits.ValueBytes may allow.
const maxValueBytes = 16 << 20

// Limits bound one actor of a type. A zero field means the default of the runtime.
type Limits = host.Limits

// checkLimits checks the limits of the spec.
func (d *definer[S]) checkLimits(l Limits) {
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"TurnTimeout", int64(l.TurnTimeout)},
		{"QueryTimeout", int64(l.QueryTimeout)},
		{"MailboxCount", int64(l.MailboxCount)},
		{"MailboxBytes", l.MailboxBytes},
		{"StateBytes", int64(l.StateBytes)},
		{"ValueBytes", int64(l.ValueBytes)},
		{"StorageBytes", l.StorageBytes},
		{"WriteSetBytes", int64(l.WriteSetBytes)},
		{"SendAttempts", int64(l.SendAttempts)},
		{"CallBurst", int64(l.CallBurst)},
		{"Connections", int64(l.Connections)},
		{"ConnectionBytes", int64(l.ConnectionBytes)},
		{"ConnectionGrace", int64(l.ConnectionGrace)},
		{"TaskGrace", int64(l.TaskGrace)},
		{"SQLMemoryBytes", l.SQLMemoryBytes},
		{"SQLTemporaryBytes", l.SQLTemporaryBytes},
		{"SQLTurnBytes", l.SQLTurnBytes},
		{"SQLValueBytes", int64(l.SQLValueBytes)},
	} {
		if n.value < 0 {
			d.fault("Spec.Limits."+n.name, "is negative")
		}
	}
	if l.ValueBytes > maxValueBytes {
		d.fault("Spec.Limits.ValueBytes", "is %d; a value has at most %d bytes", l.ValueBytes, maxValueBytes)
	}
	switch {
	case l.CallRate < 0 || math.IsNaN(l.CallRate) || math.IsInf(l.CallRate, 0):
		d.fault("Spec.Limits.CallRate", "is %v; it is a number of calls per second", l.CallRate)
	case l.CallRate == 0 && l.CallBurst > 0:
		d.fault("Spec.Limits.CallBurst", "has no effect while Spec.Limits.CallRate is 0")
	}
}

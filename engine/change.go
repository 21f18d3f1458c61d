package engine

import (
	"encoding/binary"

	"github.com/cairn-run/cairn/keyspace"
)

// ChangeKind is the subject of a change event. The numbers are on disk and only grow.
type ChangeKind uint8

const (
	ChangeEvent ChangeKind = 1 // an event that the actor emitted
	ChangeState ChangeKind = 2 // the state was written
	ChangeKV    ChangeKind = 3 // a user key was written or deleted
	ChangeAlarm ChangeKind = 4 // an alarm was set, fired or cancelled
	ChangeLife  ChangeKind = 5 // the actor was created or destroyed
	ChangeQueue ChangeKind = 6 // messages of a queue were sent, settled, given up
	ChangeConn  ChangeKind = 7 // a connection was opened, lost, resumed or closed

	ChangeSQL      ChangeKind = 8  // the SQL database was written
	ChangeWorkflow ChangeKind = 9  // the history of the workflow run was written
	ChangeAudit    ChangeKind = 10 // an operator did something; the name is the method
)

func (k ChangeKind) String() string {
	switch k {
	case ChangeEvent:
		return "event"
	case ChangeState:
		return "state"
	case ChangeKV:
		return "kv"
	case ChangeAlarm:
		return "alarm"
	case ChangeLife:
		return "life"
	case ChangeQueue:
		return "queue"
	case ChangeConn:
		return "conn"
	case ChangeSQL:
		return "sql"
	case ChangeWorkflow:
		return "workflow"
	case ChangeAudit:
		return "audit"
	default:
		return "unknown"
	}
}

// Change is one event or change of state of a turn, for publication.
type Change struct {
	Kind    ChangeKind
	Name    string // of the event, key or alarm
	Data    []byte // JSON
	Durable bool   // the publisher's stream must keep it, not only pass it on
}

// ChangeSet is the record that a turn puts into the outbox: its changes, in
// order. Actor, version and the index in Changes make the message id.
//
//	format 01 | 16 bytes id | generation uvarint | version uvarint | time varint |
//	identity | traceparent | count | for each change: kind, flags, name, data
type ChangeSet struct {
	ID          keyspace.ActorID
	Identity    Identity
	Generation  Generation
	Version     Version
	TimeMS      int64
	Traceparent string // W3C trace context, may be empty
	Changes     []Change
}

const (
	changeSetFormat = 1
	changeDurable   = 1 << 0
)

// Append appends the encoded change set.
func (c *ChangeSet) Append(dst []byte) []byte {
	dst = append(dst, changeSetFormat)
	dst = append(dst, c.ID[:]...)
	dst = binary.AppendUvarint(dst, uint64(c.Generation))
	dst = binary.AppendUvarint(dst, uint64(c.Version))
	dst = binary.AppendVarint(dst, c.TimeMS)
	dst = c.Identity.append(dst)
	dst = appendString(dst, c.Traceparent)
	dst = binary.AppendUvarint(dst, uint64(len(c.Changes)))
	for i := range c.Changes {
		change := &c.Changes[i]
		var flags byte
		if change.Durable {
			flags |= changeDurable
		}
		dst = append(dst, byte(change.Kind), flags)
		dst = appendString(dst, change.Name)
		dst = binary.AppendUvarint(dst, uint64(len(change.Data)))
		dst = append(dst, change.Data...)
	}
	return dst
}

// ParseChangeSet decodes what Append encodes; the error is a *CorruptError. Data
// aliases b.
func ParseChangeSet(b []byte) (ChangeSet, error) {
	d := decoder{b: b}
	d.format(changeSetFormat)
	var c ChangeSet
	copy(c.ID[:], d.take(len(c.ID)))
	c.Generation = Generation(d.uvarint())
	c.Version = Version(d.uvarint())
	c.TimeMS = d.varint()
	c.Identity = d.identity()
	c.Traceparent = d.string()
	for range d.count() {
		change := Change{Kind: ChangeKind(d.byte())}
		flags := d.byte()
		if flags&^changeDurable != 0 {
			d.fail("unknown flags of a change")
		}
		change.Durable = flags&changeDurable != 0
		change.Name = d.string()
		change.Data = d.bytes()
		if d.reason != "" {
			break
		}
		c.Changes = append(c.Changes, change)
	}
	if err := d.end(); err != nil {
		return ChangeSet{}, err
	}
	return c, nil
}

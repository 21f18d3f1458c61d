package keyspace

import "strconv"

// Event is the key of an event that is kept for subscribers that resume: 16 and its sequence
// number, a u64 that counts from 1.
type Event struct{ Sequence uint64 }

// AppendEvent appends the key of an event.
func AppendEvent(dst []byte, sequence uint64) []byte {
	return appendSequence(dst, KindEventHistory, sequence)
}

// ParseEvent returns the sequence number.
func ParseEvent(key []byte) (uint64, error) { return parseSequence(key, KindEventHistory, 1) }

// Kind returns [KindEventHistory].
func (Event) Kind() Kind { return KindEventHistory }

// Append appends the bytes of the key.
func (k Event) Append(dst []byte) []byte { return AppendEvent(dst, k.Sequence) }

// String returns the form event/7.
func (k Event) String() string { return "event/" + strconv.FormatUint(k.Sequence, 10) }

func (Event) key() {}

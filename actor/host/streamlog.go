package host

import "time"

// The defaults and bounds of Stream.
const (
	DefaultStreamItems     = 100_000
	DefaultStreamBytes     = 64 << 20
	DefaultStreamItemBytes = 1 << 20
	// MaxStreamBatch is how many items one call appends or reads.
	MaxStreamBatch = 1_000
)

// A Stream is a named ordered log of an actor type. A zero field means its default.
type Stream struct {
	// Name is unique among the behavior's streams, or AnyName.
	Name string
	// Items, Bytes and Age bound the items that are kept; the oldest are removed first. Age 0 keeps
	// items of any age.
	Items int
	Bytes int64
	Age   time.Duration
	// ItemBytes bounds one item.
	ItemBytes int
	// External is set if clients may append to and close the stream.
	External bool
}

// EnsureDefaults sets missing fields to their defaults.
func (s *Stream) EnsureDefaults() {
	setDefault(&s.Items, DefaultStreamItems)
	setDefault(&s.Bytes, DefaultStreamBytes)
	setDefault(&s.ItemBytes, DefaultStreamItemBytes)
}

// StreamInfo describes one stream.
type StreamInfo struct {
	Stream string `json:"stream"`
	// First and Last are the sequences of the first and last item that is kept; Last is 0 if there
	// never was one, and First is Last+1 if none is kept.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Bytes is the sum of the items that are kept.
	Bytes  int64 `json:"bytes"`
	Closed bool  `json:"closed"`
	// Updated is when the stream was last appended to or closed; zero if it never was.
	Updated time.Time `json:"updated,omitzero"`
	// Life is the id of the actor's life that First and Last count in.
	Life string `json:"life,omitempty"`
}

// A StreamItem is one item of a stream.
type StreamItem struct {
	// Sequence counts from 1 without gaps.
	Sequence uint64
	Time     time.Time
	// Data is CBOR.
	Data []byte
}

// A StreamPage has the items after a position in a stream.
type StreamPage struct {
	// Missed counts the items between the position and the first of Items that are no longer kept.
	Missed uint64
	// Reset is set if the position is beyond the last item, so it is not one of this stream.
	// Reading begins anew, and Missed counts from the first item.
	Reset bool
	Items []StreamItem
	// Next is the position after Items.
	Next uint64
	// Closed is set if the stream is closed and nothing follows Items.
	Closed bool
}

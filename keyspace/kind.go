package keyspace

import "strconv"

// Kind is the first byte of a logical key. It says which subsystem of the actor owns the key.
//
// The table of kinds may only grow. A kind that is no longer written keeps its number and its
// layout, so that old stores stay readable.
type Kind byte

// The kinds that have keys of several layouts. A layout has the number of any other kind.
const (
	KindWorkflow Kind = 0x07
	KindTraces   Kind = 0x08
	KindSQLite   Kind = 0x09
)

// String returns the name of the kind, such as "kv", or "kind 0x.." for an unknown kind.
func (k Kind) String() string {
	if name := k.name(); name != "" {
		return name
	}
	text := strconv.FormatUint(uint64(k), 16)
	if k < 0x10 {
		text = "0" + text
	}
	return "kind 0x" + text
}

// name returns the name of the kind, and "" for an unknown kind.
func (k Kind) name() string {
	for _, l := range layouts {
		if l.Kind == k {
			return l.name()
		}
	}
	return ""
}

// Range returns the bounds of all logical keys of the kind: start <= key < end. The end of the last
// possible kind, 0xFF, is nil: no bound.
func (k Kind) Range() (start, end []byte) {
	start = []byte{byte(k)}
	return start, Successor(start)
}

// Check returns the fault of a key that is not a sound key of the kind, as a [*SyntaxError].
func (k Kind) Check(key []byte) error {
	l, _, bad := find(key)
	switch {
	case bad != nil:
		return bad
	case l.Kind != k:
		return &SyntaxError{k.String() + " key", 0, "found " + l.name()}
	}
	return nil
}

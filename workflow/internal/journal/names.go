package journal

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/cairn-run/cairn/keyspace"
)

// Limits of the names of a run.
const (
	MaxName      = 256    // bytes of a name
	MaxNames     = 65_536 // distinct names of a run
	CrowdedNames = 1_000  // distinct names above which a run gets a warning
)

// A NameError says why a name cannot be used.
type NameError struct {
	Name   string // shortened if it is too long
	Reason string
}

func (e *NameError) Error() string {
	return "workflow: name " + strconv.Quote(e.Name) + ": " + e.Reason
}

// Names is the registry of the names in the locations of a run: a name keeps its first index.
//
//  1. Indexes are given in sequence from 0, and never reused.
//  2. The first names, as many as Written returns, are in the journal; Write puts the rest. Write
//     must run before a row with an index is written, in the same transaction.
//  3. A name stays registered when its transaction is undone; the next transaction writes it.
type Names struct {
	list    []string
	byName  map[string]uint32
	written int // how many are in the journal, or in the writes of the transaction
	durable int // the value of written when the transaction began

	key, value []byte // buffers
}

// NewNames returns a registry of the recorded names, in the order of indexes.
func NewNames(list []string) *Names {
	n := &Names{list: list, byName: make(map[string]uint32, len(list)), written: len(list), durable: len(list)}
	for i, s := range list {
		// If a name is recorded twice, the first record counts.
		if _, twice := n.byName[s]; !twice {
			n.byName[s] = uint32(i)
		}
	}
	return n
}

// LoadNames reads the registry.
func LoadNames(r Reader) (*Names, error) {
	var list []string
	start, end := keyspace.WorkflowName.Range()
	err := r.Scan(start, end, func(key, value []byte) error {
		index, err := keyspace.WorkflowName.Parse(key)
		if err != nil {
			return Corrupt(key, err)
		}
		if int(index) != len(list) {
			return Corrupt(key, fmt.Errorf("name %d follows name %d", index, len(list)-1))
		}
		list = append(list, string(value))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return NewNames(list), nil
}

// Index returns the index of a name, and registers it if it is new. The error is a *NameError.
func (n *Names) Index(s string) (i uint32, isNew bool, err error) {
	if i, ok := n.byName[s]; ok {
		return i, false, nil
	}
	switch {
	case s == "":
		return 0, false, &NameError{s, "empty"}
	case len(s) > MaxName:
		return 0, false, &NameError{s[:MaxName], fmt.Sprintf("has %d bytes, and the limit is %d", len(s), MaxName)}
	case !utf8.ValidString(s):
		return 0, false, &NameError{s, "is not UTF-8"}
	case len(n.list) >= MaxNames:
		return 0, false,
			&NameError{s,
				fmt.Sprintf("the run has %d names already, which is the limit: names that are made from data do not belong into a native loop, but into ForEach or Loop, which number their rounds", MaxNames)}
	}
	i = uint32(len(n.list))
	n.list = append(n.list, s)
	n.byName[s] = i
	return i, true, nil
}

// Lookup returns the index of a registered name.
func (n *Names) Lookup(s string) (i uint32, ok bool) {
	i, ok = n.byName[s]
	return i, ok
}

// Name returns the name of an index, or "?7" if index 7 has no name.
func (n *Names) Name(i uint32) string {
	if uint64(i) >= uint64(len(n.list)) {
		return "?" + strconv.FormatUint(uint64(i), 10)
	}
	return n.list[i]
}

// Len returns the number of names.
func (n *Names) Len() int { return len(n.list) }

// Written returns the number of names in the journal, including writes of the transaction.
func (n *Names) Written() int { return n.written }

// Crowded reports whether there are enough names for a warning: they are probably made from data.
func (n *Names) Crowded() bool { return len(n.list) > CrowdedNames }

// Begin begins a transaction. Undone reverts the writes since.
func (n *Names) Begin() { n.durable = n.written }

// Undone reverts the writes of an undone transaction.
func (n *Names) Undone() { n.written = n.durable }

// Write puts the names that are not in the journal yet.
func (n *Names) Write(j Journal) error {
	for ; n.written < len(n.list); n.written++ {
		n.key = NameKey(n.key[:0], uint32(n.written))
		n.value = append(n.value[:0], n.list[n.written]...)
		if err := PutNew(j, n.key, n.value); err != nil {
			return err
		}
	}
	return nil
}

// Path prints a location: names joined by slashes, iterations as ~7. It is for people; two
// locations may print alike.
func (n *Names) Path(loc Location) string {
	segments, err := loc.Segments()
	if err != nil {
		return fmt.Sprintf("?%x", []byte(loc))
	}
	var dst []byte
	for _, s := range segments {
		if s.Loop {
			dst = append(dst, '~')
			dst = strconv.AppendUint(dst, uint64(s.Iteration), 10)
			continue
		}
		if len(dst) > 0 {
			dst = append(dst, '/')
		}
		dst = append(dst, n.Name(s.Name)...)
	}
	return string(dst)
}

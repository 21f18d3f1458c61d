package engine

import (
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/cairn-run/cairn/keyspace"
)

// The names are in every file of a store: a store can only be opened with the
// comparer and the merger that it was made with.
const formatName = "cairn.v1"

// newComparer returns the order of rows: bytewise, split where keyspace.SplitRow says, so that one
// bloom filter entry stands for all rows of a logical key.
//
// Order must agree with the split (a <= b implies prefix(a) <= prefix(b)); the comment of SplitRow
// says why it does for any bytes, which is why the bytewise separators of Pebble's default comparer
// can be kept. A row without its first bytes is not a row. Pebble needs that only for sstables
// ingested under a synthetic prefix, which this store never does.
func newComparer() *pebble.Comparer {
	c := *pebble.DefaultComparer
	c.Name = formatName
	c.Split = keyspace.SplitRow
	c.ImmediateSuccessor = keyspace.AppendSplitSuccessor
	return &c
}

// newMerger returns a merger that no row uses. It is registered from the first day because Pebble
// refuses a store under another merger name than it was made with.
func newMerger() *pebble.Merger {
	return &pebble.Merger{Name: formatName, Merge: pebble.DefaultMerger.Merge}
}

// bitsPerKey gives a false positive in a hundred.
const bitsPerKey = bloom.FilterPolicy(10)

package kvrows

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// An Index is the definition of a search index, and how far it is built. Its content is in tables
// of the actor's SQLite database.
type Index struct {
	// Prefix is packed: the index has the entries whose keys begin with it.
	Prefix []byte
	IndexState
}

// IndexState is the stored part of an index.
type IndexState struct {
	_ struct{} `cbor:",toarray"`
	// ID is in the names of the index's tables. Another definition has another one.
	ID        uint64
	Paths     []string
	Weights   []float64
	Tokenizer string
	Created   int64 // Unix milliseconds
	// Behind: the index may lack entries whose packed keys are greater than After, or still have
	// removed ones. Each turn keeps the entries up to After up to date, and of the rest the ones
	// that it changes.
	Behind bool
	After  []byte
	// Fresh: the tables must be made anew before anything else. After is empty then.
	Fresh bool
	// Due is when building goes on, in Unix milliseconds, if the index is behind.
	Due int64
	// Failed counts the attempts to build on that failed, one after the other.
	Failed uint64
	// Most bounds the entries that are added next, since more were too much for a turn; 0 means as
	// many as usual.
	Most uint64
	// Skip is the key of an entry that alone is too much for a turn, if there is one: building
	// leaves it out.
	Skip []byte
}

// Has reports whether a packed key is in the index.
func (ix *Index) Has(key []byte) bool { return (&Scope{Prefix: ix.Prefix}).has(key) }

// End is the bound of the packed keys of the index.
func (ix *Index) End() []byte { return append(ix.Prefix[:len(ix.Prefix):len(ix.Prefix)], 0xFF) }

// Meets reports whether a range of packed keys has keys of the index. An empty end is the end of
// the store.
func (ix *Index) Meets(start, end string) bool {
	return start < string(ix.End()) && (end == "" || string(ix.Prefix) < end)
}

func (ix *Index) row() []byte {
	return keyspace.KVIndex.Append(nil, keyspace.UserKV.Append(nil, ix.Prefix))
}

// Put stores the index, and arms or disarms the row that continues building it.
func (ix *Index) Put(w *engine.WriteSet) error {
	old, there, err := FindIndex(w, ix.Prefix)
	if err != nil {
		return err
	}
	if there {
		old.disarm(w)
	}
	if ix.Behind {
		w.SetWake(ix.Due, keyspace.WakeIndex, ix.Name(), "")
	}
	value, err := record.Encode(&ix.IndexState)
	if err != nil {
		return err
	}
	return w.Put(ix.row(), value, engine.PutOptions{Exempt: true})
}

// Remove removes the index.
func (ix *Index) Remove(w *engine.WriteSet) error {
	ix.disarm(w)
	_, err := w.Delete(ix.row())
	return err
}

func (ix *Index) disarm(w *engine.WriteSet) {
	if ix.Behind {
		w.ClearWake(ix.Due, keyspace.WakeIndex, ix.Name(), "")
	}
}

// Name is the name of the index in the wake index.
func (ix *Index) Name() string { return strconv.FormatUint(ix.ID, 10) }

// FallBehind records that entries from a packed key on must be compared with the index again, from
// a time on.
func (ix *Index) FallBehind(key []byte, due int64) {
	before := []byte(nil)
	if len(key) > len(ix.Prefix) && bytes.HasPrefix(key, ix.Prefix) {
		before = key[:len(key)-1] // not a key, and not greater than one below
	}
	if !ix.Behind || bytes.Compare(before, ix.After) < 0 {
		ix.After = before
	}
	if !ix.Behind || due < ix.Due {
		ix.Due = due
	}
	ix.Behind = true
}

// Renew schedules a rebuild of the tables of the index, from a time on.
func (ix *Index) Renew(due int64) {
	ix.Behind, ix.Fresh, ix.After, ix.Due = true, true, nil, due
	ix.Built(0)
}

// Built records that building goes on, with up to so many entries.
func (ix *Index) Built(most uint64) { ix.Failed, ix.Most, ix.Skip = 0, most, nil }

// FindIndex returns the index with a prefix.
func FindIndex(rows engine.Reader, prefix []byte) (*Index, bool, error) {
	e, there, err := rows.Get((&Index{Prefix: prefix}).row())
	if err != nil || !there {
		return nil, false, err
	}
	e.Key = (&Index{Prefix: prefix}).row()
	ix, err := parseIndex(&e)
	return ix, err == nil, err
}

// Indexes returns all indexes in the order of their prefixes.
func Indexes(rows engine.Reader) (list []*Index, err error) {
	q := engine.ListQuery{}
	q.Start, q.End = keyspace.KVIndex.Range()
	each(rows, q, func(e *engine.Entry, eerr error) bool {
		var ix *Index
		if err = eerr; err == nil {
			ix, err = parseIndex(e)
		}
		list = append(list, ix)
		return err == nil
	})
	return list, err
}

func parseIndex(e *engine.Entry) (*Index, error) {
	inner, err := keyspace.KVIndex.Parse(e.Key)
	if err != nil {
		return nil, err
	}
	ix := &Index{Prefix: bytes.Clone(inner[1:])}
	if err := record.Decode(e.Value, &ix.IndexState); err != nil {
		return nil, fmt.Errorf("the index of %s: %w", keyspace.Format(inner), err)
	}
	if len(ix.Paths) == 0 || len(ix.Weights) != len(ix.Paths) {
		return nil, &engine.CorruptError{Row: e.Key, Reason: "no definition of an index"}
	}
	return ix, nil
}

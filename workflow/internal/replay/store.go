package replay

import (
	"strconv"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// A store writes the history of one run.
//
//  1. Before an entry, it writes the names in the entry's location.
//  2. It knows, without reading, which entries have rows elsewhere: metadata, large payloads. These
//     are removed in the same transaction as the entry, when it is overwritten or dropped with a
//     container around it.
//  3. Its data includes the changes of the open transaction; undone reverts them.
type store struct {
	names *journal.Names
	// maxPayload bounds a payload, in bytes.
	maxPayload int64

	nextID uint32 // the first free number of metadata
	root   sideNode
	log    []sideChange // of the open transaction, to revert

	key, value []byte // buffers
}

// A side names the rows of an entry besides its own.
type side struct {
	id   uint32 // of its metadata, 0 for none
	id1  string // of its metadata of form 1, "" for none
	refs []journal.LargeRef
}

func (s side) empty() bool { return s.id == 0 && s.id1 == "" && len(s.refs) == 0 }

// A sideNode is a node in the tree of the locations with a side.
type sideNode struct {
	side
	inner map[string]*sideNode // by the next element
}

// A sideChange is the side of a location before a change.
type sideChange struct {
	loc    string
	before side
}

// newStore returns a store that continues an image. maxPayload 0 is the default.
func newStore(im *image, maxPayload int64) (*store, error) {
	if maxPayload == 0 {
		maxPayload = DefaultMaxPayload
	}
	st := &store{names: im.names, maxPayload: maxPayload, nextID: im.nextID}
	for i := range im.records {
		rec := &im.records[i]
		if rec.form == journal.Form2 && rec.flags&(journal.FlagID|journal.FlagLarge) == 0 {
			continue
		}
		e, err := rec.header()
		if err != nil {
			return nil, err
		}
		if s := (side{id: e.ID, id1: im.ids1[e.ID], refs: e.Large}); !s.empty() {
			st.root.set(rec.loc, s)
		}
	}
	return st, nil
}

// begin begins a transaction.
func (st *store) begin() {
	st.log = st.log[:0]
	st.names.Begin()
}

// undone reverts the changes of a transaction that was undone.
func (st *store) undone() {
	for i := len(st.log) - 1; i >= 0; i-- {
		st.root.set(journal.Location(st.log[i].loc), st.log[i].before)
	}
	st.log = st.log[:0]
	st.names.Undone()
}

// newID returns a number for the metadata of an entry.
func (st *store) newID() uint32 {
	st.nextID++
	return st.nextID - 1
}

// put writes an entry, and returns the size of its row in bytes. Payloads over the inline limit go
// to rows of their own. The error is a *TooLargeError, before anything is written, or one of the
// journal.
func (st *store) put(j Journal, loc journal.Location, e *Entry) (size int, err error) {
	return st.write(j, loc, e, false)
}

// putNew is put for an entry that has no row.
func (st *store) putNew(j Journal, loc journal.Location, e *Entry) (size int, err error) {
	return st.write(j, loc, e, true)
}

func (st *store) write(j Journal, loc journal.Location, e *Entry, isNew bool) (size int, err error) {
	refs, err := st.large(e)
	if err != nil {
		return 0, err
	}
	if err := st.names.Write(j); err != nil {
		return 0, err
	}
	before := st.root.get(loc)
	after := side{id: e.ID, id1: before.id1, refs: refs}
	written := e
	if len(refs) > 0 {
		slim := slimmed(e, refs)
		written = &slim
	}
	if !before.empty() || !after.empty() {
		if err := st.change(j, loc, e, before, after); err != nil {
			return 0, err
		}
	}
	if st.value, err = journal.AppendEntry(st.value[:0], written); err != nil {
		return 0, err
	}
	st.key = journal.HistoryKey(st.key[:0], loc)
	size = len(st.key) + len(st.value)
	if isNew {
		return size, journal.PutNew(j, st.key, st.value)
	}
	return size, j.Put(st.key, st.value)
}

// putMetadata writes the metadata of an entry, whose ID is not 0.
func (st *store) putMetadata(j Journal, id uint32, m *Metadata) error {
	if size := int64(len(m.Progress)); size > st.maxPayload {
		return &TooLargeError{What: "progress of a step", Size: size, Limit: st.maxPayload}
	}
	st.key = journal.MetadataKey(st.key[:0], id)
	st.value = journal.AppendMetadata(st.value[:0], m)
	return j.Put(st.key, st.value)
}

// change writes the other rows of an entry, from the side before to the side after.
func (st *store) change(j Journal, loc journal.Location, e *Entry, before, after side) error {
	if before.id == after.id && journal.SameRefs(before.refs, after.refs) {
		return nil
	}
	st.log = append(st.log, sideChange{string(loc), before})
	st.root.set(loc, after)
	// New references come first, so that shared payloads are not removed in between.
	for i := range after.refs {
		ref := &after.refs[i]
		payload := payloadOf(e, ref.Payload)
		var err error
		if payload == nil {
			err = journal.ShareBlob(j, &ref.Hash)
		} else {
			err = journal.AddBlob(j, &ref.Hash, payload)
		}
		if err != nil {
			return err
		}
	}
	return st.forget(j, side{id: differing(before.id, after.id), refs: before.refs})
}

// differing returns before if it differs from after, else 0.
func differing(before, after uint32) uint32 {
	if before == after {
		return 0
	}
	return before
}

// forget removes the rows of a side.
func (st *store) forget(j Journal, s side) error {
	if s.id != 0 {
		st.key = journal.MetadataKey(st.key[:0], s.id)
		if err := j.Delete(st.key); err != nil {
			return err
		}
	}
	if s.id1 != "" {
		if err := j.Delete(keyspace.WorkflowEntry.Append(nil, s.id1)); err != nil {
			return err
		}
	}
	for i := range s.refs {
		if err := journal.DropBlob(j, &s.refs[i].Hash); err != nil {
			return err
		}
	}
	return nil
}

// large returns the references of an entry: the existing ones, and new ones for its payloads over
// the inline limit.
func (st *store) large(e *Entry) ([]journal.LargeRef, error) {
	big := len(e.Output) > journal.InlineLimit || len(e.State) > journal.InlineLimit ||
		e.Failure != nil && len(e.Failure.Data) > journal.InlineLimit
	for i := range e.Messages {
		big = big || len(e.Messages[i].Body) > journal.InlineLimit
	}
	if !big {
		return e.Large, nil
	}
	refs := append([]journal.LargeRef(nil), e.Large...)
	for which := range journal.PayloadMessages + len(e.Messages) {
		b := payloadOf(e, which)
		if len(b) <= journal.InlineLimit {
			continue
		}
		if size := int64(len(b)); size > st.maxPayload {
			return nil, &TooLargeError{What: payloadName(e, which), Size: size, Limit: st.maxPayload}
		}
		refs = append(refs, journal.LargeRef{Payload: which, Size: uint64(len(b)), Hash: journal.HashOf(b)})
	}
	return refs, nil
}

// payloadOf returns a payload that an entry holds.
func payloadOf(e *Entry, which int) []byte {
	switch {
	case which == journal.PayloadOutput:
		return e.Output
	case which == journal.PayloadState:
		return e.State
	case which == journal.PayloadFailure:
		if e.Failure == nil {
			return nil
		}
		return e.Failure.Data
	default:
		return e.Messages[which-journal.PayloadMessages].Body
	}
}

func payloadName(e *Entry, which int) string {
	switch which {
	case journal.PayloadOutput:
		return "the result of a " + e.Kind.String()
	case journal.PayloadState:
		return "the state of a " + e.Kind.String()
	case journal.PayloadFailure:
		return "the error of a " + e.Kind.String()
	default:
		return "message " + strconv.FormatUint(e.Messages[which-journal.PayloadMessages].ID, 10) +
			" of queue " + strconv.Quote(e.Messages[which-journal.PayloadMessages].Queue)
	}
}

// slimmed returns a copy of an entry without the payloads in refs.
func slimmed(e *Entry, refs []journal.LargeRef) Entry {
	slim := *e
	slim.Large = refs
	slim.Messages = append([]Delivery(nil), e.Messages...)
	if e.Failure != nil {
		failure := *e.Failure
		slim.Failure = &failure
	}
	for _, ref := range refs {
		switch {
		case ref.Payload == journal.PayloadOutput:
			slim.Output = nil
		case ref.Payload == journal.PayloadState:
			slim.State = nil
		case ref.Payload == journal.PayloadFailure:
			slim.Failure.Data = nil
		default:
			slim.Messages[ref.Payload-journal.PayloadMessages].Body = nil
		}
	}
	return slim
}

// drop removes all entries inside loc, and with self its own, with all rows that belong to them.
func (st *store) drop(j Journal, loc journal.Location, self bool) error {
	node := st.root.find(loc)
	if node != nil {
		if err := st.forgetAll(j, loc, node, self); err != nil {
			return err
		}
	}
	start := journal.HistoryKey(nil, loc)
	if !self {
		start = append(start, 0) // no element begins with it
	}
	return j.DeleteRange(start, journal.HistoryEnd(nil, loc))
}

// dropIterations removes the iterations from <= i < to of the loop at loc, whose name is name.
func (st *store) dropIterations(j Journal, loc journal.Location, name, from, to uint32) error {
	if from >= to {
		return nil
	}
	if node := st.root.find(loc); node != nil {
		for element, inner := range node.inner {
			at := append(append(journal.Location(nil), loc...), element...)
			if i, ok := iterationOf(journal.Location(element)); !ok || i < from || i >= to {
				continue
			}
			if err := st.forgetAll(j, at, inner, true); err != nil {
				return err
			}
		}
	}
	return j.DeleteRange(journal.HistoryKey(nil, journal.ChildIteration(nil, loc, name, from)),
		journal.HistoryKey(nil, journal.ChildIteration(nil, loc, name, to)))
}

// iterationOf returns the number of an element that is an iteration.
func iterationOf(element journal.Location) (uint32, bool) {
	s, err := element.Segments()
	if err != nil || len(s) != 1 || !s[0].Loop {
		return 0, false
	}
	return s[0].Iteration, true
}

// forgetAll removes the rows of all sides inside a node and, with self, of the node itself.
func (st *store) forgetAll(j Journal, loc journal.Location, node *sideNode, self bool) error {
	for element, inner := range node.inner {
		if err := st.forgetAll(j, append(append(journal.Location(nil), loc...), element...), inner, true); err != nil {
			return err
		}
	}
	if !self {
		return nil
	}
	return st.forgetOne(j, loc, node.side)
}

// forgetOne removes the rows of the side of one location.
func (st *store) forgetOne(j Journal, loc journal.Location, gone side) error {
	if gone.empty() {
		return nil
	}
	st.log = append(st.log, sideChange{string(loc), gone})
	st.root.set(loc, side{})
	return st.forget(j, gone)
}

// remove removes one entry, without the entries inside of it.
func (st *store) remove(j Journal, loc journal.Location) error {
	if err := st.forgetOne(j, loc, st.root.get(loc)); err != nil {
		return err
	}
	return j.Delete(journal.HistoryKey(nil, loc))
}

// find returns the node of a location, nil if nothing at or inside it has a side.
func (n *sideNode) find(loc journal.Location) *sideNode {
	for n != nil && len(loc) > 0 {
		end := journal.ElementEnd(loc)
		if end == 0 {
			return nil
		}
		n, loc = n.inner[string(loc[:end])], loc[end:]
	}
	return n
}

// get returns the side of a location.
func (n *sideNode) get(loc journal.Location) side {
	if len(n.inner) == 0 && len(loc) > 0 {
		return side{}
	}
	if n = n.find(loc); n == nil {
		return side{}
	}
	return n.side
}

// set gives a location a side. Nodes that become empty are removed.
func (n *sideNode) set(loc journal.Location, s side) {
	end := journal.ElementEnd(loc)
	if end == 0 {
		n.side = s
		return
	}
	element := string(loc[:end])
	inner := n.inner[element]
	if inner == nil {
		if s.empty() {
			return
		}
		inner = &sideNode{}
		if n.inner == nil {
			n.inner = map[string]*sideNode{}
		}
		n.inner[element] = inner
	}
	inner.set(loc[end:], s)
	if inner.side.empty() && len(inner.inner) == 0 {
		delete(n.inner, element)
	}
}

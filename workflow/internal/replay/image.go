package replay

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"sort"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/workflow/internal/form1"
	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// An image holds the rows of a run, from one ordered scan of them. It does not change with later
// writes.
//
//  1. Records stand in the order of keys: the records inside one follow it directly.
//  2. Values are decoded, and their large payloads fetched, on demand. Values of form 1 are decoded
//     at once.
//  3. The memory of a record's value is shared with its neighbours, in blocks. A block is free when
//     all its values were released.
type image struct {
	fields
	names       *journal.Names
	records     []record
	obligations []numbered // by number
	inbox       []numbered // by number
	metadatas   map[uint32]*Metadata
	ids1        map[uint32]string // of form 1: the id of the metadata with a number in metadatas
	nextID      uint32            // the first free number of metadata
	entries     int
	bytes       int64 // of keys and values of the history and the metadata
	// reader is the source of large payloads. Set it to the current transaction before decoding
	// records.
	reader Reader
}

// A record is one entry of an image.
type record struct {
	im      *image
	loc     journal.Location
	value   []byte // nil once it is decoded or released
	ordinal uint32
	form    uint8
	flags   uint16 // of form 2
	// visited is set by a replay once the code has used the entry.
	visited bool
	decoded *Entry // of a record of form 1 from the start
}

// errStop ends a scan early.
var errStop = errors.New("stop")

// recordPage is the number of records in one page of loadImage.
const recordPage = 512

// loadImage reads all rows of a run except the large values. Without a run, the image has no state.
func loadImage(r Reader) (*image, error) { return loadImageWith(r, nil) }

// loadImageWith is loadImage for a caller that may have loaded the fields in the same transaction;
// known is nil if not.
func loadImageWith(r Reader, known *fields) (*image, error) {
	// There may be many records, and a growing slice is copied repeatedly. So records are gathered
	// in pages, and copied once at the end.
	var pages [][]record
	im := &image{metadatas: map[uint32]*Metadata{}, nextID: 1, reader: r}
	if im.form = journal.Form1; known != nil {
		im.fields = *known
	}
	var arena arena
	var list []string
	var ids []string // of form 1
	var about map[string]*form1.Metadata
	start := []byte{byte(keyspace.KindWorkflow)}
	blobs, _ := keyspace.WorkflowBlob.Range()
	err := r.Scan(start, blobs, func(key, value []byte) error {
		if len(key) > len(journal.HistoryPrefix) && string(key[:len(journal.HistoryPrefix)]) == journal.HistoryPrefix {
			if len(im.records) == cap(im.records) {
				pages = append(pages, im.records)
				im.records = make([]record, 0, recordPage)
			}
			return im.add(key, arena.copy(key[len(journal.HistoryPrefix):]), arena.copy(value))
		}
		if known != nil && keyspace.WorkflowField.Has(key) {
			return nil
		}
		value = bytes.Clone(value)
		switch {
		case keyspace.WorkflowName.Has(key):
			index, err := keyspace.WorkflowName.Parse(key)
			if err == nil && int(index) != len(list) {
				err = &SyntaxError{What: "name", Offset: 0, Reason: "names are missing before it"}
			}
			list = append(list, string(value))
			return journal.Corrupt(key, err)
		case keyspace.WorkflowField.Has(key):
			return im.set(key, value)
		case keyspace.WorkflowMetadata.Has(key):
			im.bytes += int64(len(key) + len(value))
			number, bad := keyspace.WorkflowMetadata.Parse(key)
			if bad != nil {
				id, err := keyspace.WorkflowEntry.Parse(key)
				if err != nil {
					return journal.Corrupt(key, bad)
				}
				m, err := form1.DecodeMetadata(value)
				if about == nil {
					about = make(map[string]*form1.Metadata)
				}
				ids, about[id] = append(ids, id), &m
				return journal.Corrupt(key, err)
			}
			m, err := decodeMetadata(key, value)
			im.metadatas[number] = &m
			im.nextID = max(im.nextID, number+1)
			return err
		case keyspace.WorkflowUndo.Has(key):
			number, err := keyspace.WorkflowUndo.Parse(key)
			im.obligations = append(im.obligations, numbered{number, value})
			return journal.Corrupt(key, err)
		case keyspace.WorkflowMessage.Has(key):
			number, err := keyspace.WorkflowMessage.Parse(key)
			im.inbox = append(im.inbox, numbered{number, value})
			return journal.Corrupt(key, err)
		}
		err := keyspace.KindWorkflow.Check(key)
		if err == nil {
			err = &SyntaxError{What: "key", Offset: 0, Reason: "out of order"}
		}
		return journal.Corrupt(key, err)
	})
	if err != nil {
		return nil, err
	}
	im.records = slices.Concat(append(pages, im.records)...)
	im.names = journal.NewNames(list)
	for _, id := range ids {
		im.number1(id, about[id])
	}
	for i := range im.records {
		if im.records[i].form == journal.Form1 {
			return im, im.adopt(about)
		}
	}
	return im, nil
}

// add adds one row of the history. It keeps loc and value.
func (im *image) add(key []byte, loc journal.Location, value []byte) error {
	for at := 0; at < len(loc); {
		n := journal.ElementEnd(loc[at:])
		if n == 0 {
			return journal.Corrupt(key, &SyntaxError{What: "location", Offset: at, Reason: "no element"})
		}
		at += n
	}
	rec := record{im: im, loc: loc, value: value}
	if p, ok := journal.PeekEntry(value); ok {
		rec.form, rec.ordinal, rec.flags = journal.Form2, p.Ordinal, uint16(p.Flags)
	} else {
		form, err := journal.FormOf("entry", value)
		if err != nil {
			return journal.Corrupt(key, err)
		}
		rec.form = uint8(form)
	}
	im.bytes += int64(len(key) + len(value))
	im.entries++
	im.records = append(im.records, rec)
	return nil
}

// at returns the index of the first record whose location is loc or follows it.
func (im *image) at(loc journal.Location) int {
	return sort.Search(len(im.records), func(i int) bool { return bytes.Compare(im.records[i].loc, loc) >= 0 })
}

// find returns the record of a location, nil if there is none.
func (im *image) find(loc journal.Location) *record {
	if i := im.at(loc); i < len(im.records) && bytes.Equal(im.records[i].loc, loc) {
		return &im.records[i]
	}
	return nil
}

// under returns all records that lie inside loc, itself included, in the order of keys.
func (im *image) under(loc journal.Location) []record {
	from := im.at(loc)
	return im.records[from : from+im.span(from, loc)]
}

// span returns how many records from index from on begin with a prefix. Its cost grows with the
// logarithm of the result.
func (im *image) span(from int, prefix journal.Location) int {
	list := im.records[from:]
	step := 1
	for step <= len(list) && bytes.HasPrefix(list[step-1].loc, prefix) {
		step *= 2
	}
	low := step / 2 // at least this many have the prefix
	high := min(step, len(list))
	return low + sort.Search(high-low, func(i int) bool { return !bytes.HasPrefix(list[low+i].loc, prefix) })
}

// children returns the records directly inside loc, in the order of their ordinals. Records of form
// 1 have none: they come first, in the order of keys, which is that of their names.
func (im *image) children(loc journal.Location) []*record {
	var list []*record
	i := im.at(loc)
	if i < len(im.records) && len(im.records[i].loc) == len(loc) && bytes.Equal(im.records[i].loc, loc) {
		i++
	}
	sorted := true
	for i < len(im.records) && loc.Encloses(im.records[i].loc) {
		rec := &im.records[i]
		n := journal.ElementEnd(rec.loc[len(loc):])
		if n == 0 {
			i++
			continue
		}
		child := rec.loc[:len(loc)+n]
		if len(child) == len(rec.loc) {
			sorted = sorted &&
				(len(list) == 0 || list[len(list)-1].ordinal <= rec.ordinal && list[len(list)-1].form <= rec.form)
			list = append(list, rec)
		}
		if i+1 < len(im.records) && !child.Encloses(im.records[i+1].loc) {
			i++
		} else {
			i += im.span(i, child)
		}
	}
	if !sorted {
		slices.SortStableFunc(list,
			func(a, b *record) int { return cmp.Or(cmp.Compare(a.form, b.form), cmp.Compare(a.ordinal, b.ordinal)) })
	}
	return list
}

// decode returns the entry of a record, with its large payloads. It decodes once. The error is a
// *CorruptError, or one of the image's reader.
func (rec *record) decode() (*Entry, error) {
	e, err := rec.header()
	if err != nil || len(e.Large) == 0 {
		return e, err
	}
	if err := journal.FetchPayloads(rec.im.reader, e); err != nil {
		return nil, journal.Corrupt(journal.HistoryKey(nil, rec.loc), err)
	}
	return e, nil
}

// header is decode without fetching large payloads.
func (rec *record) header() (*Entry, error) {
	if rec.decoded != nil {
		return rec.decoded, nil
	}
	if rec.value == nil {
		return nil, journal.Corrupt(journal.HistoryKey(nil, rec.loc), errors.New("asked for after it was released"))
	}
	e := new(Entry)
	if err := journal.DecodeEntry(e, rec.value); err != nil {
		return nil, journal.Corrupt(journal.HistoryKey(nil, rec.loc), err)
	}
	rec.decoded, rec.value = e, nil
	return e, nil
}

// into is decode into a zero entry of the caller.
func (rec *record) into(e *Entry) error {
	if rec.decoded != nil || rec.value == nil {
		d, err := rec.decode()
		if err == nil {
			*e = *d
		}
		return err
	}
	if err := journal.DecodeEntry(e, rec.value); err != nil {
		return journal.Corrupt(journal.HistoryKey(nil, rec.loc), err)
	}
	if len(e.Large) == 0 {
		return nil
	}
	if err := journal.FetchPayloads(rec.im.reader, e); err != nil {
		return journal.Corrupt(journal.HistoryKey(nil, rec.loc), err)
	}
	return nil
}

// kind returns the kind of a record without decoding it. An invalid value may give any kind.
func (rec *record) kind() Kind {
	switch {
	case rec.decoded != nil:
		return rec.decoded.Kind
	case len(rec.value) > 2:
		return Kind(rec.value[2])
	}
	return 0
}

// metadata returns the metadata of a number, nil if there is none.
func (im *image) metadata(id uint32) *Metadata { return im.metadatas[id] }

// release frees the memory of a record's entry. Its location and visited stay.
func (rec *record) release() { rec.decoded, rec.value = nil, nil }

// An arena copies small byte strings into large blocks.
type arena struct{ block []byte }

func (a *arena) copy(b []byte) []byte {
	const size = 64 << 10
	if len(b) > size/8 {
		return bytes.Clone(b)
	}
	if len(b) > cap(a.block)-len(a.block) {
		a.block = make([]byte, 0, size)
	}
	at := len(a.block)
	a.block = append(a.block, b...)
	return a.block[at:len(a.block):len(a.block)]
}

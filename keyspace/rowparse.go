package keyspace

import (
	"math"
	"strconv"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// RowType says which of the known rows a [Row] is.
type RowType uint8

const (
	RowData      RowType = 1 + iota // a chunk of a value: ID, Key, Chunk
	RowMetadata                     // metadata of a logical key: ID, Key
	RowHead                         // head of an actor: ID
	RowIdentity                     // identity of an actor: ID
	RowDirectory                    // name of an actor: Namespace, ActorType, ActorKey
	RowTombstone                    // destroyed actor: ID
	RowWake                         // entry of the wake index: ID, Wake
	RowOutbox                       // change record: Seq
	RowMeta                         // metadata of the store: Name
)

// String returns the name of the row type in lower case.
func (t RowType) String() string {
	names := [...]string{"none", "data", "metadata", "head", "identity", "directory", "tombstone", "wake", "outbox", "meta"}
	if int(t) < len(names) {
		return names[t]
	}
	return "row type " + strconv.Itoa(int(t))
}

// Row is a row of the store, taken apart. Type says which of the fields mean
// something; the others are zero.
type Row struct {
	Space Space
	Type  RowType
	ID    ActorID
	Key   []byte // logical key, unescaped
	Chunk int    // from 0

	Namespace string
	ActorType string
	ActorKey  []string

	Wake WakeRow
	Seq  uint64
	Name string

	buf []byte // backs Key; reused by Parse
}

// WakeRow is an entry of the wake index: at Due (Unix milliseconds) the actor must wake for the
// reason Kind. Name and Instance are those of an alarm and empty for other kinds.
type WakeRow struct {
	Due      int64
	ID       ActorID
	Kind     WakeKind
	Name     string
	Instance string
}

// ParseRow takes a row apart. It accepts exactly the rows that the Append
// functions make; the error is a [*SyntaxError]. The result shares no memory
// with row. To parse many rows without allocating, use [Row.Parse].
func ParseRow(row []byte) (Row, error) {
	var r Row
	err := r.Parse(row)
	return r, err
}

// Parse is [ParseRow] into an existing Row, whose memory it reuses: Key is valid until the next
// Parse. For rows of [SpaceActors] it does not allocate once its buffer has grown to the longest
// key. On error the Row is zero, except its buffer.
func (r *Row) Parse(row []byte) error {
	buf := r.buf[:0]
	*r = Row{buf: buf}
	err := r.parse(row)
	if err != nil {
		*r = Row{buf: buf}
	}
	return inside("row", 0, err)
}

func (r *Row) parse(row []byte) error {
	d := tuple.NewDecoder(row)
	space, err := root(&d)
	if err != nil {
		return err
	}
	r.Space = space
	switch space {
	case SpaceDirectory:
		r.Type = RowDirectory
		err = r.parseDirectory(&d)
	case SpaceTombstones:
		r.Type = RowTombstone
		r.ID, err = actorElement(&d)
	case SpaceActors:
		err = r.parseActor(&d)
	case SpaceWakes:
		r.Type = RowWake
		err = r.parseWake(&d)
	case SpaceOutbox:
		r.Type = RowOutbox
		r.Seq, err = d.Uint()
	case SpaceStore:
		r.Type = RowMeta
		r.Name, err = d.String()
	}
	if err != nil {
		return err
	}
	return d.End()
}

// root reads the root and the space.
func root(d *tuple.Decoder) (Space, error) {
	for _, want := range [...]int64{rootFirst, rootSecond} {
		at := d.Offset()
		got, err := d.Int()
		if err != nil {
			return 0, err
		}
		if got != want {
			return 0, &tuple.SyntaxError{Offset: at, Reason: "not under the root (0, 3)"}
		}
	}
	at := d.Offset()
	space, err := d.Int()
	if err != nil {
		return 0, err
	}
	if space < int64(SpaceDirectory) || space > int64(SpaceStore) {
		return 0, &tuple.SyntaxError{Offset: at, Reason: "unknown space " + strconv.FormatInt(space, 10)}
	}
	return Space(space), nil
}

func actorElement(d *tuple.Decoder) (ActorID, error) {
	id, err := d.UUID()
	return ActorID(id), err
}

func (r *Row) parseActor(d *tuple.Decoder) (err error) {
	if r.ID, err = actorElement(d); err != nil {
		return err
	}
	wrapped := d.Peek() == tuple.TypeTuple
	if wrapped {
		if err := d.Nested(); err != nil {
			return err
		}
		if r.buf, err = d.AppendBytes(r.buf); err != nil {
			return err
		}
		if err := d.EndNested(); err != nil {
			return err
		}
		r.Key = r.buf[:len(r.buf):len(r.buf)]
		if r.Key == nil {
			r.Key = []byte{}
		}
	}
	at := d.Offset()
	tag, err := d.Int()
	if err != nil {
		return err
	}
	switch {
	case wrapped && tag == tagMetadata:
		r.Type = RowMetadata
	case wrapped && tag == tagData:
		r.Type = RowData
		at := d.Offset()
		chunk, err := d.Int()
		if err != nil {
			return err
		}
		if chunk < 0 || chunk > math.MaxInt32 {
			return &tuple.SyntaxError{Offset: at, Reason: "chunk number out of range"}
		}
		r.Chunk = int(chunk)
	case !wrapped && tag == tagHead:
		r.Type = RowHead
	case !wrapped && tag == tagIdentity:
		r.Type = RowIdentity
	default:
		return &tuple.SyntaxError{Offset: at, Reason: "unknown row " + strconv.FormatInt(tag, 10)}
	}
	return nil
}

func (r *Row) parseDirectory(d *tuple.Decoder) (err error) {
	if r.Namespace, err = d.String(); err != nil {
		return err
	}
	if r.ActorType, err = d.String(); err != nil {
		return err
	}
	r.ActorKey, err = actorKey(d)
	return err
}

// actorKey reads the parts of an actor's key, to the end.
func actorKey(d *tuple.Decoder) (key []string, err error) {
	for d.More() {
		part, err := d.String()
		if err != nil {
			return nil, err
		}
		key = append(key, part)
	}
	return key, nil
}

func (r *Row) parseWake(d *tuple.Decoder) (err error) {
	w := &r.Wake
	if w.Due, err = d.Int(); err != nil {
		return err
	}
	if w.ID, err = actorElement(d); err != nil {
		return err
	}
	r.ID = w.ID
	at := d.Offset()
	kind, err := d.Uint()
	if err != nil {
		return err
	}
	if kind > math.MaxUint8 {
		return &tuple.SyntaxError{Offset: at, Reason: "wake kind out of range"}
	}
	w.Kind = WakeKind(kind)
	if w.Name, err = d.String(); err != nil {
		return err
	}
	w.Instance, err = d.String()
	return err
}

// parseAs parses a row that must be of one type.
func parseAs(row []byte, want RowType) (Row, error) {
	r, err := ParseRow(row)
	if err == nil && r.Type != want {
		err = &SyntaxError{"row", 0, "want a " + want.String() + " row, found " + r.Type.String()}
	}
	if err != nil {
		return Row{}, err
	}
	return r, nil
}

// ParseDirectoryRow takes a directory row apart; key is nil for an actor whose
// key has no parts.
func ParseDirectoryRow(row []byte) (namespace, typ string, key []string, err error) {
	r, err := parseAs(row, RowDirectory)
	return r.Namespace, r.ActorType, r.ActorKey, err
}

// ParseDirectoryKey returns the key of an actor whose directory row begins with
// prefix bytes of [AppendDirectoryPrefix] for its namespace and type; it is nil
// for a key without parts.
func ParseDirectoryKey(row []byte, prefix int) ([]string, error) {
	d := tuple.NewDecoder(row[prefix:])
	key, err := actorKey(&d)
	return key, inside("row", prefix, err)
}

// ParseTombstoneRow returns the id of the destroyed actor.
func ParseTombstoneRow(row []byte) (ActorID, error) {
	r, err := parseAs(row, RowTombstone)
	return r.ID, err
}

// ParseWakeRow takes a row of the wake index apart.
func ParseWakeRow(row []byte) (WakeRow, error) {
	r, err := parseAs(row, RowWake)
	return r.Wake, err
}

// ParseOutboxRow returns the sequence number of a change record.
func ParseOutboxRow(row []byte) (uint64, error) {
	r, err := parseAs(row, RowOutbox)
	return r.Seq, err
}

// ParseMetaRow returns the name of a piece of the store's metadata.
func ParseMetaRow(row []byte) (string, error) {
	r, err := parseAs(row, RowMeta)
	return r.Name, err
}

// Append appends the row that r describes: the inverse of [ParseRow]. A Row of
// no known type appends nothing.
func (r Row) Append(dst []byte) []byte {
	switch r.Type {
	case RowData:
		return AppendDataRow(dst, r.ID, r.Key, r.Chunk)
	case RowMetadata:
		return AppendMetadataRow(dst, r.ID, r.Key)
	case RowHead:
		return AppendHeadRow(dst, r.ID)
	case RowIdentity:
		return AppendIdentityRow(dst, r.ID)
	case RowDirectory:
		return AppendDirectoryRow(dst, r.Namespace, r.ActorType, r.ActorKey)
	case RowTombstone:
		return AppendTombstoneRow(dst, r.ID)
	case RowWake:
		w := r.Wake
		return AppendWakeRow(dst, w.Due, w.ID, w.Kind, w.Name, w.Instance)
	case RowOutbox:
		return AppendOutboxRow(dst, r.Seq)
	case RowMeta:
		return AppendMetaRow(dst, r.Name)
	default:
		return dst
	}
}

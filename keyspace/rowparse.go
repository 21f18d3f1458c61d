package keyspace

import (
	"math"
	"slices"
	"strconv"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// RowType is the type of a [Row]. Other packages need only a few types.
type RowType uint8

const (
	RowData       RowType = 1 + iota // a chunk of a value: ID, Key, Chunk
	RowMetadata                      // metadata of a logical key: ID, Key
	RowHead                          // head of an actor: ID
	rowIdentity                      // identity of an actor: ID
	rowDirectory                     // name of an actor: namespace, actorType, actorKey
	RowTombstone                     // destroyed actor: ID
	RowWake                          // entry of the wake index: ID, wake
	rowOutbox                        // change record: seq
	rowMeta                          // metadata of the store: name
	rowListing                       // entry of the listing index: listing
	rowAudit                         // record of the audit log: seq
	rowAuditActor                    // the same by actor: namespace, actorType, actorKey, seq
)

var rowNames = [...]string{"none", "data", "metadata", "head", "identity", "directory", "tombstone",
	"wake", "outbox", "meta", "listing", "audit", "audit of actor"}

// Row is a parsed row of the store. Type says which fields are set; the others are zero.
type Row struct {
	Type  RowType
	ID    ActorID
	Key   []byte // logical key, unescaped; not nil if the row has one
	Chunk int    // from 0

	namespace, actorType string
	actorKey             []string
	wake                 WakeRow
	seq                  uint64
	name                 string
	listing              tuple.Tuple
}

// ParseRow parses a row. It accepts exactly the rows that the Append functions make. The error is a
// [*SyntaxError]. The result shares no memory with row.
func ParseRow(row []byte) (Row, error) {
	var r Row
	if err := r.parse(row); err != nil {
		return Row{}, inside("row", 0, err)
	}
	return r, nil
}

func (r *Row) parse(row []byte) error {
	d := tuple.NewDecoder(row)
	space, err := root(&d)
	if err != nil {
		return err
	}
	switch space {
	case spaceDirectory:
		r.Type = rowDirectory
		err = r.parseDirectory(&d)
	case spaceTombstones:
		r.Type = RowTombstone
		r.ID, err = actorElement(&d)
	case spaceActors:
		err = r.parseActor(&d)
	case spaceWakes:
		r.Type = RowWake
		err = r.parseWake(&d)
	case spaceOutbox:
		r.Type = rowOutbox
		r.seq, err = d.Uint()
	case spaceStore:
		r.Type = rowMeta
		r.name, err = d.String()
	case spaceListing:
		r.Type = rowListing
		err = r.parseListing(&d)
	case spaceAudit:
		err = r.parseAudit(&d)
	}
	if err != nil {
		return err
	}
	return d.End()
}

// root reads the root and the space.
func root(d *tuple.Decoder) (space, error) {
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
	n, err := d.Int()
	if err != nil {
		return 0, err
	}
	if !slices.ContainsFunc(spaces[:], func(s spaceFacts) bool { return int64(s.space) == n }) {
		return 0, &tuple.SyntaxError{Offset: at, Reason: "unknown space " + strconv.FormatInt(n, 10)}
	}
	return space(n), nil
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
		if r.Key, err = d.AppendBytes([]byte{}); err != nil {
			return err
		}
		if err := d.EndNested(); err != nil {
			return err
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
		r.Type = rowIdentity
	default:
		return &tuple.SyntaxError{Offset: at, Reason: "unknown row " + strconv.FormatInt(tag, 10)}
	}
	return nil
}

func (r *Row) parseDirectory(d *tuple.Decoder) (err error) {
	if r.namespace, err = d.String(); err != nil {
		return err
	}
	if r.actorType, err = d.String(); err != nil {
		return err
	}
	r.actorKey, err = actorKey(d)
	return err
}

func (r *Row) parseAudit(d *tuple.Decoder) error {
	at := d.Offset()
	which, err := d.Int()
	if err != nil {
		return err
	}
	switch which {
	case auditRecord:
		r.Type = rowAudit
	case auditActor:
		r.Type = rowAuditActor
		if r.namespace, err = d.String(); err == nil {
			r.actorType, err = d.String()
		}
		for err == nil && d.Peek() == tuple.TypeString {
			var part string
			part, err = d.String()
			r.actorKey = append(r.actorKey, part)
		}
		if err != nil {
			return err
		}
	default:
		return &tuple.SyntaxError{Offset: at, Reason: "unknown row " + strconv.FormatInt(which, 10)}
	}
	r.seq, err = d.Uint()
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
	w := &r.wake
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

// parseAs parses a row, which must be of one type.
func parseAs(row []byte, want RowType) (Row, error) {
	r, err := ParseRow(row)
	if err == nil && r.Type != want {
		err = &SyntaxError{"row", 0, "want a " + rowNames[want] + " row, found " + rowNames[r.Type]}
	}
	if err != nil {
		return Row{}, err
	}
	return r, nil
}

// ParseDirectoryRow parses a directory row; key is nil for an actor whose key has no parts.
func ParseDirectoryRow(row []byte) (namespace, typ string, key []string, err error) {
	r, err := parseAs(row, rowDirectory)
	return r.namespace, r.actorType, r.actorKey, err
}

// ParseDirectoryKey returns the key of an actor whose directory row begins with
// prefix bytes of [AppendDirectoryPrefix] for its namespace and type; it is nil
// for a key without parts.
func ParseDirectoryKey(row []byte, prefix int) ([]string, error) {
	d := tuple.NewDecoder(row[prefix:])
	key, err := actorKey(&d)
	if err != nil {
		return nil, inside("row", prefix, err)
	}
	return key, nil
}

// ParseWakeRow parses a row of the wake index.
func ParseWakeRow(row []byte) (WakeRow, error) {
	r, err := parseAs(row, RowWake)
	return r.wake, err
}

// ParseOutboxRow returns the sequence number of a change record.
func ParseOutboxRow(row []byte) (uint64, error) {
	r, err := parseAs(row, rowOutbox)
	return r.seq, err
}

// ParseAuditRow returns the sequence number of a record of the audit log.
func ParseAuditRow(row []byte) (uint64, error) {
	r, err := parseAs(row, rowAudit)
	return r.seq, err
}

// ParseAuditActorRow returns the sequence number in a row of [AppendAuditActorRow].
func ParseAuditActorRow(row []byte) (uint64, error) {
	r, err := parseAs(row, rowAuditActor)
	return r.seq, err
}

// FormatRow prints a row for people, the logical key in it as [Format] does:
// actor/<actor id>/kv("users", 42)/data 0. Bytes that are not a row print as a question mark and
// all bytes in hexadecimal. It never panics.
func FormatRow(row []byte) string {
	r, err := ParseRow(row)
	if err != nil {
		return string(appendHex([]byte("?"), row))
	}
	var dst []byte
	switch r.Type {
	case rowDirectory:
		dst = append(dst, "directory("...)
		dst = appendQuoted(dst, append([]string{r.namespace, r.actorType}, r.actorKey...))
		dst = append(dst, ')')
	case RowTombstone:
		dst = r.ID.AppendString(append(dst, "tombstone/"...))
	case RowWake:
		dst = strconv.AppendInt(append(dst, "wake("...), r.wake.Due, 10)
		dst = r.wake.ID.AppendString(append(dst, ", "...))
		dst = append(append(dst, ", "...), r.wake.Kind.String()...)
		dst = appendQuoted(append(dst, ", "...), []string{r.wake.Name, r.wake.Instance})
		dst = append(dst, ')')
	case rowOutbox:
		dst = strconv.AppendUint(append(dst, "outbox/"...), r.seq, 10)
	case rowAudit:
		dst = strconv.AppendUint(append(dst, "audit/"...), r.seq, 10)
	case rowAuditActor:
		dst = appendQuoted(append(dst, "audit("...), append([]string{r.namespace, r.actorType}, r.actorKey...))
		dst = strconv.AppendUint(append(dst, ")/"...), r.seq, 10)
	case rowMeta:
		dst = append(strconv.AppendQuote(append(dst, "store("...), r.name), ')')
	case rowListing:
		dst = r.listing.AppendText(append(dst, "listing"...))
	default: // a row of an actor
		dst = append(r.ID.AppendString(append(dst, "actor/"...)), '/')
		if r.Key != nil {
			dst = append(append(dst, Format(r.Key)...), '/')
		}
		dst = append(dst, rowNames[r.Type]...)
		if r.Type == RowData {
			dst = strconv.AppendInt(append(dst, ' '), int64(r.Chunk), 10)
		}
	}
	return string(dst)
}

// appendQuoted appends the parts in quotes, with ", " between.
func appendQuoted(dst []byte, parts []string) []byte {
	for i, part := range parts {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = strconv.AppendQuote(dst, part)
	}
	return dst
}

package engine

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/cairn-run/cairn/keyspace"
)

// metadata describes the value of a logical key. The metadata row of a key, which exists if and
// only if the key does, is
//
//	format 02 | version uvarint | created varint | updated - created varint | expire varint | size uvarint | value
//
// A value of more than ChunkSize bytes is in data rows instead. So most keys are one row, which one
// read finds. Times are Unix milliseconds, expire 0 means never. Format 04 has the encoding of the
// value, a byte above 0, after the format.
//
// Format 01, which is only read, has all values in data rows, and their number:
//
//	format 01 | version | created | updated - created | size | chunks uvarint | expire
//
// The state of an actor has no such row: it is in the root.
type metadata struct {
	version Version
	created int64
	updated int64
	expire  int64
	size    uint32
	chunks  uint32 // data rows; 0 for a value that is in the row of its metadata
	// encoding is PutOptions.Encoding.
	encoding uint8
}

const (
	chunkedFormat  = 1
	metadataFormat = 2
	rootFormat     = 3
	encodedFormat  = 4
)

// maxMetadata is more than the size of any key's metadata.
const maxMetadata = 2 + 5*binary.MaxVarintLen64

// inlineState bounds a state in the root, in bytes. Every commit writes the root, so a larger state
// would be written by commits that do not change it.
const inlineState = 512

// dataRows returns the number of data rows of a value.
func dataRows(key []byte, size int) int {
	if size <= ChunkSize && (size <= inlineState || !isState(key)) {
		return 0
	}
	return chunksOf(size)
}

// chunksOf returns how many data rows hold so many bytes.
func chunksOf(size int) int { return (size + ChunkSize - 1) / ChunkSize }

// expired reports whether the key reads as absent at now.
func (m *metadata) expired(now int64) bool { return m.expire != 0 && m.expire <= now }

// append appends the metadata row of a key, without the value.
func (m *metadata) append(dst []byte) []byte {
	if m.encoding == 0 {
		return m.appendFields(append(dst, metadataFormat))
	}
	return m.appendFields(append(dst, encodedFormat, m.encoding))
}

func (m *metadata) appendFields(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(m.version))
	dst = binary.AppendVarint(dst, m.created)
	dst = binary.AppendVarint(dst, m.updated-m.created)
	dst = binary.AppendVarint(dst, m.expire)
	return binary.AppendUvarint(dst, uint64(m.size))
}

// fields decodes the fields of appendFields.
func (m *metadata) fields(d *decoder) {
	m.version, m.created = Version(d.uvarint()), d.varint()
	m.updated = m.created + d.varint()
	m.expire = d.varint()
	m.setSize(d)
}

func (m *metadata) setSize(d *decoder) {
	size := d.uvarint()
	if size > math.MaxInt32 {
		d.fail("size of a value is out of range")
		return
	}
	m.size = uint32(size)
}

// parseMetadata reads a metadata row. The value aliases b; it is nil if there are data rows or b is
// not a metadata row.
func parseMetadata(b []byte) (m metadata, value []byte, err error) {
	d := decoder{b: b}
	switch format := d.byte(); format {
	case metadataFormat, encodedFormat:
		if format == encodedFormat {
			if m.encoding = d.byte(); m.encoding == 0 {
				d.fail("the encoding of a value is 0")
			}
		}
		m.fields(&d)
		if m.size > ChunkSize {
			m.chunks = uint32(chunksOf(int(m.size)))
		} else {
			value = d.take(int(m.size))
		}
	case chunkedFormat:
		m.version, m.created = Version(d.uvarint()), d.varint()
		m.updated = m.created + d.varint()
		m.setSize(&d)
		m.chunks = uint32(chunksOf(int(m.size)))
		if chunks := d.uvarint(); chunks != uint64(m.chunks) {
			d.fail("size and chunks do not agree")
		}
		m.expire = d.varint()
		if m.chunks == 0 {
			value = []byte{}
		}
	default:
		d.fail("unknown format of the value")
	}
	if err := d.end(); err != nil {
		return metadata{}, nil, err
	}
	return m, value, nil
}

// inline reads the metadata row of a key whose value is in it, as for most keys. It returns false
// for other rows and damaged ones. The value aliases b.
func (m *metadata) inline(b []byte) (value []byte, ok bool) {
	at := 1
	switch {
	case len(b) < 2:
		return nil, false
	case b[0] == metadataFormat:
		m.encoding = 0
	case b[0] == encodedFormat && b[1] != 0:
		m.encoding = b[1]
		at = 2
	default:
		return nil, false
	}
	version, at := uvarintAt(b, at)
	created, at := uvarintAt(b, at)
	var after, expire, size uint64
	if at+3 <= len(b) && b[at]|b[at+1]|b[at+2] < 0x80 { // as most are
		after, expire, size = uint64(b[at]), uint64(b[at+1]), uint64(b[at+2])
		at += 3
	} else {
		after, at = uvarintAt(b, at)
		expire, at = uvarintAt(b, at)
		size, at = uvarintAt(b, at)
	}
	if size > ChunkSize || at+int(size) != len(b) {
		return nil, false
	}
	m.version, m.created, m.expire = Version(version), zigzag(created), zigzag(expire)
	m.updated = m.created + zigzag(after)
	m.size, m.chunks = uint32(size), 0
	return b[at:], true
}

// uvarintAt reads a number of up to 63 bits at a position, and returns the position after it. That
// is beyond the end if there is no such number.
func uvarintAt(b []byte, at int) (v uint64, next int) {
	if at+8 <= len(b) {
		x := binary.LittleEndian.Uint64(b[at:])
		// has the bit of the last byte; of each byte 7 bits are put together
		if last := ^x & 0x8080808080808080; last != 0 {
			n := bits.TrailingZeros64(last)
			x &= 1<<n - 1
			x = x&0x007F007F007F007F | x>>1&0x3F803F803F803F80
			x = x&0x00003FFF00003FFF | x>>2&0x0FFFC0000FFFC000
			return x&0x000000000FFFFFFF | x>>4&0x00FFFFFFF0000000, at + n/8 + 1
		}
	}
	for shift := 0; at < len(b) && shift < 63; shift += 7 {
		c := b[at]
		at++
		if c < 0x80 {
			return v | uint64(c)<<shift, at
		}
		v |= uint64(c&0x7F) << shift
	}
	return 0, len(b) + 1
}

func zigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// parseEntry reads the metadata row of any key, or a root; ok is false for a root without a state.
func parseEntry(b []byte) (m metadata, value []byte, ok bool, err error) {
	if len(b) > 0 && b[0] == rootFormat {
		r, err := parseRoot(b)
		return r.state.meta, r.state.value, r.state.exists, err
	}
	m, value, err = parseMetadata(b)
	return m, value, err == nil, err
}

// Version counts the turns of an actor. It only grows; each turn has its own.
type Version uint64

// Generation counts the activations of an actor that committed. The latest one
// opened is the only one that can commit.
type Generation uint64

// Head has the counts and times of an actor as a whole. Each commit writes it. Keys that have
// expired count until they are deleted; the index of expiring keys does not count.
type Head struct {
	Generation Generation
	Version    Version
	Keys       int64 // logical keys
	Bytes      int64 // of all logical keys and their values
	Created    int64 // Unix ms of the first commit
	Updated    int64 // Unix ms of the last commit
	Destroyed  bool
}

// head is Head with the kinds that outlive the actor.
type head struct {
	Head
	kept string // kinds, one byte each; only if Destroyed
}

// root is the row that every commit of an actor writes: its head, and its state if that is small.
// It is the metadata row of the state, which exists as long as the actor, even without a state:
//
//	format 03 | flags | generation uvarint | version uvarint | keys uvarint | bytes uvarint | created varint |
//	updated varint | kept kinds length, bytes | if there is a state: version, created, updated - created, expire and
//	size as in the metadata of a key | if it lies here: the state
//
// Format 1 of the store has the head in a row of its own: the root up to the kept kinds, with
// format 01. The metadata of the state is like that of any key. A commit of such an actor writes
// its root and removes that row.
type root struct {
	head
	state stateCache
	old   bool // the head was in a row of its own
}

const (
	headFormat = 1

	rootDestroyed = 1 << 0
	rootState     = 1 << 1
	rootInline    = 1 << 2
)

// appendRoot appends the row of an actor with this head. It includes the state's value only if it
// is inline.
func (h *head) appendRoot(dst []byte, s *stateCache) []byte {
	var flags byte
	if s.exists {
		flags |= rootState
		if s.meta.chunks == 0 {
			flags |= rootInline
		}
	}
	dst = h.append(append(dst, rootFormat), flags)
	if s.exists {
		dst = s.meta.appendFields(dst)
	}
	if flags&rootInline != 0 {
		dst = append(dst, s.value...)
	}
	return dst
}

// append appends the head, after its format.
func (h *head) append(dst []byte, flags byte) []byte {
	if h.Destroyed {
		flags |= rootDestroyed
	}
	dst = append(dst, flags)
	dst = binary.AppendUvarint(dst, uint64(h.Generation))
	dst = binary.AppendUvarint(dst, uint64(h.Version))
	dst = binary.AppendUvarint(dst, uint64(h.Keys))
	dst = binary.AppendUvarint(dst, uint64(h.Bytes))
	dst = binary.AppendVarint(dst, h.Created)
	dst = binary.AppendVarint(dst, h.Updated)
	return appendString(dst, h.kept)
}

// parseRoot reads a root. The state's value aliases b.
func parseRoot(b []byte) (r root, err error) {
	d := decoder{b: b}
	if d.byte() != rootFormat {
		d.fail("unknown format of the value")
	}
	flags := d.head(&r.head)
	if r.state.exists = flags&rootState != 0; r.state.exists {
		r.state.meta.fields(&d)
	}
	inline := flags&rootInline != 0
	if flags&^(rootDestroyed|rootState|rootInline) != 0 || inline && !r.state.exists {
		d.fail("unknown flags of a head")
	}
	if inline {
		r.state.value = d.take(int(r.state.meta.size))
	} else {
		r.state.meta.chunks = uint32(chunksOf(int(r.state.meta.size)))
	}
	if err := d.end(); err != nil {
		return root{}, err
	}
	return r, nil
}

// parseHead reads a head that is a row of its own.
func parseHead(b []byte) (h head, err error) {
	d := decoder{b: b}
	d.format(headFormat)
	if d.head(&h)&^rootDestroyed != 0 {
		d.fail("unknown flags of a head")
	}
	if err := d.end(); err != nil {
		return head{}, err
	}
	return h, nil
}

// head decodes the head of head.append, and returns the flags.
func (d *decoder) head(h *head) (flags byte) {
	flags = d.byte()
	h.Destroyed = flags&rootDestroyed != 0
	h.Generation = Generation(d.uvarint())
	h.Version = Version(d.uvarint())
	h.Keys = int64(d.uvarint())
	h.Bytes = int64(d.uvarint())
	h.Created = d.varint()
	h.Updated = d.varint()
	h.kept = d.string()
	if h.Keys < 0 || h.Bytes < 0 {
		d.fail("counts of a head are out of range")
	}
	return flags
}

// Identity is the name of an actor: the namespace and type that it belongs to,
// and a key of zero or more strings.
type Identity struct {
	Namespace string
	Type      string
	Key       []string
}

const identityFormat = 1

// append appends namespace, type and key parts, each with its length.
func (i Identity) append(dst []byte) []byte {
	dst = appendString(dst, i.Namespace)
	dst = appendString(dst, i.Type)
	dst = binary.AppendUvarint(dst, uint64(len(i.Key)))
	for _, part := range i.Key {
		dst = appendString(dst, part)
	}
	return dst
}

func (d *decoder) identity() Identity {
	i := Identity{Namespace: d.string(), Type: d.string()}
	if n := d.count(); n > 0 {
		i.Key = make([]string, n)
		for j := range i.Key {
			i.Key[j] = d.string()
		}
	}
	return i
}

// appendIdentity appends the value of an identity row: format 01 | created
// varint | identity.
func appendIdentity(dst []byte, i Identity, created int64) []byte {
	dst = append(dst, identityFormat)
	dst = binary.AppendVarint(dst, created)
	return i.append(dst)
}

func parseIdentity(b []byte) (Identity, int64, error) {
	d := decoder{b: b}
	d.format(identityFormat)
	created := d.varint()
	i := d.identity()
	if err := d.end(); err != nil {
		return Identity{}, 0, err
	}
	return i, created, nil
}

// Tombstone is the record that remains of a destroyed actor.
type Tombstone struct {
	Identity  Identity
	Destroyed int64 // Unix ms
	Version   Version
}

const tombstoneFormat = 1

// append appends format 01 | destroyed varint | version uvarint | identity.
func (t Tombstone) append(dst []byte) []byte {
	dst = append(dst, tombstoneFormat)
	dst = binary.AppendVarint(dst, t.Destroyed)
	dst = binary.AppendUvarint(dst, uint64(t.Version))
	return t.Identity.append(dst)
}

func parseTombstone(b []byte) (Tombstone, error) {
	d := decoder{b: b}
	d.format(tombstoneFormat)
	t := Tombstone{Destroyed: d.varint(), Version: Version(d.uvarint())}
	t.Identity = d.identity()
	if err := d.end(); err != nil {
		return Tombstone{}, err
	}
	return t, nil
}

const directoryFormat = 1

// appendDirectory appends the value of a directory row: format 01 | 16 bytes of
// the actor id.
func appendDirectory(dst []byte, id keyspace.ActorID) []byte {
	return append(append(dst, directoryFormat), id[:]...)
}

func parseDirectory(b []byte) (id keyspace.ActorID, err error) {
	d := decoder{b: b}
	d.format(directoryFormat)
	if d.reason == "" && len(d.rest()) != len(id) {
		d.fail("bad length of an actor id")
	}
	d.at += copy(id[:], d.rest())
	if err := d.end(); err != nil {
		return keyspace.ActorID{}, err
	}
	return id, nil
}

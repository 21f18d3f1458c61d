package engine

import (
	"encoding/binary"
	"math"

	"github.com/cairn-run/cairn/keyspace"
)

// metadata is the value of the metadata row of a logical key, which exists if
// and only if the key does:
//
//	format 01 | version uvarint | created varint | updated - created varint |
//	size uvarint | chunks uvarint | expire varint
//
// Times are Unix milliseconds, expire 0 means never. chunks follows from size;
// it is stored so that a reader can tell a damaged row.
type metadata struct {
	version Version
	created int64
	updated int64
	expire  int64
	size    uint32
	chunks  uint32
}

const metadataFormat = 1

// maxMetadata is more than a metadata row can take.
const maxMetadata = 1 + 6*binary.MaxVarintLen64

// chunksOf returns the number of data rows of a value.
func chunksOf(size int) int { return (size + ChunkSize - 1) / ChunkSize }

// expired reports whether the key reads as absent at now.
func (m *metadata) expired(now int64) bool { return m.expire != 0 && m.expire <= now }

func (m *metadata) append(dst []byte) []byte {
	dst = append(dst, metadataFormat)
	dst = binary.AppendUvarint(dst, uint64(m.version))
	dst = binary.AppendVarint(dst, m.created)
	dst = binary.AppendVarint(dst, m.updated-m.created)
	dst = binary.AppendUvarint(dst, uint64(m.size))
	dst = binary.AppendUvarint(dst, uint64(m.chunks))
	return binary.AppendVarint(dst, m.expire)
}

func parseMetadata(b []byte) (metadata, error) {
	d := decoder{b: b}
	d.format(metadataFormat)
	m := metadata{version: Version(d.uvarint()), created: d.varint()}
	m.updated = m.created + d.varint()
	size, chunks := d.uvarint(), d.uvarint()
	m.expire = d.varint()
	if err := d.end(); err != nil {
		return metadata{}, err
	}
	if size > math.MaxInt32 || chunks != uint64(chunksOf(int(size))) {
		return metadata{}, &CorruptError{Reason: "size and chunks do not agree"}
	}
	m.size, m.chunks = uint32(size), uint32(chunks)
	return m, nil
}

// Version counts the turns of an actor. It only grows; each turn has its own.
type Version uint64

// Generation counts the activations of an actor that committed. The latest one
// opened is the only one that can commit.
type Generation uint64

// Head is what the store keeps about an actor as a whole. It is written by each
// commit. Keys that have expired count until they are deleted; the index of
// expiring keys does not count.
type Head struct {
	Generation Generation
	Version    Version
	Keys       int64 // logical keys
	Bytes      int64 // of all logical keys and their values
	Created    int64 // Unix ms of the first commit
	Updated    int64 // Unix ms of the last commit
	Destroyed  bool
}

// head is Head with the kinds that outlive the actor:
//
//	format 01 | flags | generation uvarint | version uvarint | keys uvarint |
//	bytes uvarint | created varint | updated varint | kept kinds length, bytes
type head struct {
	Head
	kept string // kinds, one byte each; only if Destroyed
}

const (
	headFormat    = 1
	headDestroyed = 1 << 0
)

func (h *head) append(dst []byte) []byte {
	var flags byte
	if h.Destroyed {
		flags |= headDestroyed
	}
	dst = append(dst, headFormat, flags)
	dst = binary.AppendUvarint(dst, uint64(h.Generation))
	dst = binary.AppendUvarint(dst, uint64(h.Version))
	dst = binary.AppendUvarint(dst, uint64(h.Keys))
	dst = binary.AppendUvarint(dst, uint64(h.Bytes))
	dst = binary.AppendVarint(dst, h.Created)
	dst = binary.AppendVarint(dst, h.Updated)
	return appendString(dst, h.kept)
}

func parseHead(b []byte) (head, error) {
	d := decoder{b: b}
	d.format(headFormat)
	flags := d.byte()
	var h head
	h.Destroyed = flags&headDestroyed != 0
	h.Generation = Generation(d.uvarint())
	h.Version = Version(d.uvarint())
	h.Keys = int64(d.uvarint())
	h.Bytes = int64(d.uvarint())
	h.Created = d.varint()
	h.Updated = d.varint()
	h.kept = d.string()
	if err := d.end(); err != nil {
		return head{}, err
	}
	if flags&^headDestroyed != 0 {
		return head{}, &CorruptError{Reason: "unknown flags of a head"}
	}
	if h.Keys < 0 || h.Bytes < 0 {
		return head{}, &CorruptError{Reason: "counts of a head are out of range"}
	}
	return h, nil
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

// Tombstone is what remains of a destroyed actor.
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
	if d.reason == "" && len(d.b) != len(id) {
		d.fail("bad length of an actor id")
	}
	copy(id[:], d.b)
	d.b = nil
	if err := d.end(); err != nil {
		return keyspace.ActorID{}, err
	}
	return id, nil
}
